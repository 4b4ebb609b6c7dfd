"""What a history says of the plane: its outages, the facts that were approved, and who was shown them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qs

from memtrace.harness.record.events import Curated, PlaneAsked, PlaneFaulty, Printed
from memtrace.harness.record.history import NEVER, Call, History, Turn, canaries_in

FACTS_PATH: Final = "/memory/facts"
_RIGHT: Final = frozenset({"", "twice"})
_HEALTHY: Final = frozenset({200, 304})
_ABOUT_IT: Final = re.compile(r"plane|curated|memory/facts", re.IGNORECASE)
_WARNS: Final = re.compile(r"^(WARNING|ERROR|CRITICAL) ")
_DIRECT: Final = frozenset({"run", "stream"})
"""Ways of a turn whose first prompt is its caller's agent's own, put together as the turn begins."""


@dataclass(frozen=True, slots=True)
class Outage:
    """A time in which the plane failed in one way."""

    fault: str
    start: int
    end: int = NEVER
    details: Mapping[str, Any] = field(default_factory=dict)

    def covers(self, turn: Turn) -> bool:
        """Whether a turn began and ended in it."""
        return self.start < turn.started and turn.ended < self.end


@dataclass(frozen=True, slots=True)
class Approved:
    """A planted word in a fact that was approved, and came from nowhere else."""

    canary: str
    agent: str
    since: int
    until: int


def outages(history: History) -> list[Outage]:
    """The plane's outages, in order."""
    changes = list(history.of(PlaneFaulty))
    ends = [*(change.at for change in changes[1:]), NEVER]
    return [
        Outage(change.fault, change.at, end, change.details)
        for change, end in zip(changes, ends, strict=False)
        if change.fault not in _RIGHT
    ]


def approved(history: History) -> list[Approved]:
    """Every approved fact's planted words."""
    retired = {event.record: event.at for event in history.of(Curated) if event.op == "retire"}
    return [
        Approved(canary, event.agent, event.at, retired.get(event.record, NEVER))
        for event in history.of(Curated)
        if event.op == "approve"
        for canary in canaries_in(event.text)
        if all(source.way == "plane" for source in history.sources(canary))
    ]


def first_prompts(history: History) -> Iterator[tuple[Turn, Call]]:
    """The first answer prompt of each turn that its caller's own agent answered from the start."""
    for turn in history.turns.values():
        if turn.via in _DIRECT and turn.answers:
            yield turn, turn.answers[0]


def up_to_date(history: History, turn: Turn, call: Call) -> bool:
    """Whether a turn's prompt must hold what the plane serves: it was never down, or was read in this very turn."""
    if _beside(history, turn):
        return False
    if not any(outage.start < call.at for outage in outages(history)):
        return True
    return any(turn.started < ask.at < call.at for ask in asks(history) if _right(ask))


def asks(history: History) -> list[PlaneAsked]:
    """Every request for facts."""
    return [ask for ask in history.of(PlaneAsked) if ask.path.endswith(FACTS_PATH)]


def agent_asked_for(ask: PlaneAsked) -> str:
    """Whose facts a request is for."""
    return parse_qs(ask.query).get("agent_id", [""])[0]


def known_before(history: History, outage: Outage, turn: Turn) -> list[Approved]:
    """What a turn in an outage must still be shown: what its agent's prompts in that process held before."""
    agent = history.agent_of(turn.caller)
    shown = {
        canary
        for other, call in first_prompts(history)
        if call.at < outage.start and other.process == turn.process and history.agent_of(other.caller) == agent
        for canary in canaries_in(call.prompt.text)
    }
    return [fact for fact in approved(history) if fact.canary in shown and fact.until > outage.start]


def lines_about_it(history: History, *, warnings: bool = False) -> list[str]:
    """What was logged or printed of the plane in the script's own process (of warnings and errors alone)."""
    lines = [line for event in history.of(Printed) if event.process == "main" for line in event.text.splitlines()]
    return [line for line in lines if _ABOUT_IT.search(line) and (not warnings or _WARNS.match(line))]


def _right(ask: PlaneAsked) -> bool:
    return (ask.fault in _RIGHT and ask.status in _HEALTHY) or ask.fault == "twice"


def _beside(history: History, turn: Turn) -> bool:
    others = (other for other in history.turns.values() if other is not turn)
    return any(turn.started < other.ended and other.started < turn.ended for other in others)
