"""What is kept of a turn that did not end well: nothing."""

from __future__ import annotations

from memtrace.harness.findings import Judgement, check, held, untested
from memtrace.harness.record.history import NEVER, History, Turn, canaries_in
from memtrace.harness.seen.sightings import remnants, shown_own
from memtrace.model import Outcome


@check("turns.failed-writes-nothing")
def failed_writes_nothing(history: History) -> Judgement:
    """What only failed turns said is in no later prompt and no record."""
    return _nothing_of(history, Outcome.FAILED, "failed")


@check("turns.blocked-writes-nothing")
def blocked_writes_nothing(history: History) -> Judgement:
    """What only turns said that a guardrail blocked is in no later prompt and no record."""
    return _nothing_of(history, Outcome.BLOCKED, "was blocked by a guardrail")


@check("turns.limit-writes-nothing")
def limit_writes_nothing(history: History) -> Judgement:
    """What only turns said that reached the iteration limit is in no later prompt and no record."""
    return _nothing_of(history, Outcome.LIMIT, "was stopped at the iteration limit")


@check("turns.paused-writes-nothing")
def paused_writes_nothing(history: History) -> Judgement:
    """What only paused turns said is in no prompt and no record until they are resumed."""
    return _nothing_of(history, Outcome.PAUSED, "waits for an approval")


def _nothing_of(history: History, outcome: Outcome, how: str) -> Judgement:
    for remnant in remnants(history):
        turn = remnant.said[-1]
        if turn.outcome is outcome:
            return remnant.accuse(f"{remnant.word} was said in turn {turn}, which {how}, and yet it was kept")
    ended = [turn for turn in history.turns.values() if turn.outcome is outcome and _said_something(history, turn)]
    if not ended:
        return untested(f"no turn ended {outcome}")
    control = any(shown_own(history, turn.caller, after=turn.ended, before=_resumed(history, turn)) for turn in ended)
    return held(when=control, otherwise="afterwards its caller was shown nothing of earlier turns either")


def _said_something(history: History, turn: Turn) -> bool:
    return any(source.turn == turn.id for word in _words(turn) for source in history.sources(word))


def _words(turn: Turn) -> list[str]:
    return canaries_in("\n".join([turn.text, *(call.reply for call in turn.answers)]))


def _resumed(history: History, turn: Turn) -> int:
    """When a paused turn's run was gone on with; far in the future where it never was."""
    return min((other.started for other in history.turns.values() if other.of == turn.id), default=NEVER)
