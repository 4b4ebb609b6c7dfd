"""Between turns: what one turn sends, and what it keeps."""

from __future__ import annotations

from pathlib import Path

from boundary_tests.exchanges import DOWN, ENDED, NO_LEARNING, exchange, fail, look_back, pause
from memtrace.harness.rules import rule
from memtrace.harness.scripted_model.openai_api import Step
from memtrace.harness.scripted_model.scripting import fails, use_tool
from memtrace.harness.stage import Stage, TurnResult
from memtrace.model import Caller, Outcome

# What stands in the prompt


@rule("turns.prompt-order", options=NO_LEARNING)
def test_facts_stand_where_the_declared_order_has_them(stage: Stage) -> None:
    alice = stage.caller()
    if "agent-facts" in stage.claims:
        stage.add(alice, f"The shop closes at {stage.canary()}.", scope="agent")
    stage.add(alice, f"The user's badge is {stage.canary()}.")
    stage.turn(alice, f"My locker code is {stage.canary()}.", says=[f"The code {stage.canary()} is noted."])
    stage.turn(alice, f"Whose badge is {stage.canary()}?")


@rule("turns.prompt-order", needs=("summary",), options={**NO_LEARNING, "summary": True, "window": 2})
def test_the_summary_stands_where_the_declared_order_has_it(stage: Stage) -> None:
    alice = stage.caller()
    stage.add(alice, f"The user's badge is {stage.canary()}.")
    for _ in range(8):
        stage.turn(alice, f"My locker code is {stage.canary()}.")


@rule("turns.prompt-order", needs=("recall",), options={**NO_LEARNING, "recall": True, "window": 2})
def test_recalled_messages_stand_where_the_declared_order_has_them(stage: Stage) -> None:
    alice = stage.caller()
    stage.add(alice, f"The user's badge is {stage.canary()}.")
    stage.turn(alice, f"My locker code is {stage.canary()}.")
    for _ in range(2):
        stage.turn(alice, f"Good morning, {stage.canary()} is a nice word.")
    stage.turn(alice, "What is my locker code?")


@rule("turns.prompt-holds-its-input")
def test_a_turn_is_sent_what_it_was_asked_also_when_that_was_asked_before(stage: Stage) -> None:
    alice = stage.caller()
    asked = f"Where is parcel {stage.canary()}?"
    for _ in range(2):
        stage.turn(alice, asked)
    if "stream" in stage.claims:
        stage.stream(alice, asked)
    if "tools" in stage.claims:
        stage.turn(alice, asked, says=[use_tool("parcels"), "It is here."])
    stage.turn(alice, "Yes.")
    stage.turn(alice, "Yes.")


# Redaction


@rule("turns.redaction-is-for-the-model", options={"redaction": True})
def test_an_address_is_redacted_in_every_request_and_kept_in_memory(stage: Stage) -> None:
    alice = stage.caller()
    if "facts" in stage.claims:
        stage.add(alice, f"The user's {stage.canary()} is {_address(stage)}.")
    _with_address(stage, alice)
    if "tools" in stage.claims:
        steps: list[Step | str] = [use_tool("contacts"), f"I wrote to {_address(stage)}, {stage.canary()}."]
        returns = [f"The contact is {_address(stage)}."]
        stage.turn(alice, f"Write to {_address(stage)}, {stage.canary()}.", says=steps, tool_returns=returns)
    if "stream" in stage.claims:
        _with_address(stage, alice, via="stream")
    look_back(stage, alice)


@rule("turns.redaction-is-for-the-model", needs=("summary",), options={"redaction": True, "summary": True, "window": 2})
def test_the_summary_model_is_sent_no_address(stage: Stage) -> None:
    alice = stage.caller()
    for _ in range(8):
        _with_address(stage, alice)


@rule("turns.redaction-is-for-the-model", needs=("recall",), options={"redaction": True, "recall": True, "window": 2})
def test_the_embedder_is_sent_no_address(stage: Stage) -> None:
    alice = stage.caller()
    for _ in range(3):
        _with_address(stage, alice)


# What is kept of a turn that ended well


@rule("turns.input-and-answer")
def test_a_turn_is_kept_as_its_question_and_its_final_answer(stage: Stage) -> None:
    alice = stage.caller()
    exchange(stage, alice)
    if "tools" in stage.claims:
        aside = use_tool("parcels", say=f"Let me look it up with {stage.canary()}.")
        exchange(stage, alice, aside)
        exchange(stage, alice, aside, use_tool("more", say=f"And once more with {stage.canary()}."))
    if "stream" in stage.claims:
        exchange(stage, alice, via="stream")
    stage.messages(alice)
    stage.turn(alice, "What did I ask you?")


@rule("turns.input-and-answer")
def test_question_and_answer_are_kept_in_any_script_and_with_their_lines(stage: Stage) -> None:
    alice = stage.caller()
    for odd in ("Ärger mit Paket №", "東京の荷物 🧳\nund noch", "one line\n\n  and another:"):
        exchange(stage, alice)
        stage.turn(alice, f"{odd} {stage.canary()}?", says=[f"It lies on shelf {stage.canary()}."])
        stage.turn(alice, f"Where is parcel {stage.canary()}?", says=[f"{odd} {stage.canary()}."])
    stage.messages(alice)
    stage.turn(alice, "What did I ask you?")


@rule("turns.recalled-next-turn", options=NO_LEARNING)
def test_what_a_turn_stored_is_in_the_next_prompt(stage: Stage) -> None:
    for via in ("run", "stream") if "stream" in stage.claims else ("run",):
        caller = stage.caller()
        for _ in range(2):
            question, answer = exchange(stage, caller, via=via)
            following = stage.turn(caller, "What did I just ask, and what did you say?")
            _expect(stage, "turns.recalled-next-turn", following, question, answer, why="the turn before had it")


@rule("turns.recalled-next-turn", options=NO_LEARNING)
def test_a_long_turn_is_in_the_next_prompt_to_its_end(stage: Stage) -> None:
    stage.needs("conv")
    alice, asked, answered = stage.caller(), stage.canary(), stage.canary()
    stage.turn(alice, f"{'I read on. ' * 400}{asked}", says=[f"{'So do I. ' * 400}{answered}"])
    following = stage.turn(alice, "What did we end with?")
    for word in (asked, answered):
        stage.expect("turns.recalled-next-turn", following, word, why="the turn before ended with it")


# What is kept of a turn that did not


@rule("turns.failed-writes-nothing")
def test_a_failed_turn_leaves_nothing_behind_wherever_it_failed(stage: Stage) -> None:
    alice = stage.caller()
    exchange(stage, alice)
    fail(stage, alice, *DOWN)
    if "stream" in stage.claims:
        fail(stage, alice, *DOWN, via="stream")
    if "guardrails" in stage.claims:
        fail(stage, alice, point="guard", expect=(Outcome.FAILED, Outcome.BLOCKED))
    if "after-run" in stage.claims:
        fail(stage, alice, point="after_run")
    if "learn" in stage.claims:
        stage.remembers(fails())
        fail(stage, alice, expect=ENDED)
    look_back(stage, alice)


@rule("turns.failed-writes-nothing", needs=("tools",))
def test_a_turn_that_fails_after_a_tool_was_used_leaves_nothing_behind(stage: Stage) -> None:
    alice = stage.caller()
    exchange(stage, alice)
    for via in ("run", "stream") if "stream" in stage.claims else ("run",):
        aside = use_tool(f"shelf {stage.canary()}", say=f"Looking for {stage.canary()}.")
        fail(stage, alice, aside, *DOWN, via=via)
        fail(stage, alice, aside, via=via, point="tool", expect=ENDED)
    look_back(stage, alice)


@rule("turns.blocked-writes-nothing")
def test_a_blocked_turn_leaves_nothing_behind_whether_question_or_answer_was_blocked(stage: Stage) -> None:
    alice = stage.caller()
    exchange(stage, alice)
    for via in ("run", "stream") if "stream" in stage.claims else ("run",):
        for position in ("input", "output"):
            stage.turn(
                alice, f"My password is {stage.canary()}.", says=[f"It was {stage.canary()}."], via=via,
                blocks=position, expect=Outcome.BLOCKED,
            )  # fmt: skip
    look_back(stage, alice)


@rule("turns.limit-writes-nothing", options={"limit": 2})
def test_a_turn_that_reaches_the_iteration_limit_leaves_nothing_behind(stage: Stage) -> None:
    alice = stage.caller()
    exchange(stage, alice)
    for via in ("run", "stream") if "stream" in stage.claims else ("run",):
        steps = [use_tool(f"shelf {stage.canary()}", say=f"Looking for {stage.canary()}.") for _ in range(4)]
        stage.turn(
            alice, f"Find parcel {stage.canary()}.", says=steps, tool_returns=[f"Shelf {stage.canary()}."], via=via,
            expect=Outcome.LIMIT,
        )  # fmt: skip
    look_back(stage, alice)


@rule("turns.paused-writes-nothing")
def test_a_turn_that_waits_for_an_approval_leaves_nothing_behind_meanwhile(stage: Stage) -> None:
    alice = stage.caller()
    exchange(stage, alice)
    paused = pause(stage, alice, say=f"I need leave for {stage.canary()}.")
    look_back(stage, alice)
    stage.resume(paused, says=DOWN, expect=Outcome.FAILED)
    stage.turn(alice, "And now?")


# Bounds


@rule("turns.window-is-bounded", options=NO_LEARNING)
def test_no_more_than_the_window_is_replayed_and_only_whole_turns(stage: Stage) -> None:
    for window in (0, 4, 3, 1):
        stage.open(window=window)
        alice = stage.caller()
        for _ in range(4):
            exchange(stage, alice)


@rule("turns.growth-is-linear", options={**NO_LEARNING, "window": 4})
def test_twice_the_turns_take_twice_the_bytes_and_no_longer_prompts(stage: Stage) -> None:
    alice, turns, turn = stage.caller(), 15, ""
    stage.note("stored", {"turns": 0, "bytes": _size(stage.directory)})
    for half in (1, 2):
        for _ in range(turns):
            text = f"Where is parcel {stage.canary()}? " + "It was sent by registered post. " * 30
            turn = stage.turn(alice, text, says=["It lies in the back. " * 30]).turn
        stage.note("stored", {"turns": half * turns, "bytes": _size(stage.directory), "turn": turn})


# Words these scripts share


def _expect(stage: Stage, rule_id: str, turn: TurnResult, *words: str, times: str = "some", why: str) -> None:
    for word in words:
        stage.expect(rule_id, turn, word, times=times, why=why)


def _address(stage: Stage) -> str:
    return f"{stage.canary()}@example.com"


def _with_address(stage: Stage, caller: Caller, via: str = "run") -> None:
    text = f"My address is {_address(stage)}, and my badge is {stage.canary()}."
    stage.turn(caller, text, says=[f"I wrote to {_address(stage)} about {stage.canary()}."], via=via)


def _size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
