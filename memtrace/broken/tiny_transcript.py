"""The tiny memory keeping transcripts: tool calls and results are replayed with the turn they belong to."""

from __future__ import annotations

from collections import defaultdict
from contextvars import ContextVar
from typing import Any, ClassVar

from memtrace.broken import lawful
from memtrace.broken.tiny import Key, TinyMemory
from memtrace.model import Caller, ToolCall

Messages = list[dict[str, Any]]
_SENT: ContextVar[Messages] = ContextVar("sent")


@lawful("it keeps transcripts and says so", rules=("turns.tool-traffic-not-replayed", "turns.tool-pairs-intact"))
class TinyTranscript(TinyMemory):
    """Keeps of each turn all its messages, and replays whole turns."""

    allowed: ClassVar[dict[str, str]] = {"turns.tool-traffic-not-replayed": "transcripts are what this memory keeps"}

    def __post_init__(self) -> None:
        """Nothing is kept yet."""
        super().__post_init__()
        self.transcripts: dict[Key, list[Messages]] = defaultdict(list)

    def ask(self, messages: Messages) -> tuple[str, list[ToolCall]]:
        """Remember what was sent."""
        _SENT.set(messages)
        return super().ask(messages)

    def write(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        """Keep the turn's own messages: from its question to its answer."""
        super().write(caller, key, text, answer)
        sent = _SENT.get()
        question = max(place for place, message in enumerate(sent) if message["content"] == text)
        self.transcripts[key].append([*sent[question:], {"role": "assistant", "content": answer}])

    def conversation(self, key: Key | None) -> Messages:
        """The newest whole turns, no more of them than the window has room for."""
        turns = self.transcripts[key][-(self.option("window", 20) // 2) :] if key and self.option("window", 20) > 1 else []
        return [message for turn in turns for message in turn]
