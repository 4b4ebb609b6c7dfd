"""The tiny memory with recall in a file of its user's own, which outlives its process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import ClassVar

from memtrace.broken.tiny import Key
from memtrace.broken.tiny_processes import TinyProcesses
from memtrace.broken.tiny_recall import Recalled, TinyRecall
from memtrace.model import Caller


class TinyOwnRecall(TinyRecall, TinyProcesses):
    """The correct one: what is recalled is read from the file each time, texts and vectors."""

    capabilities: ClassVar[frozenset[str]] = TinyRecall.capabilities | {"own-recall"}

    @property
    def recalls(self) -> Path:
        """The file."""
        return self.env.dir / "recall.json"

    def load_index(self) -> None:
        """Read it."""
        kept = json.loads(self.recalls.read_text()) if self.recalls.exists() else []
        self.index = [Recalled(tuple(key), text, vector) for key, text, vector in kept]

    def save_index(self) -> None:
        """Write it."""
        self.recalls.write_text(json.dumps([[entry.key, entry.text, entry.vector] for entry in self.index]))

    def recall(self, key: Key, text: str) -> list[str]:
        """From the file as it is now."""
        self.load_index()
        return super().recall(key, text)

    def write(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        """Into the file, unless the user was erased meanwhile."""
        self.load_index()
        super().write(caller, key, text, answer)
        if self.erased_since(key):
            self.load_index()
        self.save_index()

    def erase(self, caller: Caller) -> None:
        """From the file too."""
        self.load_index()
        super().erase(caller)
        self.save_index()
