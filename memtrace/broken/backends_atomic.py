"""Memories that store a fact in several steps, and what a crash between two of them leaves."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from memtrace.broken import broken, lawful
from memtrace.broken.tiny import Key, Row, TinyMemory
from memtrace.model import Caller

_OF_NO_FACT: Final = "0"
"""The id given for a fact that is marked and was never stored."""


class _Marks(TinyMemory):
    """Has a file for each fact that is persisted by hand, which says that it is known."""

    def mark(self, key: Key, text: str) -> Path:
        """The file of a fact."""
        return self.env.dir / f"{sha256(json.dumps([key, text]).encode()).hexdigest()}.mark"

    def known(self, key: Key, text: str) -> str | None:
        """The id of a fact whose file is there, stored or not; none for one that was superseded."""
        rows = [row for row in self.rows() if row.key == key and row.text == text]
        if not self.mark(key, text).exists() or any(row.superseded_by for row in rows):
            return None
        return rows[0].id if rows else _OF_NO_FACT

    def change(self, how: Any) -> None:
        """A fact that is gone is known no more."""
        before = self.rows()
        super().change(how)
        there = {(row.key, row.text) for row in self.rows()}
        for row in before:
            if (row.key, row.text) not in there:
                self.mark(row.key, row.text).unlink(missing_ok=True)


@broken("backends.add-is-atomic")
class MarksFirst(_Marks):
    """Notes that a fact is known, and then stores it; what is known is not stored again."""

    def put(self, key: Key, text: str, *, source: str = "", confidence: float = 1.0) -> str:
        if source:
            return super().put(key, text, source=source, confidence=confidence)
        if known := self.known(key, text):
            return known
        self.mark(key, text).write_text("")
        return super().put(key, text)


@broken("backends.add-is-atomic")
class AddsThenSupersedes(TinyMemory):
    """Adds the new fact in one change, and marks the old one in another."""

    def update(self, caller: Caller, record: str, text: str) -> str:
        if not any(row.id == record and row.text != text for row in self.rows_of(self.own(caller))):
            return super().update(caller, record, text)
        new = self.put(self.own(caller), text)
        self.change(lambda rows: [replace(row, superseded_by=new) if row.id == record else row for row in rows])
        return new


@broken("backends.add-is-atomic")
class SupersedesThenAdds(TinyMemory):
    """Marks the old fact with the id that the new one will get, and adds that in another change."""

    def update(self, caller: Caller, record: str, text: str) -> str:
        active = self.rows_of(self.own(caller))
        if not any(row.id == record for row in active) or any(row.text == text for row in active):
            return super().update(caller, record, text)
        new = str(1 + max(int(row.id) for row in self.rows()))
        self.change(lambda rows: [replace(row, superseded_by=new) if row.id == record else row for row in rows])
        return self.put(self.own(caller), text)


@lawful("what a crash left half done, the same call made again finishes", rules=("backends.add-is-atomic",))
class MarksAndLooks(_Marks):
    """Notes that a fact is known before it stores it, and does not take its word for it."""

    def put(self, key: Key, text: str, *, source: str = "", confidence: float = 1.0) -> str:
        self.mark(key, text).write_text("")
        return super().put(key, text, source=source, confidence=confidence)


@lawful("what a crash left half done is finished before anything is read", rules=("backends.add-is-atomic",))
class FinishesAsItOpens(SupersedesThenAdds):
    """Writes down what an update is going to do; where that is still there as it opens, it does it."""

    capabilities = TinyMemory.capabilities - {"shared"}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.plan.exists():
            key, record, text = json.loads(self.plan.read_text())
            self.change(lambda rows: self.done(rows, tuple(key), record, text))
            self.plan.unlink()

    @property
    def plan(self) -> Path:
        """What an update is going to do."""
        return self.env.dir / "update.plan"

    def done(self, rows: list[Row], key: Key, record: str, text: str) -> list[Row]:
        """All rows as they are when it has done so."""
        rows, new = self.placed(rows, key, text)
        return [replace(row, superseded_by=new.id) if row.id == record else row for row in rows]

    def update(self, caller: Caller, record: str, text: str) -> str:
        key = self.own(caller)
        if any(row.id == record and row.text != text for row in self.rows_of(key)):
            written = self.plan.with_suffix(".new")
            written.write_text(json.dumps([key, record, text]))
            written.replace(self.plan)
        new = super().update(caller, record, text)
        self.plan.unlink(missing_ok=True)
        return new
