"""Several processes on the same data."""

from __future__ import annotations

from collections.abc import Iterator

from memtrace.harness.checks.processes.forgetting import blame
from memtrace.harness.events import FactsRead, FactWritten, ProcessStarted
from memtrace.harness.expectations import met, met_again
from memtrace.harness.facts_seen import listings
from memtrace.harness.findings import Judgement, check, held, told, undecided, untested, violated
from memtrace.harness.forgotten import FORGETTING, remnants
from memtrace.harness.history import History, Turn, canaries_in
from memtrace.model import Evidence, Outcome

_BROKEN = (Outcome.FAILED, Outcome.KILLED)


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
            return violated("after the fork a fact could not be stored", error)
    return met_again(history, "processes.fork-safe")


def _no_longer(turn: Turn) -> Judgement:
    how = Evidence("how it ended", turn.error or "without an error")
    return violated(f"turn {turn} in {turn.process} ended {turn.outcome}, where one before the fork ended well", told(turn), how)


def _failed_write(history: History, fork: ProcessStarted) -> Evidence | None:
    for event in history.of(FactWritten):
        if event.at > fork.at and event.process in (fork.process, fork.forked_from) and event.error:
            return Evidence(f"{event.op} in {event.process}", event.error)
    return None


@check("processes.two-writers")
def two_writers(history: History) -> Judgement:
    """All that was stored without an error, in whichever process, is in a later listing."""
    writers = {event.process for event in _stored(history)}
    if len(writers) < 2:  # noqa: PLR2004  two
        return untested("no two processes stored facts")
    for read in listings(history):
        if gone := [text for text in _due(history, read) if text not in read.texts]:
            listed = Evidence(f"what facts gave in {read.process}", "\n".join(read.texts) or "(nothing)")
            return violated("a fact was stored without an error, and is not there", Evidence("the fact", gone[0]), listed)
    full = any(len({e.process for e in _stored(history) if e.text in read.texts}) > 1 for read in listings(history))
    return held(when=full, otherwise="no listing shows what two processes stored")


def _stored(history: History) -> Iterator[FactWritten]:
    return (event for event in history.of(FactWritten) if event.op == "add" and event.scope == "user" and not event.error)


def _due(history: History, read: FactsRead) -> Iterator[str]:
    """The texts that a listing should show: what its caller had added, and neither replaced nor forgotten since."""
    own = [e for e in history.of(FactWritten) if e.at < read.at and history.same(e.caller, read.caller)]
    for event in own:
        later = (e for e in own if e.at > event.at and not e.error)
        changed = any(e.op in FORGETTING or (e.op == "update" and e.record == event.record) for e in later)
        if event in _stored(history) and canaries_in(event.text) and not changed:
            yield event.text
