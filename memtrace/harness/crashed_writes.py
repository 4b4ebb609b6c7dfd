"""What a history says of adds and updates that were cut short by the end of their process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from memtrace.harness.events import FactsRead, FactWritten, ProcessEnded
from memtrace.harness.facts_seen import listings
from memtrace.harness.history import Call, History

_NEVER = 1 << 60


@dataclass(slots=True)
class Stretch:
    """A write of a caller's, and how things were from then until their next one: what listings and prompts showed."""

    write: FactWritten
    listed: list[FactsRead] = field(default_factory=list)
    prompts: list[Call] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Crashed:
    """A write that never returned.

    Attributes:
        write: the add, or the update.
        before: the caller's facts before it.
        replaced: of an update, the text whose place it was to take.
        left: what came between the crash and the caller's next write.
        again: what came after the same call was made again, if it was, and returned.
        forgotten: what came after the fact was then forgotten by its id, if it was.
    """

    write: FactWritten
    before: FactsRead
    replaced: str
    left: Stretch
    again: Stretch | None = None
    forgotten: Stretch | None = None

    @property
    def old(self) -> Counter[str]:
        """The facts without it."""
        return Counter(self.before.texts)

    @property
    def new(self) -> Counter[str]:
        """The facts with it."""
        others = [text for text in self.before.texts if text not in (self.replaced, self.write.text)]
        return Counter([*others, self.write.text])


def crashed_writes(history: History) -> Iterator[Crashed]:
    """Every add and update of a user's fact that was cut short, where a listing says what was there before."""
    killed = {event.process for event in history.of(ProcessEnded) if event.how == "kill"}
    for write in history.of(FactWritten):
        if write.op in ("add", "update") and write.scope == "user" and write.error and write.process in killed:
            stretches = stretches_of(history, write)
            number = next(n for n, stretch in enumerate(stretches) if stretch.write is write)
            crashed = _crashed(write, stretches[number - 1] if number else None, stretches[number:])
            if crashed is not None:
                yield crashed


def stretches_of(history: History, write: FactWritten) -> list[Stretch]:
    """All writes of the caller of one."""
    caller = write.caller
    found = [Stretch(event) for event in history.of(FactWritten) if history.same(event.caller, caller)]
    ends = [*(stretch.write.at for stretch in found[1:]), _NEVER]
    reads = [read for read in listings(history) if history.same(read.caller, caller) and not read.superseded]
    turns = [turn for turn in history.turns.values() if turn.ok and history.same(turn.caller, caller)]
    for stretch, end in zip(found, ends, strict=True):
        stretch.listed = [read for read in reads if stretch.write.at < read.at < end]
        stretch.prompts = [
            turn.answers[0] for turn in turns if turn.answers and stretch.write.at < turn.started < turn.ended < end
        ]
    return found


def _crashed(write: FactWritten, earlier: Stretch | None, later: list[Stretch]) -> Crashed | None:
    before = earlier.listed[-1] if earlier is not None and earlier.listed else None
    if before is None:
        return None
    replaced = next((fact.text for fact in before.facts if fact.id == write.record), "") if write.op == "update" else ""
    if write.op == "update" and not replaced:
        return None
    left, *rest = later
    again = rest.pop(0) if rest and _same_call(rest[0].write, write) else None
    known = _records(again or left, write.text)
    forgotten = rest[0] if rest and rest[0].write.op == "forget" and rest[0].write.record in known else None
    return Crashed(write, before, replaced, left, again, forgotten)


def _same_call(one: FactWritten, other: FactWritten) -> bool:
    return (one.op, one.text, one.scope) == (other.op, other.text, other.scope) and not one.error


def _records(stretch: Stretch, text: str) -> set[str]:
    returned = stretch.write.returned if stretch.write.op == "update" else stretch.write.record
    listed = {fact.id for read in stretch.listed for fact in read.facts if fact.text == text}
    return listed | ({returned} - {""})
