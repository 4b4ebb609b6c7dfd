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

    def learn_offline(
        self, *, caller: Caller = _NOBODY, scope: str = "agent", personal: bool = False, **_options: Any
    ) -> int:
        if self.gated(scope, personal):
            raise Refused("personal data needs personal=True")
        said = [(tuple(key), text) for key, text in map(json.loads, self.log.read_text().splitlines())]
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
        path = self.env.dir / "mined.json"
        mined = json.loads(path.read_text()) if path.exists() else []
        mark = [list(target), text]
        if mark in mined:
            return False
        path.write_text(json.dumps([*mined, mark]))
        return True
