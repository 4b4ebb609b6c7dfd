"""Between turns: what one turn reads and writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from memtrace.harness.holds import Point
from memtrace.harness.model_server import Step
from memtrace.harness.rules import rule
from memtrace.harness.scripting import call_tool, fails, use_tool
from memtrace.harness.stage import Actor, Stage, TurnResult
from memtrace.harness.system import APPROVAL_TOOL, FORGET_TOOL, REMEMBER_TOOL
from memtrace.model import Caller, Outcome

NO_LEARNING = {"learn": False}
ENDED = (Outcome.OK, Outcome.FAILED)
STOPPED = (Outcome.CANCELLED, Outcome.OK)
DOWN = [fails()] * 4
"""A model that is down: also for one that tries again."""


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


# What is kept of a turn that ended well


@rule("turns.input-and-answer")
def test_a_turn_is_kept_as_its_question_and_its_final_answer(stage: Stage) -> None:
    alice = stage.caller()
    _exchange(stage, alice)
    if "tools" in stage.claims:
        aside = use_tool("parcels", say=f"Let me look it up with {stage.canary()}.")
        _exchange(stage, alice, aside)
        _exchange(stage, alice, aside, use_tool("more", say=f"And once more with {stage.canary()}."))
    if "stream" in stage.claims:
        _exchange(stage, alice, via="stream")
    stage.messages(alice)
    stage.turn(alice, "What did I ask you?")


@rule("turns.recalled-next-turn", options=NO_LEARNING)
def test_what_a_turn_stored_is_in_the_next_prompt(stage: Stage) -> None:
    for via in ("run", "stream") if "stream" in stage.claims else ("run",):
        caller = stage.caller()
        for _ in range(2):
            question, answer = _exchange(stage, caller, via=via)
            following = stage.turn(caller, "What did I just ask, and what did you say?")
            _expect(stage, "turns.recalled-next-turn", following, question, answer, why="the turn before had it")


# What is kept of a turn that did not


@rule("turns.failed-writes-nothing")
def test_a_failed_turn_leaves_nothing_behind_wherever_it_failed(stage: Stage) -> None:
    alice = stage.caller()
    _exchange(stage, alice)
    _broken(stage, alice, *DOWN)
    if "stream" in stage.claims:
        _broken(stage, alice, *DOWN, via="stream")
    if "guardrails" in stage.claims:
        _broken(stage, alice, point="guard", expect=(Outcome.FAILED, Outcome.BLOCKED))
    if "after-run" in stage.claims:
        _broken(stage, alice, point="after_run")
    if "learn" in stage.claims:
        stage.remembers(fails())
        _broken(stage, alice, expect=ENDED)
    _look_back(stage, alice)


@rule("turns.failed-writes-nothing", needs=("tools",))
def test_a_turn_that_fails_after_a_tool_was_used_leaves_nothing_behind(stage: Stage) -> None:
    alice = stage.caller()
    _exchange(stage, alice)
    for via in ("run", "stream") if "stream" in stage.claims else ("run",):
        aside = use_tool(f"shelf {stage.canary()}", say=f"Looking for {stage.canary()}.")
        _broken(stage, alice, aside, *DOWN, via=via)
        _broken(stage, alice, aside, via=via, point="tool", expect=ENDED)
    _look_back(stage, alice)


@rule("turns.blocked-writes-nothing")
def test_a_blocked_turn_leaves_nothing_behind_whether_question_or_answer_was_blocked(stage: Stage) -> None:
    alice = stage.caller()
    _exchange(stage, alice)
    for via in ("run", "stream") if "stream" in stage.claims else ("run",):
        for position in ("input", "output"):
            stage.turn(
                alice, f"My password is {stage.canary()}.", says=[f"It was {stage.canary()}."], via=via,
                blocks=position, expect=Outcome.BLOCKED,
            )  # fmt: skip
    _look_back(stage, alice)


@rule("turns.limit-writes-nothing", options={"limit": 2})
def test_a_turn_that_reaches_the_iteration_limit_leaves_nothing_behind(stage: Stage) -> None:
    alice = stage.caller()
    _exchange(stage, alice)
    for via in ("run", "stream") if "stream" in stage.claims else ("run",):
        steps = [use_tool(f"shelf {stage.canary()}", say=f"Looking for {stage.canary()}.") for _ in range(4)]
        stage.turn(
            alice, f"Find parcel {stage.canary()}.", says=steps, tool_returns=[f"Shelf {stage.canary()}."], via=via,
            expect=Outcome.LIMIT,
        )  # fmt: skip
    _look_back(stage, alice)


@rule("turns.paused-writes-nothing")
def test_a_turn_that_waits_for_an_approval_leaves_nothing_behind_meanwhile(stage: Stage) -> None:
    alice = stage.caller()
    _exchange(stage, alice)
    paused = _pause(stage, alice, say=f"I need leave for {stage.canary()}.")
    _look_back(stage, alice)
    stage.resume(paused, says=DOWN, expect=Outcome.FAILED)
    stage.turn(alice, "And now?")


# Resumed and forked runs


@rule("turns.resumed-records-its-question", needs=("conv",), options=NO_LEARNING)
def test_a_resumed_run_stores_the_question_it_was_paused_with_once(stage: Stage) -> None:
    alice = stage.caller()
    _exchange(stage, alice)
    for approved in (True, False):
        paused = _pause(stage, alice)
        answer = stage.canary()
        resumed = stage.resume(paused, approved=approved, says=[f"The transfer is {answer}."])
        _recorded(stage, alice, paused, resumed, answer)


@rule("turns.resumed-records-its-question", needs=("conv", "fork"), options=NO_LEARNING)
def test_a_forked_run_stores_the_question_it_was_paused_with_once(stage: Stage) -> None:
    alice = stage.caller()
    _exchange(stage, alice)
    paused = _pause(stage, alice)
    answer = stage.canary()
    forked = stage.fork(paused, says=[f"The transfer is {answer}."], expect=(Outcome.OK, Outcome.PAUSED))
    if forked.outcome is Outcome.PAUSED:
        forked = stage.resume(forked, says=[f"The transfer is {answer}."])
    _recorded(stage, alice, paused, forked, answer)


@rule("turns.resumed-records-its-question", needs=("conv", "resume-elsewhere"), options=NO_LEARNING)
def test_a_run_resumed_in_another_process_stores_its_question_there(stage: Stage) -> None:
    alice = stage.caller()
    paused = _pause(stage, alice)
    answer, elsewhere = stage.canary(), stage.process()
    resumed = elsewhere.resume(paused, says=[f"The transfer is {answer}."])
    _recorded(stage, alice, paused, resumed, answer, there=elsewhere)


@rule("turns.resume-belongs-to-its-caller", needs=("conv",))
def test_a_run_resumed_by_another_caller_carries_nothing_between_the_two(stage: Stage) -> None:
    alice, bob = stage.callers(2)
    any_end = (Outcome.OK, Outcome.REFUSED, Outcome.FAILED)
    for caller in (alice, bob):
        _exchange(stage, caller)
    paused = _pause(stage, alice)
    says, returns = [f"The transfer is {stage.canary()}."], [f"Receipt {stage.canary()}."]
    stage.resume(paused, bob, says=says, tool_returns=returns, expect=any_end)
    stage.resume(paused, expect=any_end)
    for caller in (bob, alice):
        stage.turn(caller, "What do you know of me?")


# Streams that are left, turns that are cancelled


@rule("turns.cancelled-whole-or-nothing", needs=("conv", "stream"))
def test_a_stream_left_half_way_is_kept_whole_or_not_at_all(stage: Stage) -> None:
    alice = stage.caller()
    _exchange(stage, alice)
    for pieces in (1, 2, 3):
        answer = [f"The parcel {stage.canary()} lies on shelf {stage.canary()} in the back."]
        stage.stream(alice, f"Where is parcel {stage.canary()}?", says=answer, leave_after=pieces)
        stage.turn(alice, "And now?")
    stage.messages(alice)


@rule("turns.cancelled-whole-or-nothing", needs=("conv", "cancel"))
def test_a_cancelled_turn_is_kept_whole_or_not_at_all_wherever_it_was(stage: Stage) -> None:
    alice = stage.caller()
    _exchange(stage, alice)
    for point in _points(stage):
        steps = _to(point, f"It lies on shelf {stage.canary()}.")
        with stage.hold(point) as hold:
            running = stage.start(alice, f"Where is parcel {stage.canary()}?", says=steps, expect=STOPPED)
            hold.reached()
            running.cancel(hold)
        stage.settle()
        stage.turn(alice, "And now?")
    stage.messages(alice)


@rule("turns.abandoned-leaves-no-context", needs=("ids",))
def test_after_a_stream_that_was_left_the_next_turn_is_its_own(stage: Stage) -> None:
    alice, bob = stage.callers(2)
    for pieces in (1, 2, 3):
        answer = [f"The parcel {stage.canary()} lies on shelf {stage.canary()} in the back."]
        stage.stream(alice, f"Where is parcel {stage.canary()}?", says=answer, leave_after=pieces)
        stage.turn(bob, f"My badge is {stage.canary()}.")
        stage.stream(alice, f"Where is parcel {stage.canary()}?", says=answer, leave_after=pieces)
        stage.turn(alice, f"My locker is {stage.canary()}.")


@rule("turns.stream-equals-run", needs=("conv",))
def test_a_turn_streamed_is_the_same_turn_as_run(stage: Stage) -> None:
    one, other = stage.callers(2)
    for steps in _ways(stage):
        text = f"Where is parcel {stage.canary()}?"
        blocks, expect = ("", Outcome.OK) if steps else ("output", Outcome.BLOCKED)
        streamed = stage.stream(one, text, says=steps, blocks=blocks, expect=expect)
        run = stage.turn(other, text, says=steps, blocks=blocks, expect=expect)
        stage.twins("turns.stream-equals-run", streamed, run)
        _compare_next(stage, "turns.stream-equals-run", one, other)


# Tools


@rule("turns.tool-traffic-never-a-fact")
def test_no_tool_call_or_result_becomes_a_fact(stage: Stage) -> None:
    alice = stage.caller()
    _tool_turn(stage, alice)
    for read in ("facts", "search"):
        if read in stage.methods:
            getattr(stage, read)(alice, *(["shelf"] if read == "search" else []))
    stage.turn(alice, "What do you know of shelves?")


@rule("turns.tool-traffic-never-a-fact", needs=("recall",), options={**NO_LEARNING, "recall": True, "window": 2})
def test_no_tool_call_or_result_becomes_a_recalled_message(stage: Stage) -> None:
    alice = stage.caller()
    _tool_turn(stage, alice)
    stage.turn(alice, "Good morning.")
    stage.turn(alice, "Where does my parcel lie, on which shelf?")


@rule("turns.tool-traffic-not-replayed")
def test_no_tool_call_or_result_is_in_a_later_prompt(stage: Stage) -> None:
    alice = stage.caller()
    _tool_turn(stage, alice)
    stage.turn(alice, "And now?")
    _tool_turn(stage, alice)
    stage.turn(alice, "And now?")


@rule("turns.tool-pairs-intact", options={"limit": 2})
@pytest.mark.parametrize("window", [3, 4, 20])
def test_tool_results_never_part_from_their_calls(stage: Stage, window: int) -> None:
    alice = stage.caller()
    stage.open(window=window)
    for _ in range(2):
        _tool_turn(stage, alice)
        stage.turn(alice, "And now?")
    _broken(stage, alice, use_tool("parcels"), *DOWN)
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


# Other ways through a turn


@rule("turns.handoff-recorded-once", needs=("conv",), options=NO_LEARNING)
def test_a_handed_over_run_is_stored_once_without_hand_off_text(stage: Stage) -> None:
    alice = stage.caller()
    _exchange(stage, alice)
    for _ in range(2):
        handing = stage.hands_over(f"The user asks for {stage.canary()}.")
        says: list[Step | str] = [handing, f"It lies on shelf {stage.canary()}."]
        stage.turn(alice, f"Where is parcel {stage.canary()}?", says=says, via="handoff")
        stage.messages(alice)
        stage.turn(alice, "And now?")
    stage.turn(alice, "And now?", via="handoff")


@rule("turns.retry-stores-once", needs=("conv",), options=NO_LEARNING)
def test_a_retried_turn_is_stored_as_if_it_had_gone_well_at_once(stage: Stage) -> None:
    one, other = stage.callers(2)
    for caller in (one, other):
        stage.turn(caller, "Hello.")
    for failures in (1, 2):
        text, answer = f"Where is parcel {stage.canary()}?", f"It lies on shelf {stage.canary()}."
        for _ in range(failures):
            tried = stage.turn(one, text, says=[fails(), answer], expect=ENDED)
            if tried.outcome is Outcome.OK:
                break
        else:
            stage.turn(one, text, says=[answer])
        stage.turn(other, text, says=[answer])
        _compare_next(stage, "turns.retry-stores-once", one, other)


@rule("turns.overlapping-turns-both-kept")
def test_overlapping_turns_of_one_caller_are_both_kept_whole(stage: Stage) -> None:
    for point in _points(stage):
        alice = stage.caller()
        _exchange(stage, alice)
        steps = _to(point, f"It lies on shelf {stage.canary()}.")
        with stage.hold(point) as hold:
            first = stage.start(alice, f"Where is parcel {stage.canary()}?", says=steps, expect=_loudly())
            hold.reached()
            says = [f"It lies in box {stage.canary()}."]
            second = stage.start(alice, f"Where is letter {stage.canary()}?", says=says, expect=_loudly())
            second.over(0.5)
        for running in (first, second):
            running.result()
        stage.settle()
        stage.messages(alice)
        stage.turn(alice, "What did I ask you?")


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
    stage.turn(alice, "What is my address?")
    stage.messages(alice)
    for read in ("facts", "search"):
        if read in stage.methods:
            getattr(stage, read)(alice, *(["address"] if read == "search" else []))


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


# Bounds


@rule("turns.window-is-bounded", options=NO_LEARNING)
def test_no_more_than_the_window_is_replayed_and_only_whole_turns(stage: Stage) -> None:
    for window in (0, 4, 3, 1):
        stage.open(window=window)
        alice = stage.caller()
        for _ in range(4):
            _exchange(stage, alice)


@rule("turns.growth-is-linear", options={**NO_LEARNING, "window": 4})
def test_twice_the_turns_take_twice_the_bytes_and_no_longer_prompts(stage: Stage) -> None:
    alice, turns, turn = stage.caller(), 15, ""
    stage.note("stored", {"turns": 0, "bytes": _size(stage.directory)})
    for half in (1, 2):
        for _ in range(turns):
            text = f"Where is parcel {stage.canary()}? " + "It was sent by registered post. " * 30
            turn = stage.turn(alice, text, says=["It lies in the back. " * 30]).turn
        stage.note("stored", {"turns": half * turns, "bytes": _size(stage.directory), "turn": turn})


# Words the scripts share


def _exchange(stage: Stage, caller: Caller, *steps: Step, via: str = "run") -> tuple[str, str]:
    """One turn with a planted word in the question and one in the answer; returns both."""
    asked, answered = stage.canary(), stage.canary()
    says: list[Step | str] = [*steps, f"It lies on shelf {answered}."]
    stage.turn(caller, f"Where is parcel {asked}?", says=says, via=via)
    return asked, answered


def _expect(stage: Stage, rule_id: str, turn: TurnResult, *words: str, times: str = "some", why: str) -> None:
    for word in words:
        stage.expect(rule_id, turn, word, times=times, why=why)


def _broken(
    stage: Stage, caller: Caller, *steps: Step, via: str = "run", point: Point | None = None,
    expect: tuple[Outcome, ...] = (Outcome.FAILED,),
) -> None:  # fmt: skip
    """A turn that fails, with a planted word in whatever is said in it."""
    says: list[Step | str] = [*steps, f"It was {stage.canary()}."]
    text, returns = f"My password is {stage.canary()}.", [f"Shelf {stage.canary()}."]
    stage.turn(caller, text, says=says, tool_returns=returns, via=via, fails=point, expect=expect)


def _look_back(stage: Stage, caller: Caller) -> None:
    """Look wherever something may have been kept."""
    stage.messages(caller)
    stage.turn(caller, "What did I tell you, and what did you find?")
    if "facts" in stage.methods:
        stage.facts(caller)
    if "search" in stage.methods:
        stage.search(caller, "password")


def _pause(stage: Stage, caller: Caller, *, say: str = "") -> TurnResult:
    step = use_tool("the transfer", name=APPROVAL_TOOL, say=say)
    return stage.turn(caller, f"Please transfer {stage.canary()}.", says=[step], expect=Outcome.PAUSED)


def _recorded(
    stage: Stage, caller: Caller, paused: TurnResult, resumed: TurnResult, answer: str, *, there: Actor | None = None
) -> None:
    """Expect a resumed run's question and answer in the next prompt, once each."""
    following = (there or stage).turn(caller, "What did I ask you?")
    asked = stage.history().turns[paused.turn].text
    for word in (_word(asked), answer):
        stage.expect(
            "turns.resumed-records-its-question", following, word, times="1",
            why=f"turn {resumed.turn} went on with the run that asked it",
        )  # fmt: skip


def _word(text: str) -> str:
    return text.removesuffix(".").rpartition(" ")[2]


def _ways(stage: Stage) -> list[list[Step | str]]:
    """What the model may do in a turn that is streamed; nothing: its answer is blocked."""
    plain: list[Step | str] = [f"It lies on shelf {stage.canary()}, far in the back."]
    aside: list[Step | str] = [use_tool("parcels", say=f"Let me look it up with {stage.canary()}."), *plain]
    ways = [plain]
    ways += [aside] if "tools" in stage.claims else []
    return ways + ([[]] if "guardrails" in stage.claims else [])


def _compare_next(stage: Stage, rule_id: str, one: Caller, other: Caller) -> None:
    """Both callers ask the same; what is stored of both is compared too."""
    for caller in (one, other):
        stage.messages(caller)
    stage.twins(rule_id, stage.turn(one, "And now?"), stage.turn(other, "And now?"))


def _tool_turn(stage: Stage, caller: Caller) -> None:
    steps: list[Step | str] = [use_tool(f"shelf of {stage.canary()}"), "I found it."]
    returns = [f"It lies on shelf {stage.canary()}."]
    stage.turn(caller, f"Where does my parcel {stage.canary()} lie?", says=steps, tool_returns=returns)


def _points(stage: Stage) -> list[Point]:
    """Where a turn of this system can be held."""
    needs: dict[Point, str] = {
        "model": "turns", "tool": "tools", "guard": "guardrails", "memory": "learn", "after_run": "after-run",
    }  # fmt: skip
    return [point for point, claim in needs.items() if claim in stage.claims]


def _to(point: Point, answer: str) -> list[Step | str]:
    """What the model does so that the turn comes by a point."""
    return [use_tool("parcels"), answer] if point == "tool" else [answer]


def _loudly() -> tuple[Outcome, ...]:
    return (Outcome.OK, Outcome.FAILED, Outcome.REFUSED)


def _address(stage: Stage) -> str:
    return f"{stage.canary()}@example.com"


def _with_address(stage: Stage, caller: Caller, via: str = "run") -> None:
    text = f"My address is {_address(stage)}, and my badge is {stage.canary()}."
    stage.turn(caller, text, says=[f"I wrote to {_address(stage)} about {stage.canary()}."], via=via)


def _size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
