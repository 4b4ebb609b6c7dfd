"""What a history says of the store: when it failed, and which facts of a caller's were in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from memtrace.harness.record.events import FactWritten, StoreFaulty
from memtrace.harness.record.history import NEVER, History, Turn, canaries_in

_CHANGES: Final = frozenset({"update", "forget", "erase"})


@dataclass(frozen=True, slots=True)
class StoreOutage:
    """A time in which the store failed in one way."""

    fault: str
    start: int
    end: int = NEVER

    def covers(self, turn: Turn) -> bool:
        """Whether a turn began and ended in it."""
        return self.start < turn.started and turn.ended < self.end


def store_outages(history: History) -> list[StoreOutage]:
    """The times in which the store failed, in order."""
    changes = list(history.of(StoreFaulty))
    ends = [*(change.at for change in changes[1:]), NEVER]
    return [
        StoreOutage(change.fault, change.at, end) for change, end in zip(changes, ends, strict=False) if change.fault
    ]


def outage_of(history: History, turn: Turn) -> StoreOutage | None:
    """The outage that a turn began and ended in."""
    return next((outage for outage in store_outages(history) if outage.covers(turn)), None)


def stored_for(history: History, turn: Turn) -> list[str]:
    """The planted words of facts that were persisted before a turn for its caller, or for all of its agent."""
    writes = [event for event in history.of(FactWritten) if event.at < turn.started and not event.error]
    changed = [event for event in writes if event.op in _CHANGES and history.same(event.caller, turn.caller)]
    words: list[str] = []
    for event in writes:
        mine = event.scope == "user" and not changed and history.same(event.caller, turn.caller)
        ours = event.scope == "agent" and history.agent_of(event.caller) == history.agent_of(turn.caller)
        same_project = event.caller.project == turn.caller.project
        if event.op == "add" and same_project and (mine or ours):
            words += canaries_in(event.text)
    return words
