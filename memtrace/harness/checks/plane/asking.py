"""What the plane is asked, how often, and what that tells."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

from memtrace.harness.findings import Judgement, check, held, untested, violated
from memtrace.harness.record.events import Curated, PlaneAsked, PlaneHolds
from memtrace.harness.record.excerpts import excerpt
from memtrace.harness.record.history import History, canaries_in
from memtrace.harness.seen.plane import Outage, agent_asked_for, asks, lines_about_it, outages
from memtrace.model import Evidence

_ABOUT_FACTS: Final = re.compile(r"memory|fact", re.IGNORECASE)
"""A client may do more at a plane than read facts, such as say that it is there; that is not judged here."""
_EMAIL: Final = re.compile(r"[\w.+-]+@[\w-]+\.\w+")
_ASKED_PAUSE: Final = 40.0
"""What the harness's plane asks for where a script gives no number."""
_SLACK: Final = 0.5


@check("plane.read-only")
def read_only(history: History) -> Judgement:
    """Only GET reaches what the plane has of facts, and it holds the same ones after as before."""
    requests = list(history.of(PlaneAsked))
    if not requests:
        return untested("the plane was never asked")
    writing = next((ask for ask in requests if ask.method != "GET" and _ABOUT_FACTS.search(ask.path)), None)
    if writing is not None:
        return violated(f"the plane was sent {writing.method}, which is no reading", _request(writing))
    holds = [event for event in history.events if isinstance(event, PlaneHolds | Curated)]
    for before, after in pairwise(holds):
        if isinstance(before, PlaneHolds) and isinstance(after, PlaneHolds) and before.facts != after.facts:
            return violated(
                "the plane holds other facts than before, and no curator changed any",
                Evidence("before", str(before.facts)), Evidence("after", str(after.facts)),
            )  # fmt: skip
    return held(when=asks(history), otherwise="no facts were asked for")


@check("plane.question-stays-home")
def question_stays_home(history: History) -> Judgement:
    """No request to the plane and no log line about it holds what a user asked, but as payloads allow."""
    questions = {word for turn in history.turns.values() for word in canaries_in(turn.text)}
    requests = asks(history)
    if not questions or not requests:
        return untested("no question was asked while there was a plane")
    for ask in requests:
        if judgement := _tells(history, ask, questions):
            return judgement
    for line in lines_about_it(history):
        if told := questions & set(canaries_in(line)):
            word = min(told)
            return violated(f"a log line holds {word}, which a user asked", Evidence("the log", excerpt(line, word)))
    return held()


def _tells(history: History, ask: PlaneAsked, questions: set[str]) -> Judgement | None:
    opening = history.opening(ask.at)
    sent = "\n".join([ask.path, ask.query, *ask.headers.values(), ask.body])
    told = questions & set(canaries_in(sent))
    if not told or opening is None:
        return None
    word = min(told)
    if not opening.payloads:
        return violated(f"the plane was sent {word}, which a user asked, though payloads are off", _request(ask))
    in_url = word in f"{ask.path}?{ask.query}".lower()
    if in_url and not history.declared("plane_question_in_url", ask.at):
        return violated(f"the URL holds {word}, which a user asked: access logs keep URLs", _request(ask))
    if opening.options.get("redaction") and (address := _EMAIL.search(ask.query) or _EMAIL.search(_question(ask))):
        return violated(f"the plane was sent {address[0]}, which redaction was to take out", _request(ask))
    return None


@check("plane.one-warning")
def one_warning(history: History) -> Judgement:
    """In an outage each agent's facts are asked for once an interval, and one warning is logged."""
    interval = history.declared("plane_retry")
    if interval is None:
        return untested("the system declares no plane_retry")
    seen = [outage for outage in outages(history) if _asks_in(history, outage)]
    if not seen:
        return untested("there was no outage in which the plane was asked")
    again = False
    for outage in seen:
        pause = float(outage.details.get("seconds", _ASKED_PAUSE)) if _says_when(outage) else float(interval)
        for earlier, later in _tries(history, outage):
            if later.clock - earlier.clock < pause - _SLACK:
                waited = later.clock - earlier.clock
                return violated(
                    f"a plane that failed ({outage.fault}) was asked again after {waited:.1f} s, not {pause:g} s",
                    _request(earlier), _request(later),
                )  # fmt: skip
            again = True
    warnings = lines_about_it(history, warnings=True)
    if len(warnings) != len(seen):
        return violated(
            f"{len(seen)} outages were told in {len(warnings)} warnings", Evidence("the log", "\n".join(warnings))
        )
    return held(when=again, otherwise="the plane was never asked again")


def _says_when(outage: Outage) -> bool:
    return outage.fault in ("503, retry after", "429")


def _asks_in(history: History, outage: Outage) -> list[PlaneAsked]:
    return [ask for ask in asks(history) if outage.start < ask.at < outage.end]


def _tries(history: History, outage: Outage) -> list[tuple[PlaneAsked, PlaneAsked]]:
    """Requests that follow one another for the same agent, the first of which failed in this outage."""
    failed = {ask.at for ask in _asks_in(history, outage)}
    every = asks(history)
    agents = {agent_asked_for(ask) for ask in every}
    pairs = (pairwise([ask for ask in every if agent_asked_for(ask) == agent]) for agent in agents)
    return [pair for of_agent in pairs for pair in of_agent if pair[0].at in failed]


def _question(ask: PlaneAsked) -> str:
    return "\n".join(value for name, value in ask.headers.items() if name not in ("host", "user-agent"))


def _request(ask: PlaneAsked) -> Evidence:
    return Evidence(f"a request to the plane ({ask.clock:.1f} s)", f"{ask.method} {ask.path}?{ask.query}")
