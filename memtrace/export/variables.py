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
    "max_queue_size": ("OTEL_BSP_MAX_QUEUE_SIZE", 2048),
    "schedule_delay_millis": ("OTEL_BSP_SCHEDULE_DELAY", 5000),
    "max_export_batch_size": ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512),
    "export_timeout_millis": ("OTEL_BSP_EXPORT_TIMEOUT", 30_000),
}
_log = logging.getLogger("memtrace.export")
T = TypeVar("T")


def timeout(signal: str) -> float:
    """Seconds that one export may take, for ``traces``, ``logs`` or ``metrics``."""
    return _read(_named(signal, "TIMEOUT"), _seconds, TIMEOUT_SECONDS, f"no number of seconds: {TIMEOUT_SECONDS:g}")


def compression(signal: str, package: str) -> Any:
    """The member of the exporter's own enumeration, for ``grpc`` or ``http``."""
    names = _COMPRESSIONS[package]

    def known(text: str) -> str:
        return text.strip().lower() if text.strip().lower() in names else ""

    chosen = _read(_named(signal, "COMPRESSION"), known, "none", f"none of {', '.join(names)}: none")
    module = "grpc" if package == "grpc" else "opentelemetry.exporter.otlp.proto.http"
    return getattr(import_module(module).Compression, _ENUM[chosen])


def endpoint_fits(signal: str) -> bool:
    """Whether the address, where one is given, is a URL that HTTP can go to."""
    name = _named(signal, "ENDPOINT")
    fits = os.environ.get(name, "http://").strip().startswith(("http://", "https://"))
    return fits or _say(name, "no http:// or https:// URL: nothing will arrive")


def batches() -> dict[str, int]:
    """Arguments of the SDK's batch processor."""
    read = {
        key: _read(name, _positive, default, str(f"no positive number: {default}"))
        for key, (name, default) in _BATCH.items()
    }
    if read["max_export_batch_size"] > read["max_queue_size"]:
        if os.environ.get(_BATCH["max_export_batch_size"][0]):
            _say(_BATCH["max_export_batch_size"][0], f"more than the queue holds: {read['max_queue_size']} is used")
        read["max_export_batch_size"] = read["max_queue_size"]
    return read


def _named(signal: str, setting: str) -> str:
    """The variable that counts for a signal: its own, if it is set."""
    own = f"OTEL_EXPORTER_OTLP_{signal.upper()}_{setting}"
    return own if os.environ.get(own) else f"OTEL_EXPORTER_OTLP_{setting}"


def _read(name: str, parse: Callable[[str], T], default: T, otherwise: str) -> T:
    if not os.environ.get(name):
        return default
    try:
        found = parse(os.environ[name])
    except ValueError:
        found = None
    if not found:
        _say(name, f"{otherwise} is used")
    return found or default


def _seconds(text: str) -> float:
    seconds = float(text)
    return seconds if isfinite(seconds) and seconds > 0 else 0.0


def _positive(text: str) -> int:
    return max(int(text), 0)


@lru_cache
def _say(name: str, what: str) -> bool:
    """Once for each variable, though three signals may read it."""
    _log.warning("%s is %s", name, what)
    return False
