"""The tiny memory, knowing as it writes a turn what was said in it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from memtrace.broken.tiny import TinyMemory
from memtrace.model import ToolCall

Messages = list[dict[str, Any]]
_SENT: ContextVar[Messages] = ContextVar("sent")


class TinyTraffic(TinyMemory):
    """The correct one: it knows, and keeps no more of it than any."""

    def ask(self, messages: Messages) -> tuple[str, list[ToolCall]]:
        """Remember what is sent."""
        _SENT.set(messages)
        return super().ask(messages)

    def traffic(self, text: str) -> Messages:
        """The messages of the turn that asked this: its question, and its tool calls and their results."""
        sent = _SENT.get()
        return sent[max(place for place, message in enumerate(sent) if message["content"] == text) :]

    def asides(self, text: str) -> list[str]:
        """What the model said on its way to a tool."""
        return [str(message["content"]) for message in self.traffic(text) if message.get("tool_calls")]
