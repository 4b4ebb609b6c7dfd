"""Positive controls: whose memory has been seen to work, without which nothing that is missing means anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import combinations
from typing import Any

from memtrace.harness.findings import Judgement, accuse, held, outline, told, undecided, untested
from memtrace.harness.record.events import FactsRead, FactWritten, TurnStarted
from memtrace.harness.record.history import History, Turn, canaries_in, positions
from memtrace.harness.seen.sightings import sightings
from memtrace.model import Caller, Outcome

Identity = tuple[str, ...]


@lru_cache(maxsize=1)
def people(history: History) -> dict[Identity, Caller]:
    """Everyone who could be told and did something, in the order they came."""
    found: dict[Identity, Caller] = {}
    for event in history.of(TurnStarted, FactWritten, FactsRead):
        identity = history.identity(event.caller)
        if identity is not None:
            found.setdefault(identity, event.caller)
    return found


def pairs(history: History) -> Iterator[tuple[Caller, Caller]]:
    """Every two of them."""
    return combinations(people(history).values(), 2)


@lru_cache(maxsize=1)
def recalled(history: History) -> dict[Identity | None, int]:
    """Who was shown again what they had said or stored, in a later prompt or a read; and when first."""
    found: dict[Identity | None, int] = {}
    for sighting in sightings(history):
        if any(not s.shared and history.same(s.caller, sighting.caller) for s in sighting.sources):
            found.setdefault(history.identity(sighting.caller), sighting.at)
    return found


def unproven(history: History, callers: Iterable[Caller]) -> str:
    """Why what these callers were not shown means nothing: one was not shown even their own. Empty where all were.

    Who said nothing has nothing to be shown, and whom the system refuses to serve needs no proof.
    """
    works, away, said = recalled(history), refused(history), entered(history)
    concerned = [caller for caller in callers if history.identity(caller) in said]
    for caller in concerned:
        identity = history.identity(caller)
        if identity not in works and identity not in away:
            return f"{caller.user or caller.session or 'a caller'!s:.60} was not shown even their own words again"
    return "" if concerned else "none of them said anything"


@lru_cache(maxsize=1)
def refused(history: History) -> frozenset[Identity | None]:
    """Whom the system refuses to serve: it let none of their turns or writes through."""
    attempts: dict[Identity | None, list[bool]] = {}
    for turn in history.turns.values():
        attempts.setdefault(history.identity(turn.caller), []).append(turn.outcome is Outcome.REFUSED)
    for event in history.of(FactWritten):
        attempts.setdefault(history.identity(event.caller), []).append(event.refused)
    return frozenset(identity for identity, answers in attempts.items() if all(answers))


def somebody_looked_after_an_owner(history: History) -> bool:
    """An owner was shown their own again, and somebody else looked too after the owner's words had entered."""
    looks = [(event.at, history.identity(event.caller)) for event in history.of(TurnStarted, FactsRead)]
    return any(
        any(at > first and identity != owner for at, identity in looks)
        for owner, first in entered(history).items()
        if owner in recalled(history)
    )


@lru_cache(maxsize=1)
def entered(history: History) -> dict[Any, int]:
    """Whose words entered, and when first."""
    first: dict[Any, int] = {}
    for sources in history.canaries.values():
        for source in sources:
            owner = history.identity(source.caller)
            if not source.shared and owner is not None:
                first[owner] = min(first.get(owner, source.at), source.at)
    return first


def shown_again(history: History, rule: str) -> Judgement:
    """Whether what the script expects of a word again and again is so: the first time is the control."""
    declared = history.expected(rule)
    if not declared:
        return untested("the script declared nothing")
    proven: set[str] = set()
    for expected in declared:
        turn = history.turns[expected.turn]
        if not turn.answers:
            return undecided(f"turn {turn} called no model", told(turn))
        call = turn.answers[0]
        is_shown = bool(positions(call.prompt, expected.canary))
        if is_shown != (expected.times == "some"):
            reason = f"{expected.canary} is {'' if is_shown else 'not '}in the prompt of turn {turn}: {expected.why}"
            return (
                accuse(call, reason, outline(call)) if expected.canary in proven else undecided(reason, outline(call))
            )
        proven.add(expected.canary)
    return held(when=len(declared) > len(proven), otherwise="nothing was expected a second time")


def words_of(turn: Turn) -> list[str]:
    """The planted words that entered in a turn: what was said and what was answered."""
    return canaries_in("\n".join([turn.text, *(call.reply for call in turn.answers)]))
