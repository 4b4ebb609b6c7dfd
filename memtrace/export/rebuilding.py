"""Spans, log records and metrics as a policy lets them leave: new objects, with nothing of the old ones in them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from opentelemetry._logs import LogRecord
from opentelemetry.context import Context
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.metrics.export import (
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, Status

from memtrace import semconv
from memtrace.redaction import SEVERITIES, UNITS, Note, Policy, Reason


class Rebuilder:
    """Rebuilds one batch, and remembers its resources and scopes, which many items share."""

    def __init__(self, policy: Policy, note: Note) -> None:
        self._policy = policy
        self._note = note
        self._resources: dict[int, Resource] = {}
        self._scopes: dict[int, InstrumentationScope | None] = {}

    # Spans

    def span(self, span: ReadableSpan) -> ReadableSpan:
        """A span; ``memtrace.withheld`` on it says how many things were withheld."""
        policy, note = self._policy, _Counting(self._note)
        attributes = policy.attributes(span.attributes, note)
        events = [self._event(event, note) for event in span.events]
        links = [
            Link(self._context(link.context, note), policy.attributes(link.attributes, note)) for link in span.links
        ]
        name = policy.span_name(span.name, note)
        status = Status(span.status.status_code, policy.text(span.status.description, "status text", note))
        context = self._context(span.get_span_context(), note)
        if note.count:
            attributes[semconv.WITHHELD] = note.count
        return ReadableSpan(
            name=name,
            context=context,
            parent=self._context(span.parent, note),
            resource=self.resource(span.resource),
            attributes=attributes,
            events=events,
            links=links,
            kind=span.kind,
            status=status,
            start_time=span.start_time,
            end_time=span.end_time,
            instrumentation_scope=self.scope(span.instrumentation_scope),
        )

    def _event(self, event: Event, note: Note) -> Event:
        policy = self._policy
        return Event(policy.event_name(event.name, note), policy.attributes(event.attributes, note), event.timestamp)

    def _context(self, context: SpanContext | None, note: Note) -> Any:
        """Ids and flags. Of a trace state, anyone's to write into, nothing leaves."""
        if context is None or not context.trace_state or self._policy.payloads:
            return context
        note("trace state", Reason.TEXT)
        return SpanContext(context.trace_id, context.span_id, context.is_remote, context.trace_flags)

    # Logs

    def log(self, log: ReadableLogRecord) -> ReadableLogRecord:
        """A log record: when, how severe, which event, in which span. Never its body."""
        policy, note, old = self._policy, self._note, log.log_record
        new = LogRecord(
            timestamp=old.timestamp,
            observed_timestamp=old.observed_timestamp,
            context=Context(),
            severity_text=policy.one_of(SEVERITIES, old.severity_text, "severity", note),
            severity_number=old.severity_number,
            body=policy.text(old.body, "log body", note),
            attributes=policy.attributes(old.attributes, note),
            event_name=policy.event_name(old.event_name, note) if old.event_name else None,
        )
        new.trace_id, new.span_id, new.trace_flags = old.trace_id, old.span_id, old.trace_flags
        return ReadableLogRecord(new, self.resource(log.resource), self.scope(log.instrumentation_scope))

    # Metrics

    def metrics(self, data: MetricsData) -> MetricsData:
        """Metrics of known names; of two series that have become one, the sum."""
        return MetricsData([self._of_resource(each) for each in data.resource_metrics])

    def _of_resource(self, old: ResourceMetrics) -> ResourceMetrics:
        scopes = [self._of_scope(each) for each in old.scope_metrics]
        return ResourceMetrics(
            self.resource(old.resource), scopes, self._policy.schema(old.schema_url, self._note) or ""
        )

    def _of_scope(self, old: ScopeMetrics) -> ScopeMetrics:
        kept = [metric for each in old.metrics if (metric := self._metric(each)) is not None]
        scope = self.scope(old.scope)
        assert scope is not None  # noqa: S101  it has a scope, so the new one has
        return ScopeMetrics(scope, kept, self._schema(old.schema_url))

    def _schema(self, url: str | None) -> str:
        return self._policy.schema(url, self._note) or ""

    def _metric(self, old: Metric) -> Metric | None:
        policy, note = self._policy, self._note
        name = policy.metric_name(old.name, note)
        if name is None:
            return None
        points = [self._point(point) for point in old.data.data_points]
        data: Any = old.data
        data = replace(data, data_points=points if policy.payloads else _merged(data, points))
        description = policy.text(old.description, "description", note)
        return Metric(name, description, policy.one_of(UNITS, old.unit, "unit", note), data)

    def _point(self, old: Any) -> Any:
        exemplars = [
            replace(each, filtered_attributes=self._policy.attributes(each.filtered_attributes, self._note))
            for each in old.exemplars
        ]
        return replace(old, attributes=self._policy.attributes(old.attributes, self._note), exemplars=exemplars)

    # What items share

    def resource(self, old: Resource) -> Resource:
        """The process that speaks."""
        if id(old) not in self._resources:
            attributes = self._policy.attributes(old.attributes, self._note)
            self._resources[id(old)] = Resource(attributes, self._policy.schema(old.schema_url, self._note))
        return self._resources[id(old)]

    def scope(self, old: InstrumentationScope | None) -> InstrumentationScope | None:
        """The instrumentation that speaks."""
        if old is None:
            return None
        if id(old) not in self._scopes:
            policy, note = self._policy, self._note
            self._scopes[id(old)] = InstrumentationScope(
                policy.scope_name(old.name, note),
                policy.version(old.version, note),
                policy.schema(old.schema_url, note),
                policy.attributes(old.attributes, note),
            )
        return self._scopes[id(old)]


class _Counting:
    """Passes notes on and counts them."""

    __slots__ = ("_note", "count")

    def __init__(self, note: Note) -> None:
        self._note = note
        self.count = 0

    def __call__(self, key: str, reason: Reason) -> None:
        self.count += 1
        self._note(key, reason)


def _merged(data: Any, points: Sequence[Any]) -> list[Any]:
    """Sums and histograms whose attributes have become equal, added up: a series may have one point only."""
    add = _add_numbers if isinstance(data, Sum) else _add_histograms if isinstance(data, Histogram) else None
    if add is None:
        return list(points)
    merged: dict[Any, Any] = {}
    for point in points:
        key = (frozenset(_hashable(point.attributes.items())), tuple(getattr(point, "explicit_bounds", ())))
        merged[key] = add(merged[key], point) if key in merged else point
    return list(merged.values())


def _hashable(items: Iterable[tuple[str, Any]]) -> Iterable[tuple[str, Any]]:
    return ((key, tuple(value) if isinstance(value, list) else value) for key, value in items)


def _add_numbers(one: NumberDataPoint, other: NumberDataPoint) -> NumberDataPoint:
    return replace(
        one,
        value=one.value + other.value,
        exemplars=[*one.exemplars, *other.exemplars],
        start_time_unix_nano=min(one.start_time_unix_nano, other.start_time_unix_nano),
        time_unix_nano=max(one.time_unix_nano, other.time_unix_nano),
    )


def _add_histograms(one: HistogramDataPoint, other: HistogramDataPoint) -> HistogramDataPoint:
    return replace(
        one,
        count=one.count + other.count,
        sum=one.sum + other.sum,
        bucket_counts=[a + b for a, b in zip(one.bucket_counts, other.bucket_counts, strict=True)],
        min=min(one.min, other.min),
        max=max(one.max, other.max),
        exemplars=[*one.exemplars, *other.exemplars],
        start_time_unix_nano=min(one.start_time_unix_nano, other.start_time_unix_nano),
        time_unix_nano=max(one.time_unix_nano, other.time_unix_nano),
    )
