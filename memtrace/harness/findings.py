"""What a check says: held, violated, undecided or untested, each with its reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from memtrace.harness.record.excerpts import FULL_EVIDENCE, excerpt
from memtrace.harness.record.history import Call, History, Turn
from memtrace.model import Evidence, Verdict


@dataclass(frozen=True, slots=True)
class Judgement:
    """What one check says of one history, before it is known which rule's script it was.

    ``uncontrolled``: nothing speaks against the rule, but the positive control that would make that mean something is
    missing. In the rule's own script that is inconclusive; in another's the rule was not exercised.
    """

    verdict: Verdict
    reason: str = ""
    evidence: tuple[Evidence, ...] = ()
    uncontrolled: bool = False


Check = Callable[[History], Judgement]
_Check = TypeVar("_Check", bound=Check)


def check(rule: str) -> Callable[[_Check], _Check]:
    """Mark a function as the check of a rule."""

    def mark(function: _Check) -> _Check:
        function.rule = rule  # type: ignore[attr-defined]
        return function

    return mark


def held(*, when: object = True, otherwise: str = "") -> Judgement:
    """The rule held, if the positive control ``when`` did; ``otherwise`` says what was missing."""
    return Judgement(Verdict.HELD) if when else Judgement(Verdict.INCONCLUSIVE, otherwise, uncontrolled=True)


def violated(reason: str, *evidence: Evidence) -> Judgement:
    """The rule was broken: one sentence that says what was seen and why that cannot be allowed."""
    return Judgement(Verdict.VIOLATED, reason, evidence)


def undecided(reason: str, *evidence: Evidence) -> Judgement:
    """It cannot be told."""
    return Judgement(Verdict.INCONCLUSIVE, reason, evidence)


def untested(reason: str) -> Judgement:
    """Nothing in this history bears on the rule."""
    return Judgement(Verdict.NOT_EXERCISED, reason)


def accuse(call: Call, reason: str, *evidence: Evidence) -> Judgement:
    """A violation seen in a model call's prompt; only undecided where it is a guess whose turn the call was."""
    if call.turn is not None and not call.exact:
        return undecided(f"{reason}; but whose turn that call was is a guess", *evidence)
    return violated(reason, *evidence)


def shown(call: Call, canary: str) -> Evidence:
    """The prompt around a canary, and who wrote the message it stands in."""
    message = next((m for m in call.prompt.messages if canary in m.text.lower()), None)
    text = message.text if message is not None else call.prompt.text
    role = message.author if message is not None else "a tool call"
    whose = f" of turn {call.turn}" if call.turn is not None else ""
    return Evidence(f"the {call.purpose} prompt{whose}, {role} message", excerpt(text, canary))


def told(turn: Turn) -> Evidence:
    """What was said in a turn and how it ended."""
    how = turn.outcome.value if turn.outcome else "open"
    return Evidence(f"turn {turn}, {how}", turn.text if len(turn.text) < 200 else turn.text[:200] + "…")


def outline(call: Call) -> Evidence:
    """The prompt of a call, one line a message, each cut short."""
    lines = [f"{message.author}: {clipped(message.text)}" for message in call.prompt.messages]
    return Evidence(f"the {call.purpose} prompt of turn {call.turn}", "\n".join(lines))


def clipped(text: str, most: int = 80) -> str:
    """A text as one line of a report, cut short unless whole prompts were asked for."""
    line = text.replace("\n", "⏎")
    return line if len(line) <= most or FULL_EVIDENCE.get() else line[:most] + "…"
