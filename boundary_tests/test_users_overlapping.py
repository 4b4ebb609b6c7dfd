"""Between users whose turns overlap."""

from __future__ import annotations

from itertools import permutations

import pytest

from memtrace.harness.rules import rule
from memtrace.harness.running.holds import Point
from memtrace.harness.scenes.interleaving import Line, interleave
from memtrace.harness.scripted_model.scripting import use_tool
from memtrace.harness.stage import Stage
from memtrace.model import Caller

_POINTS: list[tuple[Point, str]] = [
    ("model", "turns"),
    ("resolve", "resolver"),
    ("tool", "tools"),
    ("memory", "learn"),
    ("guard", "guardrails"),
    ("after_run", "after-run"),
]


@rule("users.concurrent-turns-apart")
@pytest.mark.parametrize(("point", "capability"), _POINTS)
def test_two_turns_that_meet_anywhere_stay_apart(stage: Stage, point: Point, capability: str) -> None:
    stage.needs(capability)
    _meet(stage, point, point)


@rule("users.concurrent-turns-apart", needs=("recall",), options={"recall": True})
def test_two_turns_that_meet_at_the_embedder_stay_apart(stage: Stage) -> None:
    _meet(stage, "embed", "embed")


@rule("users.concurrent-turns-apart")
def test_three_turns_stay_apart_in_whatever_order_the_model_answers(stage: Stage) -> None:
    _meet(stage, "model", "model", "model")


@rule("users.concurrent-turns-apart", needs=("tools", "learn"))
def test_three_turns_that_wait_in_three_places_stay_apart_in_whatever_order(stage: Stage) -> None:
    _meet(stage, "memory", "tool", "model")


def _meet(stage: Stage, *points: Point) -> None:
    callers = stage.callers(len(points))
    for caller in callers:
        stage.turn(caller, f"My locker code is {stage.canary()}.")
    words = {}
    for order in permutations(range(len(callers))):
        lines = [_line(stage, point, caller) for point, caller in zip(points, callers, strict=True)]
        interleave(stage, points, [line for line, _ in lines], order)
        words = {line.caller: word for line, word in lines}
        if stage.history().unreached_holds:
            break  # turns that wait for each other have one order
    for caller in callers:
        asked = stage.turn(caller, "What is my bicycle?")
        stage.expect("users.concurrent-turns-apart", asked, words[caller], why="they said so in their turn before")


def _line(stage: Stage, point: Point, caller: Caller) -> tuple[Line, str]:
    word = stage.canary()
    first = [use_tool("code")] if point == "tool" else []
    return Line(caller, f"My bicycle is {word}.", [*first, f"It is {stage.canary()}."]), word


@rule("users.reply-goes-to-its-caller")
@pytest.mark.parametrize(("point", "capability"), [_POINTS[0], _POINTS[3]])
def test_overlapping_callers_each_get_their_own_answer(stage: Stage, point: Point, capability: str) -> None:
    stage.needs(capability)
    callers = stage.callers(2)
    for order in ((0, 1), (1, 0)):
        lines = [Line(caller, "What is my balance?", [f"It is {stage.canary()}."]) for caller in callers]
        interleave(stage, point, lines, order)
