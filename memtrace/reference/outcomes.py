"""How a turn ends: a result, or one exception for each way it can go wrong."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from memtrace.errors import MemtraceError
from memtrace.model import Message, Outcome
from memtrace.reference.checkpoints import ResumeRefused
from memtrace.reference.drivers import Cancelled
from memtrace.reference.guardrails import Blocked
from memtrace.reference.plane_block import CuratedFactsMissing


class IterationLimit(MemtraceError):
    """The model still wanted tools when its calls were used up; nothing of the turn is kept."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """What came of a turn that did not raise.

    Attributes:
        text: the answer; ``""`` where the run paused.
        outcome: ``OK`` or ``PAUSED``.
        token: what `Agent.resume` needs, of a paused run.
        messages: the turn's own messages: its input, tool calls and their results, the answer.
    """

    text: str
    outcome: Outcome
    token: str = ""
    messages: tuple[Message, ...] = ()


def outcome_of(error: BaseException) -> Outcome:
    """How a turn ended that raised this."""
    match error:
        case GeneratorExit():
            return Outcome.ABANDONED
        case Cancelled() | asyncio.CancelledError():
            return Outcome.CANCELLED
        case Blocked():
            return Outcome.BLOCKED
        case IterationLimit():
            return Outcome.LIMIT
        case ResumeRefused() | CuratedFactsMissing():
            return Outcome.REFUSED
        case _:
            return Outcome.FAILED
