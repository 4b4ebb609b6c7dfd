"""What a turn gets while the plane fails, when, and whether the trace says so."""

from __future__ import annotations

from typing import Final

from memtrace import semconv
from memtrace.harness.findings import Judgement, accuse, check, held, outline, told, undecided, untested, violated
from memtrace.harness.record.events import SpanEnded, Timed
from memtrace.harness.record.history import Call, History, Turn
from memtrace.harness.seen.plane import Outage, approved, first_prompts, known_before, outages, up_to_date
from memtrace.model import Evidence, Outcome

_STALLED: Final = 0.5
"""Share of the deadline that the machine may have kept everything from running."""


@check("plane.outage-serves-last")
def outage_serves_last(history: History) -> Judgement:
    """A turn in an outage goes on, and its prompt holds what its agent's prompts held before."""
    down = outages(history)
    if not down:
        return untested("the plane never failed")
    judged = False
    for turn, outage in ((turn, outage) for turn in history.turns.values() for outage in down if outage.covers(turn)):
        if turn.outcome is Outcome.FAILED:
            return violated(f"a turn failed because the plane did ({outage.fault}): {turn.error}", told(turn))
        if not turn.answers:
            continue
        call, text = turn.answers[0], turn.answers[0].prompt.text.lower()
        for fact in known_before(history, outage, turn):
            if fact.agent != history.agent_of(turn.caller):
                continue
            if fact.canary not in text:
                reason = (
                    f"while the plane failed ({outage.fault}) {fact.canary}, known before, is in the prompt no more"
                )
                return accuse(call, reason, outline(call))
            judged = True
    return held(when=judged, otherwise="no curated fact was in a prompt before the plane failed")


@check("plane.turn-is-bounded")
def turn_is_bounded(history: History) -> Judgement:
    """A turn in an outage ends within twice the declared timeout."""
    timeout = history.declared("plane_timeout")
    if timeout is None:
        return untested("the system declares no plane_timeout")
    timed = [event for event in history.of(Timed) if any(o.covers(history.turns[event.turn]) for o in outages(history))]
    if not timed:
        return untested("no turn was timed while the plane failed")
    slow = [event for event in timed if event.seconds > 2 * timeout]
    for event in slow:
        if event.stalled < _STALLED * timeout:
            turn = history.turns[event.turn]
            fault = next(outage.fault for outage in outages(history) if outage.covers(turn))
            took = f"with the plane failing ({fault}) a turn took {event.seconds:.1f} s"
            return violated(f"{took}; the declared timeout is {timeout:g} s", told(turn))
    if slow:
        return undecided(
            f"a turn took {slow[0].seconds:.1f} s, but the machine stalled for {slow[0].stalled:.1f} s too"
        )
    return held(when=all(history.turns[event.turn].ok for event in timed), otherwise="a timed turn did not end well")


@check("plane.staleness-is-visible")
def staleness_is_visible(history: History) -> Judgement:
    """A span of each turn says fresh, stale and how old, or missing, as it was; and the prompt, where declared."""
    if not approved(history):
        return untested("nothing was curated")
    states = set()
    for turn, call in first_prompts(history):
        state = _state(history, turn, call)
        if state is None:
            continue
        said = [span for span in history.spans if span.turn == turn.id and semconv.FRESHNESS in span.attributes]
        if judgement := _misleads(turn, state, said):
            return judgement
        sentence = history.declared("missing_plane_says", call.at)
        if state == "missing" and sentence and str(sentence) not in call.prompt.text:
            return accuse(call, "curated facts are missing, and the prompt does not say so as declared", outline(call))
        states.add(state)
    return held(when=len(states) > 1, otherwise="the plane was never up and then down")


def _state(history: History, turn: Turn, call: Call) -> str | None:
    """What there was to say; ``None`` where that cannot be told."""
    outage = next((outage for outage in outages(history) if outage.covers(turn)), None)
    if outage is None:
        return "fresh" if up_to_date(history, turn, call) else None
    return "stale" if known_before(history, outage, turn) else _never_read(history, outage, turn)


def _never_read(history: History, outage: Outage, turn: Turn) -> str | None:
    before = (other for other in history.turns.values() if other.started < outage.start)
    return None if any(other.process == turn.process for other in before) else "missing"


def _misleads(turn: Turn, state: str, said: list[SpanEnded]) -> Judgement | None:
    if not said:
        return violated(f"curated facts were {state} in turn {turn}, and no span says whether they were", told(turn))
    shown = said[-1].attributes
    evidence = Evidence("the span", f"{said[-1].name}: {shown[semconv.FRESHNESS]}, age {shown.get(semconv.AGE)}")
    if shown[semconv.FRESHNESS] != state:
        return violated(f"curated facts were {state} in turn {turn}, and the span says otherwise", evidence)
    if state == "stale" and not isinstance(shown.get(semconv.AGE), int | float):
        return violated(f"curated facts were stale in turn {turn}, and the span does not say since when", evidence)
    return None
