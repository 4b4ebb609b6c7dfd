"""The tiny memory with a list of facts a user, in the process: the newest are at the end of one."""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

from memtrace.broken.tiny import Key, Row, TinyMemory
from memtrace.model import Caller, Fact


class TinyListed(TinyMemory):
    """The correct one; a restart finds nothing, and it claims no more."""

    capabilities: ClassVar[frozenset[str]] = TinyMemory.capabilities - {"reopen", "shared"}

    def __post_init__(self) -> None:
        """Nothing is known yet."""
        super().__post_init__()
        self.numbers = itertools.count(1)
        self.listed: dict[Key, list[Row]] = {}
        self.texts: set[tuple[Key, str]] = set()

    def rows(self) -> list[Row]:
        """All rows, oldest first."""
        return sorted(itertools.chain(*self.listed.values()), key=lambda row: int(row.id))

    def change(self, how: Any) -> None:
        """Replace all lists."""
        with self.lock:
            rows, self.listed = how(self.rows()), {}
            self.texts = {(row.key, row.text) for row in rows}
            for row in rows:
                self.listed.setdefault(row.key, []).append(row)
            self.numbers = itertools.count(1 + max((int(row.id) for row in rows), default=0))

    def put(self, key: Key, text: str, *, source: str = "", confidence: float = 1.0) -> str:
        """Append a fact that is new; the rest is done as always."""
        if source or (key, text) in self.texts:
            return super().put(key, text, source=source, confidence=confidence)
        self.texts.add((key, text))
        self.listed.setdefault(key, []).append(Row(str(next(self.numbers)), key, text))
        return self.listed[key][-1].id

    def facts(self, caller: Caller, limit: int | None = None, *, superseded: bool = False) -> list[Fact]:
        """The newest are taken from the end."""
        if limit is None or superseded:
            return super().facts(caller, limit, superseded=superseded)
        active = (row for row in reversed(self.listed.get(self.own(caller), [])) if not row.superseded_by)
        return [row.as_fact() for row in itertools.islice(active, limit)]
