"""One line of a record: a batch of spans, as an OTLP/JSON object of the form that a collector is sent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan

from memtrace.errors import UsageError


def line_of(spans: Sequence[ReadableSpan]) -> bytes:
    """The line for a batch, with its newline."""
    return dumped(encoder().encode_spans(spans).to_dict())


def encoder() -> Any:
    """The SDK's module that writes spans as OTLP/JSON.

    Raises:
        UsageError: it is not installed.
    """
    try:
        return import_module("opentelemetry.exporter.otlp.json.common.trace_encoder")
    except ImportError as missing:
        raise UsageError(
            "a local record needs OpenTelemetry's JSON encoder: pip install 'memtrace-otel[export]'"
        ) from missing


def dumped(batch: Any) -> bytes:
    """A batch as its line."""
    return json.dumps(batch, separators=(",", ":")).encode() + b"\n"


def parsed(line: bytes) -> dict[str, Any]:
    """The batch that a line holds; empty where it holds none, as one that a crash cut short."""
    try:
        batch = json.loads(line)
        whole = all(isinstance(span, dict) for span in spans_of(batch))
    except (ValueError, TypeError, AttributeError):
        return {}
    return batch if whole else {}


def scopes_of(batch: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A batch's instrumentation scopes, each with a list of its ``spans``."""
    for resource in batch.get("resourceSpans", []):
        yield from resource.get("scopeSpans", [])


def spans_of(batch: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A batch's spans, of all its scopes."""
    for scope in scopes_of(batch):
        yield from scope.get("spans", [])
