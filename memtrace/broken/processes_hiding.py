"""Memories that leave out what they should have removed, for as long as they are open."""

from __future__ import annotations

from typing import Any

from memtrace.broken import broken
from memtrace.broken.tiny import Key, Row, TinyMemory
from memtrace.broken.tiny_processes import TinyProcesses
from memtrace.model import Caller


class _Hides(TinyProcesses):
    """Knows of rows in its file that it does not show."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.hidden: frozenset[str] = frozenset()

    def rows(self) -> list[Row]:
        return [row for row in super().rows() if row.id not in self.hidden]

    def change(self, how: Any) -> None:
        with self.lock:
            hidden, self.hidden = self.hidden, frozenset()
            super().change(how)
            self.hidden = hidden


@broken("processes.forget-fact")
class HidesWhatItLearned(_Hides):
    """Removes a fact that was persisted by hand, and shows one no more that was learned, until it is opened again."""

    def forget(self, caller: Caller, record: str | None = None) -> int:
        learned = frozenset(row.id for row in self.rows_of(self.own(caller)) if row.id == record and row.source)
        if not learned:
            return super().forget(caller, record)
        self.forgets(self.own(caller), forgotten=1)
        self.hidden |= learned
        return len(learned)


@broken("processes.forget-stays-forgotten")
class HidesWhatCameBack(_Hides):
    """Stores what a turn has learned, whatever was forgotten while it ran, and shows that only when opened again."""

    def keep(self, key: Key, facts: list[str]) -> None:
        super().keep(key, facts)
        before = {row.id for row in self.rows()}
        TinyMemory.keep(self, key, facts)
        self.hidden |= {row.id for row in self.rows()} - before
