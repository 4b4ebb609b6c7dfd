"""What must be known of a scope after its words are gone, kept beside the facts so that every process sees it.

A mark says *that* something was forgotten, never what. Marks are rows of the fact store itself, at the level of a
session (a tier that holds no facts), so that they work on every backend and an erasure reaches every process that
shares the store: a turn compares the marks it saw as it opened with those it sees as it writes.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal
from uuid import uuid4

from memtrace.errors import StoreError, UsageError
from memtrace.model import Level, Record, Scope
from memtrace.stores.contract import FactStore

Kind = Literal["forgotten", "erased", "saved"]


@dataclass(frozen=True, slots=True)
class Seen:
    """The last time a scope's facts were forgotten, and the last time all of it was erased; ``""`` is never."""

    forgotten: str = ""
    erased: str = ""


class Marks:
    """The marks of one store."""

    def __init__(self, store: FactStore, clock: Callable[[], float]) -> None:
        self._store = store
        self._clock = clock

    def seen(self, scope: Scope) -> Seen:
        """How things stand with a scope.

        Raises:
            StoreError: the store cannot say.
        """
        newest = {kind: value for _, kind, value in sorted(self._rows(scope))}
        return Seen(newest.get("forgotten", ""), newest.get("erased", ""))

    def forgotten(self, scope: Scope) -> None:
        """Facts of this scope are about to be forgotten: what open turns learned must not bring them back."""
        self._renew(scope, "forgotten")

    def erased(self, scope: Scope) -> None:
        """Everything of this scope is about to be erased."""
        self._renew(scope, "forgotten")
        self._renew(scope, "erased")

    def saved(self, scope: Scope, path: str) -> None:
        """A file was written that holds this scope's words."""
        self._store.add(self._mark(scope, "saved", path))

    def files(self, scope: Scope) -> list[str]:
        """The files that hold this scope's words, wherever they were written."""
        return [value for _, kind, value in self._rows(scope) if kind == "saved"]

    def unsaved(self, scope: Scope, path: str) -> None:
        """Such a file is gone."""
        for number, *mark in self._rows(scope):
            if mark == ["saved", path]:
                self._store.delete(_place(scope), number)

    def _renew(self, scope: Scope, kind: Kind) -> None:
        mark = self._mark(scope, kind, uuid4().hex)
        while True:
            current = [number for number, other, _ in self._rows(scope) if other == kind]
            try:
                if current:
                    self._store.supersede(mark.scope, max(current), mark)
                else:
                    self._store.add(mark)
            except UsageError:
                if current == [number for number, other, _ in self._rows(scope) if other == kind]:
                    raise
                # Another process marked in between; ours has to be the later one.
            else:
                return

    def _mark(self, scope: Scope, kind: Kind, value: str) -> Record:
        text = json.dumps([scope.level, kind, value])
        return Record(_place(scope), text, source="mark", created_at=self._clock())

    def _rows(self, scope: Scope) -> list[tuple[int, str, str]]:
        if not scope.id:
            return []
        rows = [(record.id, *json.loads(record.text)) for record in self._store.newest(_place(scope), None)]
        return [(number, kind, value) for number, level, kind, value in rows if level == scope.level]


def _place(scope: Scope) -> Scope:
    return Scope(Level.SESSION, scope.id, scope.project)


@dataclass(frozen=True, slots=True)
class Guard:
    """Tells a turn whether what it is about to keep was forgotten since it opened.

    It is asked before and after each write. Whoever forgets marks first and deletes afterwards, so either the deletion
    finds what was written, or the second question does and the turn takes it back.
    """

    marks: Marks
    scope: Scope
    opened: Seen | None
    """``None``: the store could not be read as the turn opened."""

    def forgotten(self) -> bool:
        """Whether facts of the scope were forgotten since.

        Raises:
            StoreError: the store cannot say.
        """
        if self.opened is None:
            raise StoreError("the store could not be read as the turn opened: it cannot say what was forgotten since")
        return self.marks.seen(self.scope) != self.opened

    def erased(self) -> bool:
        """Whether the scope was erased since, as far as the store can say: while it is down, a window is kept."""
        try:
            return self.opened is not None and self.marks.seen(self.scope).erased != self.opened.erased
        except StoreError:
            return False
