"""Between your process and the collector: what is recorded is what happened."""

from __future__ import annotations

from memtrace.harness.rules import rule
from memtrace.harness.scripted_model.scripting import fails, use_tool
from memtrace.harness.stage import Stage
from memtrace.model import Outcome

SPANS = ("own-spans",)
LEAVING = ("export.no-payload-leaves", "export.no-id-in-clear", "export.local-is-complete")


@rule("export.span-equals-wire", "export.every-call-has-one-span", "export.one-trace-per-turn", needs=SPANS)
def test_the_recorded_prompts_are_what_was_sent(stage: Stage) -> None:
    alice = stage.caller()
    stage.turn(alice, f"Grüße! My code is {stage.canary()}.")
    stage.turn(alice, "What is my code?", says=[f"You told me \N{BLACK HEART SUIT} \u2028 {stage.canary()}."])
    stage.turn(alice, "And now?")


@rule("export.span-equals-wire", "export.every-call-has-one-span", "export.one-trace-per-turn", needs=(*SPANS, "tools"))
def test_the_calls_around_a_tool_are_recorded_as_sent(stage: Stage) -> None:
    alice = stage.caller()
    stage.turn(
        alice,
        "Look it up.",
        says=[use_tool(stage.canary(), say="Let me see."), "Found."],
        tool_returns=[stage.canary()],
    )


@rule("export.every-call-has-one-span", "export.one-trace-per-turn", needs=SPANS)
def test_a_call_that_fails_has_its_span(stage: Stage) -> None:
    alice = stage.caller()
    stage.turn(alice, "Will this work?", says=[fails(500)], expect=Outcome.FAILED)
    stage.turn(alice, "And this?")


@rule("export.every-call-has-one-span", "export.one-trace-per-turn", needs=(*SPANS, "guardrails"))
def test_a_blocked_turn_is_one_tree(stage: Stage) -> None:
    alice = stage.caller()
    stage.turn(alice, "Say it.", says=["Something bad."], blocks="output", expect=Outcome.BLOCKED)
    stage.turn(alice, "Say something else.")


@rule(
    "export.span-equals-wire", "export.every-call-has-one-span", "export.one-trace-per-turn", needs=(*SPANS, "stream")
)
def test_a_streamed_turn_is_recorded_like_any_other_also_when_left_early(stage: Stage) -> None:
    alice = stage.caller()
    stage.stream(alice, "Tell me a story.", says=["Once upon a time there was a locker."])
    stage.stream(alice, "Another one.", says=["There once was a lady from Lisbon."], leave_after=1)
    stage.turn(alice, "Thank you.")


@rule("export.one-trace-per-turn", "export.every-call-has-one-span", needs=SPANS)
def test_overlapping_turns_have_a_tree_each(stage: Stage) -> None:
    alice, bob = stage.callers(2)
    with stage.hold("model") as hold:
        first = stage.start(alice, "One.")
        hold.reached()
        second = stage.start(bob, "Two.")
        second_ended = second.result() if hold.reached(0) else None
        hold.release()
        first.result()
    if second_ended is None:
        second.result()


@rule("export.every-call-has-one-span", needs=(*SPANS, "memory-spans", "facts"))
def test_every_write_by_hand_has_its_span(stage: Stage) -> None:
    alice = stage.caller()
    record = stage.add(alice, f"Alice likes {stage.canary()}.")
    if "update" in stage.claims:
        record = stage.update(alice, record, f"Alice loves {stage.canary()}.")
    if "forget" in stage.claims:
        stage.forget(alice, record)
    stage.turn(alice, "What do I like?")


@rule("export.safe-under-a-foreign-exporter", needs=SPANS, options={"foreign_exporter": True})
def test_an_exporter_of_the_applications_gets_no_words_and_no_ids(stage: Stage) -> None:
    alice = stage.caller()
    stage.turn(alice, f"My locker code is {stage.canary()}.", says=[f"I will keep {stage.canary()}."])
    stage.turn(alice, "What is my locker code?")
    stage.turn(alice, f"Never mind {stage.canary()}.", says=[fails(500)], expect=Outcome.FAILED)
    if "facts" in stage.claims:
        stage.add(alice, f"Alice likes {stage.canary()}.")
        stage.turn(alice, "What do I like?")


@rule(*LEAVING)
def test_nothing_of_a_turn_leaves_and_all_of_it_stays(stage: Stage) -> None:
    alice = stage.caller()
    stage.turn(alice, f"My locker code is {stage.canary()}.", says=[f"I will keep {stage.canary()}."])
    stage.turn(alice, "What is my locker code?")


@rule(*LEAVING)
def test_nothing_leaves_with_an_error_that_quotes_it(stage: Stage) -> None:
    alice = stage.caller()
    stage.turn(alice, f"Remember {stage.canary()}.")
    stage.turn(alice, f"Never mind {stage.canary()}.", says=[fails(500)], expect=Outcome.FAILED)


@rule(*LEAVING, needs=("facts",))
def test_nothing_of_a_fact_written_by_hand_leaves(stage: Stage) -> None:
    alice = stage.caller()
    record = stage.add(alice, f"Alice likes {stage.canary()}.")
    stage.turn(alice, f"What do I like, {stage.canary()}?")
    if "forget" in stage.claims:
        stage.forget(alice, record)


@rule(*LEAVING, needs=("tools",))
def test_nothing_leaves_with_a_tools_name_arguments_or_result(stage: Stage) -> None:
    alice = stage.caller()
    asks = use_tool(stage.canary(), say=f"Let me see {stage.canary()}.")
    stage.turn(alice, "Look it up.", says=[asks, "Found."], tool_returns=[stage.canary()])


@rule(*LEAVING, needs=("stream",))
def test_nothing_leaves_of_a_stream_that_is_left_early(stage: Stage) -> None:
    alice = stage.caller()
    stage.stream(alice, f"Tell me of {stage.canary()}.", says=[f"Once upon {stage.canary()}."], leave_after=1)
    stage.turn(alice, "Thank you.")


@rule("export.no-payload-in-logs")
def test_nothing_said_is_in_a_log_line_or_on_standard_error(stage: Stage) -> None:
    alice = stage.caller()
    stage.turn(alice, f"My locker code is {stage.canary()}.", says=[f"I will keep {stage.canary()}."])
    stage.turn(alice, f"Never mind {stage.canary()}.", says=[fails(500)], expect=Outcome.FAILED)
    stage.turn(alice, "What is my locker code?")
    if "facts" in stage.claims:
        record = stage.add(alice, f"Alice likes {stage.canary()}.")
        stage.turn(alice, f"What do I like, {stage.canary()}?")
        if "forget" in stage.claims:
            stage.forget(alice, record)


@rule("export.no-payload-in-logs", needs=("reopen",))
def test_nor_does_another_process_log_or_print_it(stage: Stage) -> None:
    alice = stage.caller()
    other = stage.restart()
    other.turn(alice, f"My locker code is {stage.canary()}.", says=[f"I will keep {stage.canary()}."])
    other.turn(alice, f"Never mind {stage.canary()}.", says=[fails(500)], expect=Outcome.FAILED)
