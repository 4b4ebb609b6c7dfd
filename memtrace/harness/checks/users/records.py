"""Whether a stored record can be touched by those only whom it belongs to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from memtrace.harness.checks.users.controls import recalled, shown_again
from memtrace.harness.findings import Judgement, check, held, undecided, untested, violated
from memtrace.harness.record.events import FactsRead, FactWritten
from memtrace.harness.record.history import History, canaries_in
from memtrace.harness.seen.forgotten import FORGETTING
from memtrace.harness.seen.leaks import accuse_leaks, blamed
from memtrace.harness.seen.losses import Comparison, comparisons, lost
from memtrace.harness.seen.sightings import Sighting, sightings
from memtrace.model import Caller, Evidence

Attempt = FactWritten | FactsRead
_OF_A_USER: Final = frozenset({"add", "update", "forget", "erase", "facts", "get", "search", "messages"})
"""What is done for one user, and needs their id."""


@check("users.foreign-record-untouchable")
def foreign_record_untouchable(history: History) -> Judgement:
    """Whoever names the id of another's record, or of the agent's, reads, replaces and deletes nothing by it."""
    rule = "users.foreign-record-untouchable"
    if found := blamed(history, rule):
        return accuse_leaks(found, "a caller who named another's record reached it")
    if gone := lost(history, rule):
        return gone[0].accuse(f"{gone[0].act} made another's fact go away")
    attempts = list(_on_others(history))
    if not attempts:
        return untested("nobody named another's record")
    if failed := next((attempt for attempt, _ in attempts if attempt.error and not attempt.refused), None):
        return _no_refusal(failed)
    untold = _unread(history, attempts)
    return held(when=not untold, otherwise=untold)


def _on_others(history: History) -> Iterator[tuple[Attempt, Caller]]:
    """Every call that named a record of another's, with its owner."""
    for event in history.of(FactWritten, FactsRead):
        if event.op in ("get", "update", "forget"):
            owner = history.record_owner(event.record, event.at)
            if owner is not None and not history.same(owner, event.caller):
                yield event, owner


def _unread(history: History, attempts: list[tuple[Attempt, Caller]]) -> str:
    """Why nothing follows: afterwards nobody was shown what its owner has, or an owner was given none."""
    for attempt, owner in attempts:
        later = [seen for seen in sightings(history) if seen.at > attempt.at]
        if _of_agent(history, attempt.record):
            if not any(seen.call is not None and attempt.record in _records(seen) for seen in later):
                return f"afterwards the agent's record {attempt.record:.60} was in no prompt"
        elif not any(seen.read is not None and history.same(seen.caller, owner) for seen in later):
            return f"afterwards {owner.user:.60} did not read their own facts"
    return ""


def _of_agent(history: History, record: str) -> bool:
    """Whether the record was stored for an agent's callers."""
    return any(e.op == "add" and e.record == record and e.scope == "agent" for e in history.of(FactWritten))


def _records(seen: Sighting) -> set[str]:
    return {source.record for source in seen.sources}


def _no_refusal(attempt: Attempt) -> Judgement:
    reason = f"{attempt.op} raised {attempt.error.partition(':')[0]}, which the adapter does not list as a refusal"
    return undecided(reason, Evidence(attempt.op, attempt.error))


@check("users.empty-id-reads-nothing")
def empty_id_reads_nothing(history: History) -> Judgement:
    """An empty user id names nobody: it is shown nothing, not even what was stored under it, and forgets nothing."""
    rule = "users.empty-id-reads-nothing"
    if found := blamed(history, rule):
        return accuse_leaks(found, "an empty id was shown what belongs to a user, or the other way round")
    if gone := lost(history, rule):
        return gone[0].accuse("an empty id made a user's facts go away")
    calls = [e for e in history.of(FactWritten, FactsRead) if e.op in _OF_A_USER and history.nameless(e.caller)]
    for event in calls:
        if isinstance(event, FactsRead) and canaries_in("\n".join(event.texts)):
            return violated("an empty id read something", Evidence(f"what {event.op} gave", "\n".join(event.texts)))
    if not calls:
        return untested("nobody called with an empty id")
    if failed := next((event for event in calls if event.error and not event.refused), None):
        return _no_refusal(failed)
    return held(when=recalled(history), otherwise="no user was shown their own facts either")


@check("users.forget-one-leaves-others")
def forget_one_leaves_others(history: History) -> Judgement:
    """After one user is forgotten every other is shown what they were shown before, of their own and the agent's."""
    if gone := lost(history, "users.forget-one-leaves-others"):
        return gone[0].accuse(f"what belongs to {gone[0].comparison.after.owner} is gone after {gone[0].act}")
    if not any(event.op in FORGETTING for event in history.of(FactWritten)):
        return untested("nobody was forgotten")
    around = [found for found in comparisons(history) if found.before.words and _forgot(history, found)]
    return held(when=around, otherwise="nobody else looked at their own before and after")


def _forgot(history: History, comparison: Comparison) -> bool:
    """Whether between two looks somebody really was forgotten, or everything was erased of them."""
    return any(
        event.op == "erase" or (event.op == "forget" and bool(event.count))
        for event in history.of(FactWritten)
        if comparison.before.at < event.at < comparison.after.since and not event.error
    )


@check("users.evicted-keeps-facts")
def evicted_keeps_facts(history: History) -> Judgement:
    """A user whose window was dropped keeps their facts, and what had been saved; who was active keeps the window."""
    if history.declared("max_users") is None:
        return untested("the system declares no limit of windows")
    return shown_again(history, "users.evicted-keeps-facts")
