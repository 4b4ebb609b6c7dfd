"""What becomes of a run that was paused, resumed or forked."""

from __future__ import annotations

from memtrace.harness.findings import Judgement, check, held, untested
from memtrace.harness.record.history import History, Turn
from memtrace.harness.seen.expectations import met
from memtrace.harness.seen.leaks import accuse_leak, blamed
from memtrace.harness.seen.sightings import shown_own


@check("turns.resumed-records-its-question")
def resumed_records_its_question(history: History) -> Judgement:
    """What the script expects after a run was resumed is in the next prompt."""
    return met(history, "turns.resumed-records-its-question")


@check("turns.resume-belongs-to-its-caller")
def resume_belongs_to_its_caller(history: History) -> Judgement:
    """A run that another caller resumes shows neither of the two what is the other's, then or later."""
    if found := blamed(history, "turns.resume-belongs-to-its-caller"):
        return accuse_leak(found[0], "a run resumed by another caller carried memory from one to the other")
    taken = [turn for turn in history.turns.values() if _foreign(history, turn)]
    if not taken:
        return untested("no run was resumed by another caller")
    control = all(
        shown_own(history, caller, after=turn.ended)
        for turn in taken
        for caller in (turn.caller, history.turns[turn.of].caller)
    )
    return held(when=control, otherwise="afterwards one of the two was not shown even their own memory")


def _foreign(history: History, turn: Turn) -> bool:
    return turn.of in history.turns and not history.same(turn.caller, history.turns[turn.of].caller)
