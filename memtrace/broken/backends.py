"""Memories that answer otherwise on another store, or do not say that their store failed."""

from __future__ import annotations

import json
import sqlite3
import time
from dataclasses import replace

from opentelemetry.trace import Span

from memtrace.broken import broken, lawful
from memtrace.broken.tiny import Key, Row, TinyMemory
from memtrace.broken.tiny_listed import TinyListed
from memtrace.broken.tiny_sqlite import TinySqlite
from memtrace.model import Caller, Fact


@broken("backends.lifecycle")
class ReplacesTheNewest(TinyMemory):
    """Puts an update in the place of the newest fact, whichever was named."""

    def update(self, caller: Caller, record: str, text: str) -> str:
        newest = next(iter(self.rows_of(self.own(caller))), None)
        return super().update(caller, newest.id if newest else record, text)


@broken("backends.newest-means-newest")
class LimitsBeforeItSorts(TinyMemory):
    """Takes the first n that it finds, and sorts those."""

    def facts(self, caller: Caller, limit: int | None = None, *, superseded: bool = False) -> list[Fact]:
        found = super().facts(caller, superseded=superseded)
        return found if limit is None or limit >= len(found) else found[len(found) - limit :][::-1]


@broken("backends.newest-means-newest")
class SortsByTheClockOnTheWall(TinyMemory):
    """Notes when a fact came in the time of day here, and sorts by that."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.came: dict[str, str] = {}

    def put(self, key: Key, text: str, *, source: str = "", confidence: float = 1.0) -> str:
        record = super().put(key, text, source=source, confidence=confidence)
        self.came.setdefault(record, time.strftime("%Y-%m-%d %H:%M"))
        return record

    def facts(self, caller: Caller, limit: int | None = None, *, superseded: bool = False) -> list[Fact]:
        found = super().facts(caller, superseded=superseded)
        return sorted(found, key=lambda fact: self.came.get(fact.id, ""), reverse=True)[:limit]


@broken("backends.same-answers")
class CutsLongFactsThere(TinyMemory):
    """On one of its stores, a column takes so many characters and drops the rest."""

    def put(self, key: Key, text: str, *, source: str = "", confidence: float = 1.0) -> str:
        elsewhere = not self.env.store_url.endswith("memory.db")
        return super().put(key, text[:4000] if elsewhere else text, source=source, confidence=confidence)


@broken("backends.read-is-flat")
class SortsThemAll(TinyListed):
    """Takes the newest of a list of all that its user has."""

    def facts(self, caller: Caller, limit: int | None = None, *, superseded: bool = False) -> list[Fact]:
        if superseded:
            return super().facts(caller, limit, superseded=superseded)
        rows = [row for row in self.listed.get(self.own(caller), []) if not row.superseded_by]
        return sorted(map(Row.as_fact, rows), key=lambda fact: int(fact.id), reverse=True)[:limit]


@broken("backends.outage-is-bounded")
class ForgetsWhatItKnew(TinySqlite):
    """Has read the facts, and goes on without them while the store fails."""

    def served(self, key: Key) -> list[Row]:
        return []


@broken("backends.outage-is-visible")
class FindsNothingInstead(TinySqlite):
    """Takes a failure for an answer: that there is nothing but what it knew."""

    def failed(self, span: Span, error: sqlite3.Error) -> None:
        """Nobody is told."""


@lawful("the standard's attribute says what failed", rules=("backends.outage-is-visible", "backends.outage-is-bounded"))
class SaysWhatFailed(TinySqlite):
    """Leaves the status of a failed read alone, and gives it the type of the error."""

    def failed(self, span: Span, error: sqlite3.Error) -> None:
        span.set_attribute("error.type", type(error).__name__)


@lawful("facts of one moment are in an order of their own, always the same", rules=("backends.newest-means-newest",))
class OneMoment(TinyMemory):
    """Its clock stands still, and facts of one moment are listed by their texts."""

    def facts(self, caller: Caller, limit: int | None = None, *, superseded: bool = False) -> list[Fact]:
        found = sorted(super().facts(caller, superseded=superseded), key=lambda fact: fact.text)
        return [replace(fact, created_at=1.0) for fact in found[:limit]]


@lawful("a read that takes long, and as long for few facts as for many, is flat", rules=("backends.read-is-flat",))
class TakesItsTime(TinyListed):
    """Does the same work for each read, and much of it."""

    def facts(self, caller: Caller, limit: int | None = None, *, superseded: bool = False) -> list[Fact]:
        json.dumps(list(range(5_000)))
        return super().facts(caller, limit, superseded=superseded)
