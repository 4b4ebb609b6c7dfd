"""The tiny memory with turns that can be cancelled from outside."""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, ClassVar

from memtrace.broken.tiny import OUTCOMES, Key, TinyMemory
from memtrace.model import Caller, Outcome, Reply, ToolCall


class Cancelled(Exception):
    """Somebody cancelled the turn."""


OUTCOMES[Cancelled] = Outcome.CANCELLED
_CALLER: ContextVar[Caller] = ContextVar("caller")


class TinyCancel(TinyMemory):
    """The correct one: a turn stops before or after a model call, and never while it writes."""

    capabilities: ClassVar[frozenset[str]] = TinyMemory.capabilities | {"cancel"}

    def __post_init__(self) -> None:
        """Nothing was cancelled."""
        super().__post_init__()
        self.cancelled: set[Caller] = set()

    def cancel(self, caller: Caller) -> None:
        """Stop the caller's turn where it next can."""
        self.cancelled.add(caller)

    def stop_if_cancelled(self) -> None:
        """A place where a turn can stop."""
        caller = _CALLER.get(Caller())
        if caller in self.cancelled:
            self.cancelled.discard(caller)
            raise Cancelled

    def run(self, caller: Caller, key: Key | None, text: str, traffic: list[dict[str, Any]]) -> Reply:
        """A turn knows whose it is."""
        _CALLER.set(caller)
        self.cancelled.discard(caller)
        return super().run(caller, key, text, traffic)

    def streamed(self, caller: Caller, text: str) -> Iterator[str]:
        """A streamed turn does so too."""
        _CALLER.set(caller)
        self.cancelled.discard(caller)
        yield from super().streamed(caller, text)

    def ask(self, messages: list[dict[str, Any]]) -> tuple[str, list[ToolCall]]:
        """Stop on either side of a model call."""
        self.stop_if_cancelled()
        answer = super().ask(messages)
        self.stop_if_cancelled()
        return answer
