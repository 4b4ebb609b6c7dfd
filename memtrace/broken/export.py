"""Memories whose telemetry tells something else than what happened, or tells it to the wrong people."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from opentelemetry.context import Context, attach, detach
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Link, get_current_span

from memtrace.broken import broken, lawful
from memtrace.broken.tiny import Key, TinyMemory
from memtrace.harness.system import Environment
from memtrace.model import Author, Caller, Message, ToolCall
from memtrace.tracing import Tracing


@broken("export.span-equals-wire", report="https://github.com/traceloop/openllmetry/issues/3349")
class RecordsTooEarly(TinyMemory):
    """Records the prompt of a turn's first call on every span of the turn: what a tool returned is on none of them."""

    @contextmanager
    def model_span(self, model: str, messages: list[dict[str, Any]]) -> Iterator[None]:
        last = max((place for place, m in enumerate(messages) if m["role"] == "user"), default=-1)
        with super().model_span(model, messages[: last + 1]):
            yield


@broken("export.every-call-has-one-span", report="https://github.com/mastra-ai/mastra/issues/17074")
class ForgetsFailures(TinyMemory):
    """Makes the span of a model call once the answer is there: a call that fails has none."""

    @contextmanager
    def model_span(self, model: str, messages: list[dict[str, Any]]) -> Iterator[None]:
        yield
        with super().model_span(model, messages):
            pass


@broken("export.every-call-has-one-span", report="https://github.com/Arize-ai/openinference/issues/2101")
class RecordsTwice(TinyMemory):
    """Two layers each record the same model call."""

    @contextmanager
    def model_span(self, model: str, messages: list[dict[str, Any]]) -> Iterator[None]:
        with super().model_span(model, messages), super().model_span(model, messages):
            yield


@broken("export.one-trace-per-turn", report="https://github.com/Tracer-Cloud/opensre/issues/3939")
class LearnsInAnotherTrace(TinyMemory):
    """Extraction starts from an empty context, as a worker thread would: its span is in a trace of its own."""

    def learn(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        token = attach(Context())
        try:
            super().learn(caller, key, text, answer)
        finally:
            detach(token)


class _Traced(TinyMemory):
    """Records its model calls through memtrace's own spans."""

    content: ClassVar[bool | None] = None

    def __init__(self, env: Environment) -> None:
        super().__init__(env)
        provider = TracerProvider()
        provider.add_span_processor(env.span_processor)
        self.tracing = Tracing(tracer_provider=provider, content=self.content)

    @contextmanager
    def model_span(self, model: str, messages: list[dict[str, Any]]) -> Iterator[None]:
        with self.tracing.model_call(model, [as_message(m) for m in messages]):
            yield


@broken(
    "export.safe-under-a-foreign-exporter",
    report="https://github.com/open-telemetry/opentelemetry-python-genai/issues/186",
)
class TellsEveryone(_Traced):
    """Records content on whatever provider it is given, unasked."""

    content = True


@lawful(
    "nobody asked for content, so its spans carry none",
    rules=("export.safe-under-a-foreign-exporter", "export.span-equals-wire"),
)
class TellsNobody(_Traced):
    """Records no content: what was sent cannot be compared with it, and nothing is accused."""

    capabilities = TinyMemory.capabilities - {"own-spans"}


@lawful(
    "spans of background work may be a trace of their own where they link to the turn",
    rules=("export.one-trace-per-turn",),
)
class LinksBackgroundWork(TinyMemory):
    """Extraction is a root span with a link to the turn that caused it."""

    def learn(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        link = Link(get_current_span().get_span_context())
        with self.tracer.start_as_current_span("extraction", context=Context(), links=[link]):
            super().learn(caller, key, text, answer)


def as_message(sent: dict[str, Any]) -> Message:
    """A chat-API message as it is recorded."""
    functions = [(call["id"], call["function"]) for call in sent.get("tool_calls") or ()]
    calls = tuple(ToolCall(number, function["name"], function["arguments"]) for number, function in functions)
    return Message(Author(sent["role"]), str(sent.get("content") or ""), calls, sent.get("tool_call_id", ""))
