"""Between turns: what becomes of tool calls, of their results, and of what the model asks the memory tools to do."""

from __future__ import annotations

import pytest

from boundary_tests.exchanges import DOWN, NO_LEARNING, fail, look_back, use_a_tool
from memtrace.harness.rules import rule
from memtrace.harness.scripted_model.scripting import call_tool, use_tool
from memtrace.harness.stage import Stage
from memtrace.harness.system import FORGET_TOOL, REMEMBER_TOOL
from memtrace.model import Outcome

STOPPED = (Outcome.CANCELLED, Outcome.OK)


@rule("turns.tool-traffic-never-a-fact")
def test_no_tool_call_or_result_becomes_a_fact(stage: Stage) -> None:
    alice = stage.caller()
    use_a_tool(stage, alice)
    look_back(stage, alice)


@rule("turns.tool-traffic-never-a-fact", needs=("recall",), options={**NO_LEARNING, "recall": True, "window": 2})
def test_no_tool_call_or_result_becomes_a_recalled_message(stage: Stage) -> None:
    alice = stage.caller()
    use_a_tool(stage, alice)
    stage.turn(alice, "Good morning.")
    stage.turn(alice, "Where does my parcel lie, on which shelf?")


@rule("turns.tool-traffic-not-replayed")
def test_no_tool_call_or_result_is_in_a_later_prompt(stage: Stage) -> None:
    alice = stage.caller()
    use_a_tool(stage, alice)
    stage.turn(alice, "And now?")
    use_a_tool(stage, alice)
    stage.turn(alice, "And now?")


@rule("turns.tool-pairs-intact", options={"limit": 2})
@pytest.mark.parametrize("window", [3, 4, 20])
def test_tool_results_never_part_from_their_calls(stage: Stage, window: int) -> None:
    alice = stage.caller()
    stage.open(window=window)
    for _ in range(2):
        use_a_tool(stage, alice)
        stage.turn(alice, "And now?")
    fail(stage, alice, use_tool("parcels"), *DOWN)
    stage.turn(alice, "And now?")
    stage.turn(alice, "Look again.", says=[use_tool("parcels")] * 3, expect=Outcome.LIMIT)
    stage.turn(alice, "And now?")
    if "cancel" in stage.claims:
        with stage.hold("tool") as hold:
            running = stage.start(alice, "Once more.", says=[use_tool("parcels"), "Found."], expect=STOPPED)
            hold.reached()
            running.cancel(hold)
        stage.settle()
        stage.turn(alice, "And now?")


@rule("turns.queued-writes-wait")
def test_what_the_model_remembers_or_forgets_is_done_after_its_turn(stage: Stage) -> None:
    alice = stage.caller()
    asked = "Keep that in mind."
    kept, fact = f"The user's badge is {stage.canary()}.", f"The user's car is {stage.canary()}."
    stage.add(alice, fact)
    remember, forget = call_tool(REMEMBER_TOOL, {"text": kept}), call_tool(FORGET_TOOL, {"text": fact})
    lost = call_tool(REMEMBER_TOOL, {"text": f"The user's locker is {stage.canary()}."})
    stage.turn(alice, asked, says=[lost, *DOWN], expect=Outcome.FAILED)
    stage.turn(alice, asked, says=[forget, *DOWN], expect=Outcome.FAILED)
    stage.turn(alice, asked, says=[remember, "Kept."])
    stage.turn(alice, asked, says=[forget, "Forgotten."])
    stage.turn(alice, "What do you know of me?")
