"""OTLP to a collector, redacted: exporters to build in code, and the same as entry points.

``OTEL_TRACES_EXPORTER=memtrace_otlp`` (likewise ``OTEL_LOGS_EXPORTER``, ``OTEL_METRICS_EXPORTER``) picks them, under
``opentelemetry-instrument`` or any SDK that configures itself. The standard ``OTEL_EXPORTER_OTLP_*`` variables set
endpoint, headers, time limits, compression and certificates.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Final
from urllib.parse import urlsplit

from memtrace.errors import UsageError
from memtrace.export import variables
from memtrace.export.exporters import RedactingLogExporter, RedactingMetricExporter, RedactingSpanExporter
from memtrace.export.parting import Parting
from memtrace.export.sdk_environment import (
    can_send,
    correct_batch_variables,
    correct_exporter_variables,
    correct_metric_variables,
    is_address,
)
from memtrace.export.settings import default_policy
from memtrace.redaction import Policy

GRPC: Final = "grpc"
HTTP: Final = "http/protobuf"
NOWHERE: Final = "http://localhost"
"""For an exporter that is not to send."""

_EXPORTERS: Final = {
    "traces": ("trace_exporter", "OTLPSpanExporter"),
    "logs": ("_log_exporter", "OTLPLogExporter"),
    "metrics": ("metric_exporter", "OTLPMetricExporter"),
}


def otlp(
    *, endpoint: str = "", protocol: str = "", headers: Mapping[str, str] | None = None, policy: Policy | None = None
) -> RedactingSpanExporter:
    """Spans to a collector, redacted.

    Args:
        endpoint: its base URL, such as ``http://collector:4317``; by default as ``OTEL_EXPORTER_OTLP_*`` say.
        protocol: ``grpc`` or ``http/protobuf``; by default as ``OTEL_EXPORTER_OTLP_PROTOCOL`` says, else ``grpc``.
        headers: sent with every request.
        policy: what may leave; by default the allow-list with the environment's names and id key.

    Raises:
        UsageError: there is no such protocol, or the ``[export]`` extra is not installed.
    """
    return RedactingSpanExporter(
        _plain("traces", endpoint, protocol=protocol, headers=headers), policy or default_policy()
    )


def otlp_logs(
    *, endpoint: str = "", protocol: str = "", headers: Mapping[str, str] | None = None, policy: Policy | None = None
) -> RedactingLogExporter:
    """Log records to a collector, redacted; as `otlp`."""
    return RedactingLogExporter(
        _plain("logs", endpoint, protocol=protocol, headers=headers), policy or default_policy()
    )


def otlp_metrics(
    *, endpoint: str = "", protocol: str = "", headers: Mapping[str, str] | None = None, policy: Policy | None = None
) -> RedactingMetricExporter:
    """Metrics to a collector, redacted; as `otlp`."""
    return RedactingMetricExporter(
        _plain("metrics", endpoint, protocol=protocol, headers=headers), policy or default_policy()
    )


class OTLPSpans(RedactingSpanExporter):
    """The entry point ``memtrace_otlp`` for spans."""

    def __init__(self) -> None:
        correct_batch_variables("OTEL_BSP")
        super().__init__(_plain("traces"), default_policy())


class OTLPLogs(RedactingLogExporter):
    """The entry point ``memtrace_otlp`` for log records."""

    def __init__(self) -> None:
        correct_batch_variables("OTEL_BLRP")
        super().__init__(_plain("logs"), default_policy())


class OTLPMetrics(RedactingMetricExporter):
    """The entry point ``memtrace_otlp`` for metrics."""

    def __init__(self) -> None:
        correct_metric_variables()
        super().__init__(_plain("metrics"), default_policy())


def _plain(signal: str, endpoint: str = "", *, protocol: str = "", headers: Mapping[str, str] | None = None) -> Any:
    """The SDK's own exporter for a signal."""
    chosen = _protocol(signal, protocol)
    module, name = _EXPORTERS[signal]
    package = "grpc" if chosen == GRPC else "http"
    try:
        made = getattr(import_module(f"opentelemetry.exporter.otlp.proto.{package}.{module}"), name)
    except ImportError as error:
        raise UsageError(f"exporting over {chosen} needs: pip install 'memtrace-otel[export]'") from error
    options = _address(signal, endpoint, protocol=chosen) | ({"headers": dict(headers)} if headers else {})
    options["compression"] = variables.compression(signal, package)
    correct_exporter_variables(signal)
    refusing = not can_send(signal, endpoint=endpoint, protocol=chosen)
    if refusing:  # Without TLS, since for TLS the SDK would read the files that cannot be read, and print their names.
        options |= {"endpoint": NOWHERE, "insecure": True} if chosen == GRPC else {"endpoint": NOWHERE}
    return Parting(lambda timeout: made(timeout=timeout, **options), variables.timeout(signal), refusing=refusing)


def _address(signal: str, endpoint: str, *, protocol: str) -> dict[str, Any]:
    if not endpoint:
        return {}
    if not is_address(endpoint, protocol) or "://" not in endpoint:
        raise UsageError(f"endpoint={endpoint!r} is no http:// or https:// URL")
    if protocol == GRPC:
        return {"endpoint": endpoint, "insecure": urlsplit(endpoint).scheme != "https"}
    return {"endpoint": _signal_url(endpoint, signal)}


def _protocol(signal: str, given: str) -> str:
    if given:
        if given not in (GRPC, HTTP):
            raise UsageError(f"protocol={given!r} is neither {GRPC!r} nor {HTTP!r}")
        return given
    names = (f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    name = next((name for name in names if os.environ.get(name)), "")
    chosen = os.environ[name].strip() if name else GRPC
    if chosen not in (GRPC, HTTP):
        variables.warn_once(name, f"neither {GRPC} nor {HTTP}: {GRPC} is used")
        return GRPC
    return chosen


def _signal_url(endpoint: str, signal: str) -> str:
    """A base URL gets the signal's path, as the one in ``OTEL_EXPORTER_OTLP_ENDPOINT`` does."""
    base = endpoint.rstrip("/")
    return base if base.endswith(f"/v1/{signal}") else f"{base}/v1/{signal}"
