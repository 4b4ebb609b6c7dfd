"""What a script declared of single turns, and whether their prompts met it."""

from __future__ import annotations

from memtrace.harness.events import Expected
from memtrace.harness.findings import Judgement, accuse, held, outline, shown, told, undecided, untested
from memtrace.harness.history import History, Turn, positions


def met(history: History, rule: str) -> Judgement:
    """Whether the first answer prompt of each declared turn holds its canary as often as the script says."""
    declared = history.expected(rule)
    if not declared:
        return untested("the script declared nothing")
    found = False
    for expected in declared:
        turn = history.turns[expected.turn]
        if not turn.answers:
            return undecided(f"turn {turn} called no model", told(turn))
        count = len(positions(turn.answers[0].prompt, expected.canary))
        if not _enough(count, expected.times):
            return _unmet(turn, expected, count)
        found = found or count > 0
    return held(when=found, otherwise="no prompt held anything that was expected")


def _enough(count: int, times: str) -> bool:
    match times:
        case "some":
            return count > 0
        case "none":
            return count == 0
    return count == int(times)


def _unmet(turn: Turn, expected: Expected, count: int) -> Judgement:
    call = turn.answers[0]
    wanted = {"some": "at least once", "none": "not at all"}.get(expected.times, f"{expected.times} times")
    because = f": {expected.why}" if expected.why else ""
    reason = f"{expected.canary} is in {count} messages of the prompt of turn {turn}, expected {wanted}{because}"
    evidence = shown(call, expected.canary) if count else outline(call)
    return accuse(call, reason, evidence)
