"""`configure`: a tracer provider with a full record here and a redacted export there, in one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from opentelemetry import metrics, trace
from opentelemetry.metrics import _internal as metrics_module
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from memtrace.capture import disown, own
from memtrace.errors import UsageError
from memtrace.export import variables
from memtrace.export.collector import otlp, otlp_metrics
from memtrace.export.exporters import SPANS
from memtrace.export.recent import RecentSpans
from memtrace.export.record import RECORDED, LocalRecord
from memtrace.export.sdk_environment import correct_limit_variables, correct_metric_variables
from memtrace.export.settings import default_policy, usable
from memtrace.export.withheld import lost
from memtrace.redaction import Policy

MEMORY: Final = "memory"
SHUTDOWN_MILLIS: Final = 5_000
"""An application's exit waits at most so long for a collector that does not answer."""
_LAST_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Pipeline:
    """What `configure` set up. ``record`` is ``None`` where no local record was asked for."""

    tracer_provider: TracerProvider
    meter_provider: MeterProvider | None
    record: LocalRecord | RecentSpans | None
    policy: Policy

    def flush(self) -> None:
        """Write and export what is waiting."""
        self.tracer_provider.force_flush()
        if self.meter_provider is not None:
            self.meter_provider.force_flush()

    def shutdown(self) -> None:
        """The same, and no more after it."""
        self.tracer_provider.shutdown()
        if self.meter_provider is not None:
            self.meter_provider.shutdown()


def configure(
    *,
    service: str = "",
    names: Iterable[str] = (),
    local: str | Path | None = None,
    export: bool = True,
    endpoint: str = "",
    protocol: str = "",
    headers: Mapping[str, str] | None = None,
    policy: Policy | None = None,
) -> Pipeline:
    """Set up the global tracer and meter provider: spans whole in a local record, redacted to a collector.

    Args:
        service: the service's name.
        names: agents, models, tools, blocks, hosts and routes that may be named to the collector.
        local: a directory for the local record, or ``"memory"``; by default there is none.
        export: whether anything goes to a collector.
        endpoint: and the next two are those of `memtrace.export.otlp`.
        protocol: ``grpc`` or ``http/protobuf``.
        headers: sent with every request.
        policy: what else may leave, such as ``default_policy().allowing(…)``; these names are added to it.

    Raises:
        UsageError: a provider is already set, or an argument is off.
    """
    if _is_set():
        raise UsageError("a tracer or meter provider is already set; add memtrace.export.otlp() to yours instead")
    policy = (policy or default_policy()).naming(*usable([service]), *usable(names))
    to = {"endpoint": endpoint, "protocol": protocol, "headers": headers, "policy": policy}
    spans, figures = (otlp(**to), otlp_metrics(**to)) if export else (None, None)  # type: ignore[arg-type]
    correct_limit_variables()
    correct_metric_variables()
    record = RecentSpans() if local == MEMORY else None if local is None else LocalRecord(local)
    resource = Resource.create({"service.name": service} if service else {})
    tracers = _provider(resource, export=spans, record=record, content=record is not None or policy.payloads)
    trace.set_tracer_provider(tracers)
    meters = None
    if figures is not None:
        meters = MeterProvider([PeriodicExportingMetricReader(figures)], resource)
        metrics.set_meter_provider(meters)
    return Pipeline(tracers, meters, record, policy)


def _provider(
    resource: Resource, *, export: SpanExporter | None, record: SpanExporter | None, content: bool
) -> TracerProvider:
    provider = OwnProvider(resource=resource)
    if content:
        own(provider)
    if record is not None:
        provider.add_span_processor(Batches(record, RECORDED))
    if export is not None:
        provider.add_span_processor(Batches(export, SPANS))
    return provider


class OwnProvider(TracerProvider):
    """A provider that stops recording content once somebody else's processor is added to it."""

    def add_span_processor(self, span_processor: SpanProcessor) -> None:
        """Add a processor; unless it is one of `configure`'s, no content and no raw id is recorded from now on."""
        if not isinstance(span_processor, Batches):
            disown(self)
        super().add_span_processor(span_processor)


class Batches(BatchSpanProcessor):
    """The SDK's batch processor, with what its full queue drops counted, and a shutdown that ends."""

    def __init__(self, exporter: SpanExporter, signal: str, **options: Any) -> None:
        super().__init__(exporter, **{**variables.batches(), **options})
        self._signal = signal

    def on_end(self, span: ReadableSpan) -> None:
        """Put a span into the queue."""
        queue = self._batch_processor._queue  # noqa: SLF001  the SDK tells only its own log that it drops
        if len(queue) == queue.maxlen:
            lost(self._signal, 1)
        super().on_end(span)

    def shutdown(self) -> None:
        """Export what waits, for a bounded time."""
        self._batch_processor.shutdown(timeout_millis=SHUTDOWN_MILLIS)
        self._batch_processor._worker_thread.join(_LAST_SECONDS)  # noqa: SLF001  it counts the batch that was under way
        lost(self._signal, len(self._batch_processor._queue))  # noqa: SLF001


def _is_set() -> bool:
    return getattr(trace, "_TRACER_PROVIDER", None) is not None or metrics_module._METER_PROVIDER is not None  # noqa: SLF001
