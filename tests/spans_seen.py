"""Spans as a collector would get them, and the durations beside them."""

from __future__ import annotations

import json
from typing import Any

from opentelemetry.context import Context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler

from memtrace.model import Level, Record, Scope
from memtrace.tracing import Tracing, own

ALICE = Scope(Level.USER, "alice", "shop")
KEY = "k" * 32


class Seen:
    """A provider of one's own, a `Tracing` on it, and what came out."""

    def __init__(self, *, owned: bool = False, sampler: Sampler = ALWAYS_ON, content: bool | None = None) -> None:
        self.provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        self.exporter = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.started: list[str] = []
        self.provider.add_span_processor(_Started(self.started))
        self.reader = InMemoryMetricReader()
        meters = MeterProvider(metric_readers=[self.reader], shutdown_on_exit=False)
        if owned:
            own(self.provider)
        self.tracing = Tracing(tracer_provider=self.provider, meter_provider=meters, content=content)
        self.tracer = self.provider.get_tracer("application")

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """In the order they ended."""
        return self.exporter.get_finished_spans()

    @property
    def names(self) -> list[str]:
        return [span.name for span in self.spans]

    def one(self, name: str) -> ReadableSpan:
        (span,) = [span for span in self.spans if span.name == name]
        return span

    def said(self, name: str) -> dict[str, Any]:
        return dict(self.one(name).attributes or {})

    def parents(self) -> dict[str, str]:
        """The name of each span's parent, ``""`` for a root."""
        by_id = {span.context.span_id: span.name for span in self.spans}
        return {span.name: by_id.get(span.parent.span_id, "elsewhere") if span.parent else "" for span in self.spans}

    def exported(self) -> str:
        """Everything the spans hold, as text."""
        return "\n".join(span.to_json() for span in self.spans)

    def durations(self) -> list[dict[str, Any]]:
        """The attributes of each duration that was counted, as many times as it was."""
        data = self.reader.get_metrics_data()
        if data is None:
            return []
        metrics = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics]
        points = [point for metric in metrics for point in metric.data.data_points]
        return sorted(
            (dict(p.attributes) for p in points for _ in range(p.count)),
            key=lambda one: json.dumps(one, sort_keys=True),
        )


class _Started(SpanProcessor):
    def __init__(self, names: list[str]) -> None:
        self._names = names

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self._names.append(span.name)


def fact(text: str, number: int, writer: tuple[str, str] = ("", "")) -> Record:
    return Record(ALICE, text, id=number, source_trace_id=writer[0], source_span_id=writer[1])
