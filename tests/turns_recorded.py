"""Turns for a local record, and what it then holds."""

from __future__ import annotations

from pathlib import Path

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from memtrace.model import Author, Message
from memtrace.tracing import Tracing, own


def turn_of(user: str, says: str, *, content: bool = True) -> list[ReadableSpan]:
    """The spans of a turn in which the user's id is on the turn only, and their words on the model call only."""
    memory, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    if content:
        own(provider)
    tracing = Tracing(tracer_provider=provider)
    with tracing.turn("pet-shop", user=user), tracing.model_call("m", [Message(Author.USER, says)]):
        pass
    return list(memory.get_finished_spans())


def text_of(directory: Path) -> str:
    return "".join(file.read_text() for file in sorted(directory.glob("*")))
