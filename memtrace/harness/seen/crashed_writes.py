"""What a history says of adds and updates that were cut short by the end of their process."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from memtrace.harness.record.events import FactsRead, FactWritten
from memtrace.harness.record.history import NEVER, Call, History
from memtrace.harness.seen.facts import listings


@dataclass(frozen=True, slots=True)
class Stretch:
    """A write of a caller's, and how things were from then until their next one: what listings and prompts showed.

    Attributes:
        write: the write.
        listed: every listing.
        prompts: of each turn that went well, the first prompt.
        stored: the first listing by a system that was opened after the first of all: what is there, not what the one
            that may have written it remembers.
    """

    write: FactWritten
    listed: tuple[FactsRead, ...]
    prompts: tuple[Call, ...]
    stored: FactsRead | None

    @property
    def first_listing(self) -> FactsRead | None:
        """What was there right after the write."""
        return next(iter(self.listed), None)

    @property
    def last_listing(self) -> FactsRead | None:
        """What was there right before the next one."""
        return next(reversed(self.listed), None)


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
    for write in history.of(FactWritten):
        if write.op in ("add", "update") and write.scope == "user" and write.error and write.process in history.killed:
            earlier, later = around(history, write)
            crashed = _crashed(write, earlier, later)
            if crashed is not None:
                yield crashed


def around(history: History, write: FactWritten) -> tuple[Stretch | None, list[Stretch]]:
    """The stretch that a write ended, if its caller had written before; and the one it began, with all later ones."""
    stretches = _stretches_of(history, write)
    number = next(n for n, stretch in enumerate(stretches) if stretch.write is write)
    return stretches[number - 1] if number else None, stretches[number:]


def _stretches_of(history: History, write: FactWritten) -> list[Stretch]:
    """Every write of this write's caller, in order, each with the reads and prompts until the next."""
    caller = write.caller
    writes = [event for event in history.of(FactWritten) if history.same(event.caller, caller)]
    reads = [read for read in listings(history) if history.same(read.caller, caller) and not read.superseded]
    turns = [turn for turn in history.turns.values() if turn.ok and history.same(turn.caller, caller) and turn.answers]
    stretches: list[Stretch] = []
    for one, end in zip(writes, [*(event.at for event in writes[1:]), NEVER], strict=True):
        listed = tuple(read for read in reads if one.at < read.at < end)
        prompts = tuple(turn.answers[0] for turn in turns if one.at < turn.started < turn.ended < end)
        stored = next((read for read in listed if history.sitting(read.process, read.at) > listed[0].at), None)
        stretches.append(Stretch(one, listed, prompts, stored))
    return stretches


def _crashed(write: FactWritten, earlier: Stretch | None, later: list[Stretch]) -> Crashed | None:
    before = earlier.last_listing if earlier is not None else None
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
