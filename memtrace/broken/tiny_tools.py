"""The tiny memory with tools by which the model remembers and forgets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any, ClassVar

from memtrace.broken.tiny import Key, TinyMemory
from memtrace.harness.system import FORGET_TOOL, REMEMBER_TOOL
from memtrace.model import Caller, Reply, ToolCall

Requests = list[tuple[str, str]]
"""What the model asked for, in order: the tool and the text."""
_QUEUE: ContextVar[Requests] = ContextVar("queued")


class TinyTools(TinyMemory):
    """The correct one: what the model asks for is queued, and done when its turn has ended well."""

    capabilities: ClassVar[frozenset[str]] = TinyMemory.capabilities | {"memory-tools"}

    def run(self, caller: Caller, key: Key | None, text: str, traffic: list[dict[str, Any]]) -> Reply:
        """A turn has a queue of its own."""
        token = _QUEUE.set([])
        try:
            return super().run(caller, key, text, traffic)
        finally:
            _QUEUE.reset(token)

    def streamed(self, caller: Caller, text: str) -> Iterator[str]:
        """A streamed one too."""
        _QUEUE.set([])
        yield from super().streamed(caller, text)

    def use(self, key: Key | None, call: ToolCall) -> str:
        """Queue what a memory tool is asked for."""
        if call.name not in (REMEMBER_TOOL, FORGET_TOOL):
            return super().use(key, call)
        self.asked(key, call.name, str(json.loads(call.arguments)["text"]))
        return "It will be done."

    def asked(self, key: Key | None, tool: str, text: str) -> None:
        """Put a request in the turn's queue."""
        _QUEUE.get().append((tool, text))

    def write(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        """What any turn writes, and what was queued."""
        super().write(caller, key, text, answer)
        for tool, fact in _QUEUE.get([]):
            self.apply(key, tool, fact)

    def apply(self, key: Key, tool: str, text: str) -> None:
        """Do what the model asked for."""
        if tool == REMEMBER_TOOL:
            self.put(key, text, source="learned")
        else:
            self.change(lambda rows: [row for row in rows if (row.key, row.text) != (key, text)])
