"""Variables that only the SDK reads, set right before it does: a bad value is one line, and the default in its place.

The SDK answers some of these with a traceback, some by leaving the application without telemetry, and a bad header by
printing it, secret and all. It takes them from the environment alone, so it is the environment of this process that is
set right, and that of the processes it starts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from math import isfinite
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from memtrace.export.variables import batch_variable, batches, named, warn_once

_HEADER_NAME: Final = re.compile(r"[0-9A-Za-z_.-]+", re.ASCII)
_HEADER_VALUE: Final = re.compile(r"[\x20-\x7e]*")
_HEADER_IN_TEXT: Final = re.compile(r'[^",;\\]*')
_FILES: Final = ("CERTIFICATE", "CLIENT_KEY", "CLIENT_CERTIFICATE")
_LIMITS: Final = (
    *("OTEL_ATTRIBUTE_COUNT_LIMIT", "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT"),
    *("OTEL_LINK_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT"),
    *("OTEL_SPAN_EVENT_COUNT_LIMIT", "OTEL_SPAN_LINK_COUNT_LIMIT"),
)


def correct_exporter_variables(signal: str) -> None:
    """Those of an exporter of ``traces``, ``logs`` or ``metrics``."""
    for name in _names(signal, "HEADERS"):
        _correct_headers(name)
    for name in _names(signal, "INSECURE"):
        if not os.environ.get(name):
            os.environ.pop(name, None)  # The SDK reads an empty value as false.
        _correct(name, _among("true", "false"), default="false", fault="neither true nor false")
    if signal == "metrics":
        _correct_metric_preferences()


def can_send(signal: str, *, endpoint: str, protocol: str) -> bool:
    """Whether an exporter can, over ``grpc`` or ``http/protobuf``, and as securely as was asked for; warns if not.

    ``endpoint`` is the address it was given in code; where that is empty, the environment's counts.
    """
    address = endpoint or os.environ.get(named(signal, "ENDPOINT"), "").strip()
    if address and not is_address(address, protocol):
        warn_once(named(signal, "ENDPOINT"), "no http:// or https:// URL: nothing is sent")
        return False
    if not address or address.startswith("http://"):
        return True
    # All of them are tried, so that each that cannot be read is named.
    unreadable = [setting for setting in _FILES if not _readable(named(signal, setting))]
    return not unreadable


def correct_batch_variables(prefix: str) -> None:
    """Those of the SDK's batch processor of spans (``OTEL_BSP``) or of log records (``OTEL_BLRP``)."""
    for argument, number in batches(prefix).items():
        name, default = batch_variable(prefix, argument)
        if os.environ.get(name, str(default)) != str(number):
            os.environ[name] = str(number)


def correct_metric_variables() -> None:
    """Those of the SDK's reader and provider of metrics."""
    for name, default in (("OTEL_METRIC_EXPORT_INTERVAL", "60000"), ("OTEL_METRIC_EXPORT_TIMEOUT", "30000")):
        _correct(name, _is_duration, default=default, fault="no number of milliseconds")
    _correct_choice("OTEL_METRICS_EXEMPLAR_FILTER", ("trace_based", "always_on", "always_off"))


def correct_limit_variables() -> None:
    """Those of the SDK's tracer provider."""
    for name in _LIMITS:
        _correct(name, lambda text: text.strip().isdecimal(), default="", fault="no whole number")


def _names(signal: str, setting: str) -> tuple[str, str]:
    return f"OTEL_EXPORTER_OTLP_{signal.upper()}_{setting}", f"OTEL_EXPORTER_OTLP_{setting}"


def _correct_metric_preferences() -> None:
    preference = ("cumulative", "delta", "lowmemory")
    aggregation = ("explicit_bucket_histogram", "base2_exponential_bucket_histogram")
    prefix = "OTEL_EXPORTER_OTLP_METRICS"
    _correct_choice(f"{prefix}_TEMPORALITY_PREFERENCE", preference)
    _correct_choice(f"{prefix}_DEFAULT_HISTOGRAM_AGGREGATION", aggregation)


def _correct_choice(name: str, known: Sequence[str]) -> None:
    """One of these words; by default the first."""
    _correct(name, _among(*known), default=known[0], fault=f"none of {', '.join(known)}")


def _correct(name: str, fits: Callable[[str], bool], *, default: str, fault: str) -> None:
    text = os.environ.get(name)
    if text is None or fits(text):
        return
    if text:
        warn_once(name, f"{fault}: {default or 'the default'} is used")
    os.environ[name] = default


def _among(*words: str) -> Callable[[str], bool]:
    return lambda text: text.strip().lower() in words


def _is_duration(text: str) -> bool:
    try:
        return isfinite(float(text)) and float(text) > 0
    except ValueError:
        return False


def _correct_headers(name: str) -> None:
    given = [pair for pair in os.environ.get(name, "").split(",") if pair.strip()]
    good = [pair for pair in given if _is_header(pair)]
    if len(good) < len(given):
        warn_once(name, f"no list of name=value, in printable ASCII: {len(given) - len(good)} left out")
        os.environ[name] = ",".join(good)


def _is_header(pair: str) -> bool:
    name, equals, value = pair.partition("=")
    fits = _HEADER_NAME.fullmatch(unquote(name).strip()) and _HEADER_VALUE.fullmatch(unquote(value).strip())
    return bool(equals and fits and _HEADER_IN_TEXT.fullmatch(value))


def is_address(text: str, protocol: str) -> bool:
    """Whether requests can go there: to a URL; over gRPC also to a bare host, and never with a password in it."""
    if protocol == "grpc" and ("://" not in text or text.startswith("unix:")):
        return "@" not in text
    try:
        parts = urlsplit(text)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    # The SDK's exporter over gRPC prints the whole of an address that it does not understand.
    return fits and not (protocol == "grpc" and "@" in parts.netloc)


def _readable(name: str) -> bool:
    """Whether a file that a secure connection is made with can be read, where one is named."""
    if not os.environ.get(name):
        return True
    try:
        Path(os.environ[name]).read_bytes()
    except OSError as error:
        warn_once(name, f"no file that can be read ({error.strerror}): nothing is sent")
        return False
    return True
