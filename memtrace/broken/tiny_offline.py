"""The small memory with offline learning: it keeps what users say, and mines it when told to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memtrace.broken.tiny import Key, Refused, TinyMemory
from memtrace.model import Caller

_NOBODY = Caller()


class TinyOffline(TinyMemory):
    """At agent scope it keeps only what two users said in the same words."""

    capabilities = TinyMemory.capabilities | {"learn-offline"}
    least_users = 2

    @property
    def log(self) -> Path:
        return self.env.dir / "said.jsonl"

    def write(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        super().write(caller, key, text, answer)
        with self.log.open("a") as log:
            log.write(json.dumps(self.logged(key, text, answer)) + "\n")

    def logged(self, key: Key, text: str, answer: str) -> tuple[Key, str]:
        return key, text

    def said(self) -> list[tuple[Key, str]]:
        """What was logged."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [(tuple(key), text) for key, text in map(json.loads, lines)]

    def erase(self, caller: Caller) -> None:
        super().erase(caller)
        said, own = self.said(), self.own(caller)
        gone = {text for key, text in said if key == own}
        self.log.write_text("".join(json.dumps(line) + "\n" for line in said if line[0] != own))
        self.mined.write_text(json.dumps([mark for mark in self.marks() if mark[1] not in gone]))

    def learn_offline(
        self, *, caller: Caller = _NOBODY, scope: str = "agent", personal: bool = False, **_options: Any
    ) -> int:
        if self.gated(scope, personal):
            raise Refused("personal data needs personal=True")
        said = self.said()
        if scope == "user":
            return self.mine(self.own(caller), [text for key, text in said if key == self.own(caller)])
        users = {text: {key for key, other in said if other == text} for _, text in said}
        return self.mine(self.agent_key(caller), [text for _, text in said], users)

    def gated(self, scope: str, personal: bool) -> bool:
        return scope != "agent" and not personal

    def mine(self, target: Key, texts: Sequence[str], users: dict[str, set[Any]] | None = None) -> int:
        learned = 0
        for text in texts:
            if not self.claimed(target, text):
                continue
            for fact in self.extracted(text):
                if users is None or len(users.get(fact, ())) >= self.least_users:
                    self.put(target, fact, source="learned", confidence=0.6)
                    learned += 1
        return learned

    def claimed(self, target: Key, text: str) -> bool:
        """Whether a text is mined for a target for the first time."""
        mark, marks = [list(target), text], self.marks()
        if mark in marks:
            return False
        self.mined.write_text(json.dumps([*marks, mark]))
        return True

    @property
    def mined(self) -> Path:
        return self.env.dir / "mined.json"

    def marks(self) -> list[list[Any]]:
        """Target and text of whatever was mined."""
        return json.loads(self.mined.read_text()) if self.mined.exists() else []
