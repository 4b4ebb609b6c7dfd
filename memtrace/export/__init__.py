"""Between your process and the collector: what leaves is rebuilt from an allow-list (`memtrace.redaction`).

::

    memtrace.configure(service="pet-shop", names=["porter", "gpt-4o"], local="record", endpoint="http://collector:4317")

or, beside a provider of one's own, ``provider.add_span_processor(BatchSpanProcessor(memtrace.export.otlp()))``, or with
environment variables alone, ``OTEL_TRACES_EXPORTER=memtrace_otlp``.
"""

from memtrace.errors import UsageError

try:
    import opentelemetry.sdk  # noqa: F401  what all of this works with
except ImportError as missing:
    raise UsageError(
        "memtrace.configure and memtrace.export need OpenTelemetry's SDK: pip install 'memtrace-otel[export]'"
    ) from missing

from memtrace.export.collector import OTLPLogs, OTLPMetrics, OTLPSpans, otlp, otlp_logs, otlp_metrics
from memtrace.export.erasing import erase
from memtrace.export.exporters import RedactingLogExporter, RedactingMetricExporter, RedactingSpanExporter
from memtrace.export.pipeline import Pipeline, configure
from memtrace.export.recent import RecentSpans
from memtrace.export.record import LocalRecord, recorded
from memtrace.export.settings import default_policy
from memtrace.export.withheld import losses, report

__all__ = [
    "LocalRecord",
    "OTLPLogs",
    "OTLPMetrics",
    "OTLPSpans",
    "Pipeline",
    "RecentSpans",
    "RedactingLogExporter",
    "RedactingMetricExporter",
    "RedactingSpanExporter",
    "configure",
    "default_policy",
    "erase",
    "losses",
    "otlp",
    "otlp_logs",
    "otlp_metrics",
    "recorded",
    "report",
]
