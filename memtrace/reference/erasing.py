"""Letting go: of what a user has forgotten, and of everything that is kept of them, wherever it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from memtrace.model import Level, Scope
from memtrace.reference import saved
from memtrace.reference.blocks import FactsBlock
from memtrace.reference.marks import Marks
from memtrace.reference.offline import withdraw
from memtrace.reference.recall import Namespace, ProcessRecall, RecallIndex
from memtrace.reference.search import FactSearch
from memtrace.reference.turnlog import TurnLog
from memtrace.reference.window import Key, Windows
from memtrace.stores.contract import FactStore


@dataclass(frozen=True, slots=True)
class Erased:
    """How much went: rows of facts, conversations of this process, recalled messages and saved files."""

    facts: int = 0
    conversations: int = 0
    recalled: int = 0
    files: int = 0


@dataclass(slots=True)
class Kept:
    """All the places where something of a user may be. ``others`` are told of the user and the project."""

    store: FactStore
    marks: Marks
    windows: Windows
    fact_blocks: Sequence[FactsBlock]
    search: FactSearch | None
    recall: RecallIndex | None
    turn_log: TurnLog | None
    others: list[Callable[[str, str], object]]

    def erase(self, key: Key) -> Erased:
        """Remove everything of a user; a place that fails keeps none of the others from being cleared.

        Raises:
            Exception: what the first place that failed raised; its notes name the others.
        """
        counts = _attempted(
            # First: what an open turn writes after the deletion it then takes back itself.
            mark=lambda: self.marks.erased(key.scope),
            facts=lambda: self.store.delete(key.scope),
            conversations=lambda: self.windows.drop(key.owner),
            recalled=lambda: self.recall.delete(key.owner) if self.recall else 0,
            files=lambda: _remove_files(self.marks, key),
            derived=lambda: self.forgotten(key.scope, None),
            others=lambda: self._tell_others(key),
        )
        return Erased(*(counts[name] for name in ("facts", "conversations", "recalled", "files")))

    def erased_elsewhere(self, key: Key) -> None:
        """Another process erased a user: let go of what this one knows by heart."""
        self._let_go(key.scope)
        if isinstance(self.recall, ProcessRecall):
            self.recall.delete(key.owner)

    def evicted(self, owner: Namespace) -> None:
        """A user's windows were dropped: recall that lives in this process goes with them, the user's own stays."""
        if isinstance(self.recall, ProcessRecall):
            self.recall.delete(owner)

    def forgotten(self, scope: Scope, text: str | None) -> None:
        """Facts of a scope are gone, one or with ``None`` all: so is what came of them, or could bring them back."""
        self._let_go(scope)
        if self.turn_log is not None and scope.level is Level.USER:
            withdraw(self.turn_log, self.store, scope, text)
        elif self.turn_log is not None and scope.level is Level.AGENT:
            self.turn_log.close(scope, text)

    def _tell_others(self, key: Key) -> None:
        _attempted(**{f"other {n}": partial(_told, other, key) for n, other in enumerate(self.others, 1)})

    def _let_go(self, scope: Scope) -> None:
        for block in self.fact_blocks:
            block.drop(scope)
        if self.search is not None:
            self.search.drop(scope)


def _told(other: Callable[[str, str], object], key: Key) -> None:
    other(key.user, key.project)


def _attempted(**steps: Callable[[], int | None]) -> dict[str, int]:
    """The count that each step gives. A step that fails keeps none of the others from being made.

    Raises:
        Exception: what the first step that failed raised; its notes name the others.
    """
    counts: dict[str, int] = {}
    failures: dict[str, Exception] = {}
    for name, step in steps.items():
        try:
            counts[name] = step() or 0
        except Exception as error:  # noqa: BLE001  raised below, once the others had their turn
            failures[name] = error
    for first in failures.values():
        first.add_note(f"not erased, so erase again: {', '.join(failures)}")
        raise first
    return counts


def _remove_files(marks: Marks, key: Key) -> int:
    """Delete the saved windows of a user, whichever process wrote them; how many there were."""
    count = 0
    for path in marks.files(key.scope):
        count += saved.remove(Path(path), key.owner)
        marks.unsaved(key.scope, path)
    return count
