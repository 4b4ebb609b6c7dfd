"""The tiny memory keeping transcripts: tool calls and results are replayed with the turn they belong to."""

from __future__ import annotations

from collections import defaultdict
from typing import ClassVar

from memtrace.broken import lawful
from memtrace.broken.tiny import Key
from memtrace.broken.tiny_traffic import Messages, TinyTraffic
from memtrace.model import Caller


@lawful("it keeps transcripts and says so", rules=("turns.tool-traffic-not-replayed", "turns.tool-pairs-intact"))
class TinyTranscript(TinyTraffic):
    """Keeps of each turn all its messages, and replays whole turns."""

    allowed: ClassVar[dict[str, str]] = {"turns.tool-traffic-not-replayed": "transcripts are what this memory keeps"}

    def __post_init__(self) -> None:
        """Nothing is kept yet."""
        super().__post_init__()
        self.transcripts: dict[Key, list[Messages]] = defaultdict(list)

    def write(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        """Keep the turn's own messages: from its question to its answer."""
        super().write(caller, key, text, answer)
        self.transcripts[key].append([*self.traffic(text), {"role": "assistant", "content": answer}])

    def erase(self, caller: Caller) -> None:
        """Remove the caller's transcripts too."""
        super().erase(caller)
        self.transcripts.pop(self.own(caller), None)

    def conversation(self, key: Key | None) -> Messages:
        """The newest whole turns, no more of them than the window has room for."""
        room = self.option("window", 20) // 2
        turns = self.transcripts[key][-room:] if key and room else []
        return [message for turn in turns for message in turn]
