"""Between turns, where a turn takes another way than one run of one agent: resumed, streamed, handed over, repeated."""

from __future__ import annotations

from boundary_tests.exchanges import ENDED, NO_LEARNING, exchange, on_the_way_to, pause, points
from memtrace.harness.record.history import canaries_in
from memtrace.harness.rules import rule
from memtrace.harness.running.holds import Point
from memtrace.harness.scripted_model.openai_api import Step
from memtrace.harness.scripted_model.scripting import fails, use_tool
from memtrace.harness.stage import Actor, Stage, TurnResult
from memtrace.model import Caller, Outcome

STOPPED = (Outcome.CANCELLED, Outcome.OK)
LOUDLY = (Outcome.OK, Outcome.FAILED, Outcome.REFUSED)


# Resumed and forked runs


@rule("turns.resumed-records-its-question", needs=("conv",), options=NO_LEARNING)
def test_a_resumed_run_stores_the_question_it_was_paused_with_once(stage: Stage) -> None:
    alice = stage.caller()
    exchange(stage, alice)
    for approved in (True, False):
        paused = pause(stage, alice)
        answer = stage.canary()
        resumed = stage.resume(paused, approved=approved, says=[f"The transfer is {answer}."])
        _recorded(stage, alice, paused, resumed, answer)


@rule("turns.resumed-records-its-question", needs=("conv", "fork"), options=NO_LEARNING)
def test_a_forked_run_stores_the_question_it_was_paused_with_once(stage: Stage) -> None:
    alice = stage.caller()
    exchange(stage, alice)
    paused = pause(stage, alice)
    answer = stage.canary()
    forked = stage.fork(paused, says=[f"The transfer is {answer}."], expect=(Outcome.OK, Outcome.PAUSED))
    if forked.outcome is Outcome.PAUSED:
        forked = stage.resume(forked, says=[f"The transfer is {answer}."])
    _recorded(stage, alice, paused, forked, answer)


@rule("turns.resumed-records-its-question", needs=("conv", "resume-elsewhere"), options=NO_LEARNING)
def test_a_run_resumed_in_another_process_stores_its_question_there(stage: Stage) -> None:
    alice = stage.caller()
    paused = pause(stage, alice)
    answer, elsewhere = stage.canary(), stage.process()
    resumed = elsewhere.resume(paused, says=[f"The transfer is {answer}."])
    _recorded(stage, alice, paused, resumed, answer, there=elsewhere)


@rule("turns.resume-belongs-to-its-caller", needs=("conv",))
def test_a_run_resumed_by_another_caller_carries_nothing_between_the_two(stage: Stage) -> None:
    alice, bob = stage.callers(2)
    any_end = (Outcome.OK, Outcome.REFUSED, Outcome.FAILED)
    for caller in (alice, bob):
        exchange(stage, caller)
    paused = pause(stage, alice)
    says, returns = [f"The transfer is {stage.canary()}."], [f"Receipt {stage.canary()}."]
    stage.resume(paused, bob, says=says, tool_returns=returns, expect=any_end)
    stage.resume(paused, expect=any_end)
    for caller in (bob, alice):
        stage.turn(caller, "What do you know of me?")


@rule("turns.resume-belongs-to-its-caller", needs=("conv",))
def test_a_stranger_who_tries_does_not_use_up_the_owners_run(stage: Stage) -> None:
    alice, bob = stage.callers(2)
    for caller in (alice, bob):
        exchange(stage, caller)
    paused = pause(stage, alice)
    tried = stage.resume(paused, bob, expect=(Outcome.OK, Outcome.REFUSED, Outcome.FAILED))
    owners = (Outcome.OK,) if tried.outcome is not Outcome.OK else (Outcome.OK, Outcome.REFUSED, Outcome.FAILED)
    stage.resume(paused, says=[f"The transfer is {stage.canary()}."], expect=owners)
    for caller in (bob, alice):
        stage.turn(caller, "What do you know of me?")


# Streams that are left, turns that are cancelled


@rule("turns.cancelled-whole-or-nothing", needs=("conv", "stream"))
def test_a_stream_left_half_way_is_kept_whole_or_not_at_all(stage: Stage) -> None:
    alice = stage.caller()
    exchange(stage, alice)
    for pieces in (1, 2, 3):
        answer = [f"The parcel {stage.canary()} lies on shelf {stage.canary()} in the back."]
        stage.stream(alice, f"Where is parcel {stage.canary()}?", says=answer, leave_after=pieces)
        stage.turn(alice, "And now?")
    if "tools" in stage.claims:
        aside = use_tool("parcels", say=f"Let me look it up with {stage.canary()}.")
        stage.stream(alice, f"Where is parcel {stage.canary()}?", says=[aside], leave_after=1)
        stage.turn(alice, "And now?")
    stage.messages(alice)


@rule("turns.cancelled-whole-or-nothing", needs=("conv", "cancel"))
def test_a_cancelled_turn_is_kept_whole_or_not_at_all_wherever_it_was(stage: Stage) -> None:
    alice = stage.caller()
    exchange(stage, alice)
    ways: list[tuple[Point, str]] = [(point, "run") for point in points(stage)]
    if "stream" in stage.claims:
        ways.append(("model", "stream"))
    for point, via in ways:
        steps = on_the_way_to(point, f"It lies on shelf {stage.canary()}.")
        with stage.hold(point) as hold:
            running = stage.start(alice, f"Where is parcel {stage.canary()}?", says=steps, via=via, expect=STOPPED)
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


# Other ways through a turn


@rule("turns.handoff-recorded-once", needs=("conv",), options=NO_LEARNING)
def test_a_handed_over_run_is_stored_once_without_hand_off_text(stage: Stage) -> None:
    alice = stage.caller()
    exchange(stage, alice)
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
    for point in points(stage):
        alice = stage.caller()
        exchange(stage, alice)
        steps = on_the_way_to(point, f"It lies on shelf {stage.canary()}.")
        with stage.hold(point) as hold:
            first = stage.start(alice, f"Where is parcel {stage.canary()}?", says=steps, expect=LOUDLY)
            hold.reached()
            says = [f"It lies in box {stage.canary()}."]
            second = stage.start(alice, f"Where is letter {stage.canary()}?", says=says, expect=LOUDLY)
            second.over(0.5)
        for running in (first, second):
            running.result()
        stage.settle()
        stage.messages(alice)
        stage.turn(alice, "What did I ask you?")


# Words these scripts share


def _recorded(
    stage: Stage, caller: Caller, paused: TurnResult, resumed: TurnResult, answer: str, *, there: Actor | None = None
) -> None:
    """Expect a resumed run's question and answer in the next prompt, once each."""
    following = (there or stage).turn(caller, "What did I ask you?")
    [asked] = canaries_in(stage.history().turns[paused.turn].text)
    for word in (asked, answer):
        stage.expect(
            "turns.resumed-records-its-question", following, word, times="1",
            why=f"turn {resumed.turn} went on with the run that asked it",
        )  # fmt: skip


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
