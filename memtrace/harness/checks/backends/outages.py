"""What turns do while the store fails."""

from __future__ import annotations

from typing import Final

from memtrace import semconv
from memtrace.harness.findings import Judgement, accuse, check, held, outline, told, undecided, untested, violated
from memtrace.harness.record.events import SpanEnded, Timed
from memtrace.harness.record.history import History, Turn, canaries_in
from memtrace.harness.seen.store import StoreOutage, outage_of, store_outages, stored_for
from memtrace.model import Evidence, Outcome

_STALLED: Final = 0.5
"""Share of the deadline that the machine may have kept everything from running."""


@check("backends.outage-is-bounded")
def outage_is_bounded(history: History) -> Judgement:
    """A turn in an outage ends well, within twice the declared deadline, with what its caller's prompts had before."""
    deadline = history.declared("deadline")
    if deadline is None:
        return untested("the system declares no deadline")
    turns = [(turn, outage) for turn in history.turns.values() if (outage := outage_of(history, turn))]
    if not turns:
        return untested("no turn was run while the store failed")
    late = _late(history, float(deadline))
    if late is not None:
        return late
    served = False
    for turn, outage in turns:
        known = _known_before(history, turn, outage)
        if turn.outcome is Outcome.FAILED and known:
            return violated(f"a turn failed because the store did ({outage.fault}): {turn.error}", told(turn))
        for call in turn.answers[:1]:
            shown = set(canaries_in(call.prompt.text))
            if gone := [word for word in known if word not in shown]:
                reason = f"while the store failed ({outage.fault}) {gone[0]}, known before, is in the prompt no more"
                return accuse(call, reason, outline(call))
            served = served or bool(known)
    return held(when=served, otherwise="nothing stored was in a prompt before the store failed")


def _late(history: History, deadline: float) -> Judgement | None:
    slow = [e for e in history.of(Timed) if e.seconds > 2 * deadline and outage_of(history, history.turns[e.turn])]
    for event in slow:
        if event.stalled < _STALLED * deadline:
            turn = history.turns[event.turn]
            outage = outage_of(history, turn)
            took = f"with the store failing ({outage.fault if outage else ''}) a turn took {event.seconds:.1f} s"
            return violated(f"{took}; the declared deadline is {deadline:g} s", told(turn))
    if slow:
        return undecided(
            f"a turn took {slow[0].seconds:.1f} s, but the machine stalled for {slow[0].stalled:.1f} s too"
        )
    return None


def _known_before(history: History, turn: Turn, outage: StoreOutage) -> list[str]:
    """The stored words that a prompt of this process already had: the caller's own, and the agent's."""
    since = history.sitting(turn.process, turn.started)
    shown = {
        word
        for other in history.turns.values()
        if since <= other.started < outage.start and other.process == turn.process and other.ok
        for call in other.answers[:1]
        for word in canaries_in(call.prompt.text)
    }
    return [word for word in stored_for(history, turn) if word in shown]


@check("backends.outage-is-visible")
def outage_is_visible(history: History) -> Judgement:
    """A turn in an outage whose prompt lacks stored facts fails, or has a span that says so."""
    if not store_outages(history):
        return untested("the store never failed")
    seen = False
    for turn in history.turns.values():
        outage = outage_of(history, turn)
        if outage is None:
            continue
        if turn.outcome is Outcome.FAILED:
            seen = True
            continue
        for call in turn.answers[:1] if turn.ok else ():
            shown = set(canaries_in(call.prompt.text))
            lacking = [word for word in stored_for(history, turn) if word not in shown]
            if lacking and not any(_says_so(span) for span in history.spans if span.turn == turn.id):
                spans = ", ".join(f"{s.name} {s.status}" for s in history.spans if s.turn == turn.id and _is_memory(s))
                reason = f"the store failed ({outage.fault}), {lacking[0]} is not in the prompt, and no span says why"
                return accuse(call, reason, outline(call), Evidence("its memory spans", spans or "(none)"))
            seen = seen or bool(lacking)
    return held(when=seen, otherwise="no turn was kept from its facts while the store failed")


def _says_so(span: SpanEnded) -> bool:
    return _is_memory(span) and (span.status == "ERROR" or semconv.ERROR_TYPE in span.attributes)


def _is_memory(span: SpanEnded) -> bool:
    operation = span.attributes.get(semconv.OPERATION_NAME)
    return span.name.startswith("memory.") or operation in semconv.MEMORY_OPERATIONS
