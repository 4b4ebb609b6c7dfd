"""Exporters that let nothing past a policy: they rebuild what they are given, then hand it to another exporter.

What cannot be rebuilt is dropped and counted, never handed on as it was. What the other exporter raises goes no further
than a line that names its type: the message may quote what was exported.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from opentelemetry._logs import SeverityNumber
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk._logs.export import LogRecordExporter, LogRecordExportResult
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from memtrace.export.rebuilding import Rebuilder
from memtrace.export.withheld import Tally, lost, ready
from memtrace.redaction import Policy

SPANS: Final = "spans"
LOGS: Final = "logs"
METRICS: Final = "metrics"

_log = logging.getLogger("memtrace.export")
T = TypeVar("T")
R = TypeVar("R")


class RedactingSpanExporter(SpanExporter):
    """Hands spans on to ``exporter`` as ``policy`` lets them leave."""

    def __init__(self, exporter: SpanExporter, policy: Policy) -> None:
        self._exporter = exporter
        self._policy = policy
        ready()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Rebuild and hand on."""
        clean = _rebuilt(self._policy, spans, rebuild=Rebuilder.span, signal=SPANS)
        success, failure = SpanExportResult.SUCCESS, SpanExportResult.FAILURE
        return _handed_on(self._exporter.export, clean, signal=SPANS, success=success, failure=failure)

    def shutdown(self) -> None:
        """Shut the other exporter down."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Flush the other exporter."""
        return self._exporter.force_flush(timeout_millis)


class RedactingLogExporter(LogRecordExporter):
    """Hands log records on to ``exporter`` as ``policy`` lets them leave."""

    def __init__(self, exporter: LogRecordExporter, policy: Policy) -> None:
        self._exporter = exporter
        self._policy = policy
        ready()

    def export(self, batch: Sequence[ReadableLogRecord]) -> LogRecordExportResult:
        """Rebuild and hand on."""
        others = [each for each in batch if not _is_own_debug(each)]
        clean = _rebuilt(self._policy, others, rebuild=Rebuilder.log, signal=LOGS)
        success, failure = LogRecordExportResult.SUCCESS, LogRecordExportResult.FAILURE
        return _handed_on(self._exporter.export, clean, signal=LOGS, success=success, failure=failure)

    def shutdown(self) -> None:
        """Shut the other exporter down."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Flush the other exporter, where it can be."""
        flush = getattr(self._exporter, "force_flush", None)
        return True if flush is None else bool(flush(timeout_millis))


class RedactingMetricExporter(MetricExporter):
    """Hands metrics on to ``exporter`` as ``policy`` lets them leave, at its temporality and aggregation."""

    def __init__(self, exporter: MetricExporter, policy: Policy) -> None:
        super().__init__(exporter._preferred_temporality, exporter._preferred_aggregation)  # noqa: SLF001  the SDK's own way
        self._exporter = exporter
        self._policy = policy
        ready()

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **options: Any) -> MetricExportResult:
        """Rebuild and hand on."""
        clean = _rebuilt(self._policy, [metrics_data], rebuild=Rebuilder.metrics, signal=METRICS)
        success, failure = MetricExportResult.SUCCESS, MetricExportResult.FAILURE

        def hand_on(batch: Sequence[MetricsData]) -> MetricExportResult:
            return self._exporter.export(batch[0], timeout_millis=timeout_millis, **options)

        return _handed_on(hand_on, clean, signal=METRICS, success=success, failure=failure)

    def shutdown(self, timeout_millis: float = 30_000, **options: Any) -> None:
        """Shut the other exporter down."""
        self._exporter.shutdown(timeout_millis=timeout_millis, **options)

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        """Flush the other exporter."""
        return self._exporter.force_flush(timeout_millis)


def _is_own_debug(log: ReadableLogRecord) -> bool:
    """Whether it tells of an earlier batch: exporting it would make another, without end."""
    severity = log.log_record.severity_number
    mine = log.instrumentation_scope is not None and log.instrumentation_scope.name == _log.name
    return mine and severity is not None and severity.value < SeverityNumber.INFO.value


def _rebuilt(policy: Policy, batch: Sequence[T], *, rebuild: Callable[[Rebuilder, T], T], signal: str) -> list[T]:
    tally = Tally()
    rebuilder = Rebuilder(policy, tally)
    clean = []
    for item in batch:
        try:
            clean.append(rebuild(rebuilder, item))
        except Exception as error:  # noqa: BLE001  telemetry never breaks the application, nor leaves unredacted
            _log.warning("one of the %s could not be redacted (%s) and was dropped", signal, type(error).__name__)
    lost(signal, len(batch) - len(clean))
    tally.publish(signal)
    return clean


def _handed_on(export: Callable[[Sequence[T]], R], clean: Sequence[T], *, signal: str, success: R, failure: R) -> R:
    if not clean:
        return success
    try:
        result = export(clean)
    except Exception as error:  # noqa: BLE001  telemetry never breaks the application
        _log.warning("exporting %s failed: %s", signal, type(error).__name__)
        result = failure
    if result is not success:
        lost(signal, len(clean))
    return result
