"""The tiny memory with recall: earlier messages are found again by meaning."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from memtrace.broken.tiny import Key, TinyMemory
from memtrace.model import Caller

NEAREST: Final = 5
"""How many messages are recalled."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """A message that can be recalled, with its place among all texts."""

    key: Key
    text: str
    vector: list[float]


class TinyRecall(TinyMemory):
    """The correct one: one index for everybody, and each finds the nearest of their own."""

    capabilities: ClassVar[frozenset[str]] = TinyMemory.capabilities | {"recall"}

    def __post_init__(self) -> None:
        """Nothing is kept yet."""
        super().__post_init__()
        self.index: list[Recalled] = []

    @property
    def declares(self) -> dict[str, Any]:
        """What is recalled comes before the window."""
        return {
            **super().declares,
            "prompt_order": ["system", "agent facts", "user facts", "recall", "window", "input"],
        }

    def prompt(self, caller: Caller, key: Key | None, text: str) -> list[dict[str, Any]]:
        """What is recalled for this turn's input, between the facts and the window."""
        messages = super().prompt(caller, key, text)
        if key is None or not self.option("recall", False):
            return messages
        window = len(messages) - 1 - len(self.conversation(key))
        shown = {str(message["content"]) for message in messages}
        recalled = [found for found in self.recall(key, text) if found not in shown]
        return [*messages[:window], *self.block("Earlier messages:", recalled), *messages[window:]]

    def recall(self, key: Key, text: str) -> list[str]:
        """The nearest of this user's own."""
        return self.nearest(text, (entry for entry in self.index if entry.key == key))[:NEAREST]

    def nearest(self, text: str, entries: Iterable[Recalled]) -> list[str]:
        """The texts of entries, nearest to a text first, each once."""
        [vector] = self.env.embed([self.redacted(text)])
        return list(dict.fromkeys(entry.text for entry in by_distance(vector, entries)))

    def write(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        """Keep both messages for recall too."""
        super().write(caller, key, text, answer)
        if self.option("recall", False):
            vectors = self.env.embed([self.redacted(text), self.redacted(answer)])
            self.index += [Recalled(key, said, vector) for said, vector in zip((text, answer), vectors, strict=True)]

    def erase(self, caller: Caller) -> None:
        """Remove the caller's messages from the index too."""
        super().erase(caller)
        self.index = [entry for entry in self.index if entry.key != self.own(caller)]


def by_distance(vector: list[float], entries: Iterable[Recalled]) -> list[Recalled]:
    """Entries, nearest first."""
    return sorted(entries, key=lambda entry: -sum(a * b for a, b in zip(vector, entry.vector, strict=True)))
