"""Turns that run at once, in a chosen order."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from memtrace.harness.running.holds import Point
from memtrace.harness.scripted_model.openai_api import Step
from memtrace.harness.stage import OK, Running, Stage, TurnResult
from memtrace.model import Caller, Outcome

_PATIENCE: Final = 0.5
"""Seconds to wait for a turn to come to a hold, or to its end; where a lawful system serialises turns, none does."""


@dataclass(frozen=True, slots=True)
class Line:
    """A turn to be run: who says what, what the model answers, and how it may end."""

    caller: Caller
    text: str
    says: Sequence[str | Step] = ()
    expect: tuple[Outcome, ...] = OK


def interleave(
    stage: Stage, point: Point | Sequence[Point], lines: Sequence[Line], order: Sequence[int]
) -> list[TurnResult]:
    """Start turns one after another, each held at a point until all are held; let them go, and end, in an order.

    ``point`` is one for all, or one for each. Where turns are serialised, they overlap only in that one waits for the
    other, and are let go at once.
    """
    points = [point] * len(lines) if isinstance(point, str) else point
    with ExitStack() as holding:
        holds, running = [], []
        for line, at in zip(lines, points, strict=True):
            holds.append(holding.enter_context(stage.hold(at)))
            running.append(_start(stage, line))
            if not holds[-1].reached(_PATIENCE):
                break
        else:
            for place in order:
                holds[place].release()
                if running[place].over(_PATIENCE):
                    running[place].result()
    running += [_start(stage, line) for line in lines[len(running) :]]
    return [stage.finished(turn) for turn in running]


def cancelled(stage: Stage, point: Point, line: Line) -> TurnResult:
    """Start a turn and cancel it where it is held; it goes on from there once it was told to stop."""
    with stage.hold(point) as hold:
        running = _start(stage, line)
        hold.reached()
        running.cancel(hold)
    return stage.finished(running)


def _start(stage: Stage, line: Line) -> Running:
    return stage.start(line.caller, line.text, says=line.says, expect=line.expect)
