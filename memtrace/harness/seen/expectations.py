"""What a script declared of single turns and reads, and whether it was so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memtrace.harness.findings import Judgement, accuse, held, outline, shown, told, undecided, untested, violated
from memtrace.harness.record.events import Expected, FactsRead
from memtrace.harness.record.history import Call, History, positions
from memtrace.model import Evidence, Verdict


def met(history: History, rule: str) -> Judgement:
    """Whether what the script declared of each turn's first answer prompt, and of each read, is so."""
    declared = history.expected(rule)
    if not declared:
        return untested("the script declared nothing")
    found = False
    for expected in declared:
        look = _look(history, expected)
        if isinstance(look, Judgement):
            return look
        if not look.meets(expected):
            return look.accuse(expected)
        found = found or bool(look.places)
    return held(when=found, otherwise="no prompt held anything that was expected")


def met_again(history: History, rule: str) -> Judgement:
    """The same, where the first that a script declares of a word shows that memory works: what fails then is broken."""
    declared = history.expected(rule)
    if not declared:
        return untested("the script declared nothing")
    proven: set[str] = set()
    for expected in declared:
        look = _look(history, expected)
        fault = look if isinstance(look, Judgement) else None if look.meets(expected) else look.accuse(expected)
        if fault is None:
            proven.add(expected.canary)
        elif expected.canary in proven:
            guessed = isinstance(look, _Look) and fault.verdict is not Verdict.VIOLATED
            return fault if guessed else violated(fault.reason, *fault.evidence)
        else:
            return undecided(fault.reason, *fault.evidence)
    return held(when=len(declared) > len(proven), otherwise="nothing was expected a second time")


@dataclass(frozen=True, slots=True)
class _Look:
    """A first answer prompt, or a read: what it was, how many texts it had, and which of them hold the word."""

    where: str
    places: Sequence[int]
    call: Call | None
    read: FactsRead | None = None

    def meets(self, expected: Expected) -> bool:
        count = len(self.places)
        match expected.times:
            case "some":
                return count > 0
            case "none":
                return count == 0
            case "first":
                return 0 in self.places
        return count == int(expected.times)

    def accuse(self, expected: Expected) -> Judgement:
        wanted = {"some": "at least once", "none": "not at all", "first": "before all others"}
        times = wanted.get(expected.times, f"{expected.times} times")
        because = f": {expected.why}" if expected.why else ""
        count = len(self.places)
        if self.call is not None:
            reason = f"{expected.canary} is in {count} messages of {self.where}, expected {times}{because}"
            return accuse(self.call, reason, shown(self.call, expected.canary) if count else outline(self.call))
        texts = self.read.texts if self.read is not None else ()
        reason = f"{expected.canary} is in {count} of {len(texts)} texts of {self.where}, expected {times}{because}"
        return violated(reason, Evidence(self.where, "\n".join(texts) or "(nothing)"))


def _look(history: History, expected: Expected) -> _Look | Judgement:
    """What was declared of: a turn's first answer prompt, or without a turn the read before; or why there is none."""
    if expected.turn:
        turn = history.turns[expected.turn]
        if not turn.answers:
            why = Evidence("how it ended", turn.error or "without an error")
            return undecided(f"turn {turn} called no model", told(turn), why)
        call = turn.answers[0]
        return _Look(f"the prompt of turn {turn}", positions(call.prompt, expected.canary), call)
    read = next(event for event in reversed(list(history.of(FactsRead))) if event.at < expected.at)
    if read.error:
        return undecided(f"{read.op} in {read.process} raised {read.error}")
    places = [place for place, text in enumerate(read.texts) if expected.canary in text.lower()]
    return _Look(f"what {read.op} gave in {read.process}", places, None, read)
