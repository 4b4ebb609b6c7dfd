"""A script for the model server that answers what it is told and keeps what it was asked."""

from __future__ import annotations

from typing import Any

from memtrace.harness.running import embedding
from memtrace.harness.scripted_model.openai_api import Step
from memtrace.model import ToolCall

TEXT = "The quick brown fox jumps over a lazy dog."
CALLS = (ToolCall("call_1", "lookup", '{"query": "fox"}'), ToolCall("call_2", "lookup", "{}"))


class Told:
    """Answers with ``step``, raises it where it is an exception, calls it where it is callable."""

    def __init__(self) -> None:
        self.step: Any = Step(TEXT)
        self.asked: list[tuple[Any, dict[str, Any]]] = []

    def complete(self, request, **labels):
        return self._answer(request, labels)

    def embed(self, texts, **labels):
        self.asked.append((list(texts), labels))
        return embedding.embed(texts)

    def callback(self, name, payload, *, turn):
        return self._answer((name, payload), {"turn": turn})

    def _answer(self, request, labels):
        self.asked.append((request, labels))
        if isinstance(self.step, BaseException):
            raise self.step
        return self.step() if callable(self.step) else self.step

    @property
    def messages(self):
        return self.asked[-1][0].messages
