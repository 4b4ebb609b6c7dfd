"""Several processes on the same data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from memtrace.harness.checks.processes.forgetting import blame
from memtrace.harness.findings import Judgement, check, held, told, untested, violated
from memtrace.harness.record.events import FactsRead, FactWritten, ProcessStarted
from memtrace.harness.record.history import History, Turn, canaries_in
from memtrace.harness.seen.expectations import met, met_again
from memtrace.harness.seen.facts import learned, listings
from memtrace.harness.seen.forgotten import FORGETTING
from memtrace.harness.seen.remnants import remnants
from memtrace.model import Caller, Evidence, Outcome

_BROKEN: Final = (Outcome.FAILED, Outcome.KILLED)
_TWO: Final = 2


@check("processes.other-process-seen")
def other_process_seen(history: History) -> Judgement:
    """The next turn of a process knows what another added, put in the place of another, or forgot."""
    rule = "processes.other-process-seen"
    judgement = met(history, rule)
    if judgement.reason or not history.expected(rule):
        return judgement
    for remnant in remnants(history):
        if blame(history, remnant) == rule:
            return remnant.accuse(f"a fact that another process had forgotten is in {remnant.where}")
    return judgement


@check("processes.fork-safe")
def fork_safe(history: History) -> Judgement:
    """After a fork, child and parent take turns that end well and know what either stored."""
    forks = [event for event in history.of(ProcessStarted) if event.forked_from]
    if not forks:
        return untested("no process was forked")
    for fork in forks:
        turns = [turn for turn in history.turns.values() if turn.process in (fork.process, fork.forked_from)]
        works = any(turn.ok and turn.started < fork.at for turn in turns)
        broken = next((turn for turn in turns if turn.started > fork.at and turn.outcome in _BROKEN), None)
        if broken is not None and works:
            return _no_longer(broken)
        if error := _failed_write(history, fork):
            return violated("a fact could be stored before the fork, and not after it", error)
    return met_again(history, "processes.fork-safe")


def _no_longer(turn: Turn) -> Judgement:
    how = Evidence("how it ended", turn.error or "without an error")
    return violated(
        f"turn {turn} in {turn.process} ended {turn.outcome}, where one before the fork ended well", told(turn), how
    )


def _failed_write(history: History, fork: ProcessStarted) -> Evidence | None:
    there = [event for event in history.of(FactWritten) if event.process in (fork.process, fork.forked_from)]
    works = any(event.at < fork.at and not event.error for event in there)
    failed = (event for event in there if event.at > fork.at and event.error and works)
    return next((Evidence(f"{event.op} in {event.process}", event.error) for event in failed), None)


@check("processes.two-writers")
def two_writers(history: History) -> Judgement:
    """All that was stored without an error, in whichever process, is in a later listing."""
    writes = [*_added(history), *_learned(history)]
    if len({write.process for write in writes}) < _TWO:
        return untested("no two processes stored facts")
    full = False
    for read in listings(history):
        due = [write for write in writes if write.at < read.at and _still_due(history, write, read)]
        shown = set(canaries_in("\n".join(read.texts)))
        if gone := [write for write in due if write.word not in shown]:
            what = Evidence(f"stored in {gone[0].process}", gone[0].text)
            listed = Evidence(f"what facts gave in {read.process}", "\n".join(read.texts) or "(nothing)")
            return violated("a fact was stored without an error, and is not there", what, listed)
        full = full or len({write.process for write in due}) >= _TWO
    return held(when=full, otherwise="no listing shows what two processes stored")


@dataclass(frozen=True, slots=True)
class _Write:
    """A word that a process stored as a fact of a caller's."""

    at: int
    word: str
    process: str
    caller: Caller
    text: str
    record: str = ""


def _added(history: History) -> Iterator[_Write]:
    for event in history.of(FactWritten):
        if event.op == "add" and event.scope == "user" and not event.error:
            for word in canaries_in(event.text)[:1]:
                yield _Write(event.at, word, event.process, event.caller, event.text, event.record)


def _learned(history: History) -> Iterator[_Write]:
    """What the memory model kept of what was said in turns that ended well, where learning is seen to work."""
    if not learned(history):
        return
    for turn in history.turns.values():
        kept = canaries_in("\n".join(call.reply for call in turn.calls if call.purpose == "memory" and call.exact))
        for word in set(kept) & set(canaries_in(turn.text)) if turn.ok else ():
            yield _Write(turn.ended, word, turn.process, turn.caller, turn.text)


def _still_due(history: History, write: _Write, read: FactsRead) -> bool:
    """Whether a listing is its owner's, and they have neither replaced nor forgotten it."""
    later = (e for e in history.of(FactWritten) if write.at < e.at < read.at and not e.error)
    changed = any(
        history.same(e.caller, write.caller) and (e.op in FORGETTING or (e.op == "update" and e.record == write.record))
        for e in later
    )
    return history.same(write.caller, read.caller) and not changed
