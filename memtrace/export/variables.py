"""The standard variables of OpenTelemetry, read before the SDK reads them: a bad value is one line, and the default.

The SDK itself answers some of them with a traceback, some with an exception that leaves an application without
telemetry. A line names the variable and never quotes its value, which may be a secret in the wrong place.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from math import isfinite
from typing import Any, Final, TypeVar

TIMEOUT_SECONDS: Final = 10.0
_COMPRESSIONS: Final = {"grpc": ("none", "gzip"), "http": ("none", "gzip", "deflate")}
_ENUM: Final = {"none": "NoCompression", "gzip": "Gzip", "deflate": "Deflate"}
_BATCH: Final = {
    "max_queue_size": ("MAX_QUEUE_SIZE", 2048),
    "schedule_delay_millis": ("SCHEDULE_DELAY", 5000),
    "max_export_batch_size": ("MAX_EXPORT_BATCH_SIZE", 512),
    "export_timeout_millis": ("EXPORT_TIMEOUT", 30_000),
}
_log = logging.getLogger("memtrace.export")
T = TypeVar("T")


def timeout(signal: str) -> float:
    """Seconds that one export may take, for ``traces``, ``logs`` or ``metrics``."""
    return _read(
        named(signal, "TIMEOUT"), _seconds, default=TIMEOUT_SECONDS, fault=f"no number of seconds: {TIMEOUT_SECONDS:g}"
    )


def compression(signal: str, package: str) -> Any:
    """The member of the exporter's own enumeration, for ``grpc`` or ``http``."""
    names = _COMPRESSIONS[package]

    def known(text: str) -> str:
        return text.strip().lower() if text.strip().lower() in names else ""

    chosen = _read(named(signal, "COMPRESSION"), known, default="none", fault=f"none of {', '.join(names)}: none")
    module = "grpc" if package == "grpc" else "opentelemetry.exporter.otlp.proto.http"
    return getattr(import_module(module).Compression, _ENUM[chosen])


def batch_variable(prefix: str, argument: str) -> tuple[str, int]:
    """The variable that an argument of the SDK's batch processor comes from, and the default."""
    suffix, default = _BATCH[argument]
    return f"{prefix}_{suffix}", default


def batches(prefix: str = "OTEL_BSP") -> dict[str, int]:
    """Arguments of the SDK's batch processor of spans, or (``OTEL_BLRP``) of log records."""
    read = {}
    for argument in _BATCH:
        name, default = batch_variable(prefix, argument)
        read[argument] = _read(name, _positive, default=default, fault=f"no positive number: {default}")
    if read["max_export_batch_size"] > read["max_queue_size"]:
        name, _ = batch_variable(prefix, "max_export_batch_size")
        if os.environ.get(name):
            warn_once(name, f"more than the queue holds: {read['max_queue_size']} is used")
        read["max_export_batch_size"] = read["max_queue_size"]
    return read


def named(signal: str, setting: str) -> str:
    """The variable that counts for a signal: its own, if it is set."""
    own = f"OTEL_EXPORTER_OTLP_{signal.upper()}_{setting}"
    return own if os.environ.get(own) else f"OTEL_EXPORTER_OTLP_{setting}"


def _read(name: str, parse: Callable[[str], T], *, default: T, fault: str) -> T:
    if not os.environ.get(name):
        return default
    try:
        found = parse(os.environ[name])
    except ValueError:
        found = None
    if not found:
        warn_once(name, f"{fault} is used")
    return found or default


def _seconds(text: str) -> float:
    seconds = float(text)
    return seconds if isfinite(seconds) and seconds > 0 else 0.0


def _positive(text: str) -> int:
    return max(int(text), 0)


@lru_cache(maxsize=256)
def warn_once(name: str, what: str) -> None:
    """Say of a variable what is wrong with it: once, though three signals may read it."""
    _log.warning("%s is %s", name, what)
