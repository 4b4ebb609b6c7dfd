"""The checks of the other ways through a turn, on the smallest histories that break and keep each rule."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from histories import ALICE, BOB, A, B, C, D, Line, call, result
from turns_by_hand import ANSWERED, ASKED, LOOKUP, judged, talk, verdict, writer

from memtrace.harness.record.events import CalledBack, Noted
from memtrace.harness.record.history import History
from memtrace.harness.rules import RULES
from memtrace.harness.verdicts.judging import judge_rule
from memtrace.model import Caller, ToolCall, Verdict

# Resumed runs, streams


def resumed_by(caller: Caller, *later: Line, outcome: str = "ok", forgets: Caller | None = None) -> History:
    write = writer()
    for who, word in ((ALICE, A), (BOB, B)):
        write.turn(who, f"I am {word}.")
    paused = write.turn(ALICE, f"Pay {C}.", prompt=[f"user: Pay {C}."], outcome="paused")
    prompt = [f"user: Pay {C}."] if outcome == "ok" else None
    write.turn(caller, "", via="resume", of=paused, prompt=prompt, outcome=outcome)
    for who, word in ((ALICE, A), (BOB, B)):
        own = [] if who is forgets else [f"user: I am {word}."]
        write.turn(who, "Next?", prompt=[*own, *(later if who is BOB else ()), "user: Next?"])
    return write.history()


def test_a_run_resumed_by_another_caller_shows_them_nothing() -> None:
    rule = "resume-belongs-to-its-caller"
    assert verdict(rule, resumed_by(BOB)) is Verdict.VIOLATED
    assert verdict(rule, resumed_by(BOB, f"user: Pay {C}.", outcome="refused")) is Verdict.VIOLATED
    assert verdict(rule, resumed_by(BOB, outcome="refused")) is Verdict.HELD
    assert verdict(rule, resumed_by(BOB, outcome="refused", forgets=BOB)) is Verdict.INCONCLUSIVE
    assert verdict(rule, resumed_by(ALICE)) is Verdict.NOT_EXERCISED


@pytest.mark.parametrize("outcome", ["cancelled", "abandoned"])
def test_a_turn_that_was_stopped_is_kept_whole_or_not_at_all(outcome: str) -> None:
    def history(*prompt: Line, exact: bool = True) -> History:
        write = writer()
        write.turn(ALICE, f"Where is {A}?", says=f"On {B}.")
        lines = [ASKED, ANSWERED, f"user: I am {C}."]
        write.turn(ALICE, f"I am {C}.", prompt=lines, says=f"Hi {D}, how are you?", outcome=outcome, via="stream")
        write.turn(ALICE, "Next?", prompt=[*prompt, "user: Next?"], exact=exact)
        return write.history()

    question, answer = f"user: I am {C}.", f"assistant: Hi {D}, how are you?"
    for kept in ([ASKED, ANSWERED], [ASKED, ANSWERED, question, answer]):
        assert verdict("cancelled-whole-or-nothing", history(*kept)) is Verdict.HELD
    for half, reason in (
        ([question], "its question is kept without its answer"),
        ([answer], "its answer is kept without its question"),
        ([f"assistant: Hi {D},"], "a part of its answer is kept"),
        ([f"system: The user is {C}."], "what was learned from it is kept"),
    ):
        found = judged("cancelled-whole-or-nothing", history(ASKED, ANSWERED, *half))
        assert found.verdict is Verdict.VIOLATED
        assert reason in found.reason
    assert verdict("cancelled-whole-or-nothing", history(question, exact=False)) is Verdict.INCONCLUSIVE
    assert verdict("cancelled-whole-or-nothing", history()) is Verdict.INCONCLUSIVE


def after_a_stream(*prompt: Line, trace: str = "2", resolved: str = BOB.user, exact: bool = True) -> History:
    write = writer()
    left = write.begin(ALICE, f"Where is {A}?", via="stream")
    write.model(left, [ASKED], says=f"On {B}.")
    write.span("turn", left, trace="1")
    write.end(left, "abandoned")
    turn = write.begin(BOB, f"I am {C}.")
    write.add(CalledBack, point="resolve", turn=turn, attribution="exact", given=resolved, result=resolved)
    write.model(turn, prompt or [f"user: I am {C}."], exact=exact)
    write.span("turn", turn, trace=trace)
    write.end(turn)
    return write.history()


def test_the_turn_after_a_stream_that_was_left_is_its_own() -> None:
    assert verdict("abandoned-leaves-no-context", after_a_stream()) is Verdict.HELD
    assert verdict("abandoned-leaves-no-context", after_a_stream(exact=False)) is Verdict.INCONCLUSIVE
    for bad, reason in (
        (after_a_stream(trace="1"), "in the trace of that stream"),
        (after_a_stream(resolved=ALICE.user), "resolved as another caller"),
        (after_a_stream(ASKED), "holds what was said in that stream"),
        (after_a_stream("user: Hello."), "was not sent its input"),
    ):
        found = judged("abandoned-leaves-no-context", bad)
        assert found.verdict is Verdict.VIOLATED
        assert reason in found.reason


@pytest.mark.parametrize("rule", ["stream-equals-run", "retry-stores-once"])
def test_twins_are_sent_the_same(rule: str) -> None:
    def history(*prompt: Line, outcome: str = "ok", exact: bool = True) -> History:
        write = writer()
        one = write.turn(ALICE, "Next?", prompt=["system: It is 10:01.", ASKED, ANSWERED, "user: Next?"])
        lines = ["system: It is 10:02.", *prompt, "user: Next?"]
        other = write.turn(BOB, "Next?", prompt=lines, outcome=outcome, exact=exact)
        write.add(Noted, name="twins", value={"rule": f"turns.{rule}", "turns": [one, other]})
        return write.history()

    assert verdict(rule, history(ASKED, ANSWERED)) is Verdict.HELD
    assert verdict(rule, history(ASKED, f"assistant: Let me see. On {B}.")) is Verdict.VIOLATED
    assert verdict(rule, history(ASKED, ASKED, ANSWERED)) is Verdict.VIOLATED
    assert verdict(rule, history(ASKED, ASKED, ANSWERED, exact=False)) is Verdict.INCONCLUSIVE
    assert verdict(rule, history(ASKED, ANSWERED, outcome="failed")) is Verdict.INCONCLUSIVE


# Tools


def with_tool(
    *prompt: Line, facts: Sequence[str] = (), stored: Sequence[Line] = (), exact: bool = True, shown: bool = False
) -> History:
    """A turn whose tool gave D, then one that is sent this, then a listing of facts."""
    write = writer()
    turn = write.begin(ALICE, f"Where is {A}?")
    write.model(turn, [ASKED], says="", calls=[LOOKUP])
    write.tool(turn, f"shelf {C}", f"Shelf {D}.")
    write.model(turn, [ASKED, call("1", LOOKUP.arguments), result("1", f"Shelf {D}.")], says=f"On {B}.")
    if shown:
        write.model(turn, [f"user: Extract: Shelf {D}."], purpose="memory")
    write.end(turn)
    write.turn(ALICE, "Next?", prompt=[*prompt, "user: Next?"], exact=exact)
    write.read(ALICE, *facts)
    write.stored(ALICE, *stored)
    return write.history()


def test_tool_traffic_never_becomes_a_fact_or_a_recalled_message() -> None:
    known = f"system: Where is {A}?"
    assert verdict("tool-traffic-never-a-fact", with_tool(known)) is Verdict.HELD
    assert verdict("tool-traffic-never-a-fact", with_tool(known, facts=[f"Where is {A}?"])) is Verdict.HELD
    assert verdict("tool-traffic-never-a-fact", with_tool(known, facts=[f"Shelf {D}."])) is Verdict.VIOLATED
    assert verdict("tool-traffic-never-a-fact", with_tool(known, f"system: Shelf {D}.")) is Verdict.VIOLATED
    assert verdict("tool-traffic-never-a-fact", with_tool(known, f"system: Asked {C}.")) is Verdict.VIOLATED
    assert verdict("tool-traffic-never-a-fact", with_tool(f"system: {D}", exact=False)) is Verdict.INCONCLUSIVE
    assert verdict("tool-traffic-never-a-fact", with_tool()) is Verdict.INCONCLUSIVE


def test_a_transcript_that_is_stored_is_no_fact() -> None:
    traffic = [call("1", LOOKUP.arguments), result("1", f"Shelf {D}.")]
    history = with_tool(f"system: Where is {A}?", stored=[ASKED, *traffic, ANSWERED])
    assert verdict("tool-traffic-never-a-fact", history) is Verdict.HELD


def test_what_the_memory_model_makes_of_tool_traffic_is_left_to_the_rule_about_learning() -> None:
    history = with_tool(f"system: Where is {A}?", facts=[f"Shelf {D}."], shown=True)
    assert verdict("tool-traffic-never-a-fact", history) is Verdict.HELD
    assert judge_rule(history, RULES["authors.tool-output-never-a-fact"]).verdict is Verdict.VIOLATED


def test_tool_traffic_of_an_earlier_turn_is_not_sent_again() -> None:
    traffic = [call("1", LOOKUP.arguments), result("1", f"Shelf {D}.")]
    assert verdict("tool-traffic-not-replayed", with_tool(ASKED, ANSWERED)) is Verdict.HELD
    assert verdict("tool-traffic-not-replayed", with_tool(ASKED, *traffic, ANSWERED)) is Verdict.VIOLATED
    assert verdict("tool-traffic-not-replayed", with_tool(ASKED, *traffic, exact=False)) is Verdict.INCONCLUSIVE
    assert verdict("tool-traffic-not-replayed", with_tool()) is Verdict.INCONCLUSIVE


def test_what_the_memory_model_is_shown_again_is_not_replayed() -> None:
    write = writer()
    turn = write.begin(ALICE, f"Where is {A}?")
    write.model(turn, [ASKED], says="", calls=[LOOKUP])
    write.model(turn, [ASKED, call("1", LOOKUP.arguments), result("1", "Here.")], says=f"On {B}.")
    write.end(turn)
    turn = write.begin(ALICE, "Next?")
    write.model(turn, [ASKED, ANSWERED, "user: Next?"])
    write.model(turn, [f"user: Summarise: {C}"], purpose="memory")
    write.end(turn)
    assert verdict("tool-traffic-not-replayed", write.history()) is Verdict.HELD


@pytest.mark.parametrize(("via", "outcome"), [("handoff", "ok"), ("delegate", "ok"), ("run", "failed")])
def test_the_traffic_of_other_ways_and_ends_is_left_to_the_rules_about_those(via: str, outcome: str) -> None:
    write = writer()
    turn = write.begin(ALICE, f"Where is {A}?", via=via)
    write.model(turn, [ASKED], says="", calls=[LOOKUP])
    write.end(turn, outcome)
    write.turn(ALICE, "Next?", prompt=[call("1", LOOKUP.arguments), result("1", "Here."), "user: Next?"])
    assert verdict("tool-traffic-not-replayed", write.history()) is not Verdict.VIOLATED


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ([ASKED, call("1"), result("1", "Here."), ANSWERED], Verdict.HELD),
        ([ASKED, result("1", "Here."), ANSWERED], Verdict.VIOLATED),
        ([ASKED, call("1"), ANSWERED], Verdict.VIOLATED),
        ([call("1"), ASKED, result("1", "Here."), ANSWERED], Verdict.VIOLATED),
        ([ASKED, call("1"), result("2", "Here.")], Verdict.VIOLATED),
        ([ASKED, call("1"), result("1", "Here."), result("1", "Here.")], Verdict.VIOLATED),
    ],
)
def test_calls_and_results_come_in_pairs(prompt: Sequence[Line], expected: Verdict) -> None:
    assert verdict("tool-pairs-intact", talk(*prompt)) is expected


def test_a_guess_whose_prompt_it_was_accuses_nobody_of_a_lost_result() -> None:
    assert verdict("tool-pairs-intact", talk(ASKED, call("1"), exact=False)) is Verdict.INCONCLUSIVE


def queued(tool: str, *, early: bool = False, late: bool = False, ended: str = "ok", exact: bool = True) -> History:
    """A turn in which the model asks a memory tool for A, which is in memory early (before its end) or late or both."""
    write = writer()
    write.fact(ALICE, f"Badge {A}.")
    known = [f"system: {A}"]
    before = known if tool == "forget" else []
    turn = write.begin(ALICE, "Keep it in mind.")
    asking = ToolCall("1", tool, json.dumps({"text": f"Badge {A}."}))
    write.model(turn, [*before, "user: Keep it in mind."], says="", calls=[asking])
    own = ["user: Keep it in mind.", call("1", asking.arguments, name=tool), result("1", "Queued.")]
    write.model(turn, [*(known if early else []), *own], exact=exact)
    write.end(turn, ended)
    write.turn(ALICE, "Next?", prompt=[*(known if late else []), "user: Next?"])
    return write.history()


def test_what_the_model_remembers_is_there_after_its_turn_and_not_before() -> None:
    assert verdict("queued-writes-wait", queued("remember", late=True)) is Verdict.HELD
    assert verdict("queued-writes-wait", queued("remember", early=True, late=True)) is Verdict.VIOLATED
    assert verdict("queued-writes-wait", queued("remember")) is Verdict.VIOLATED
    assert verdict("queued-writes-wait", queued("remember", late=True, ended="failed")) is Verdict.VIOLATED
    assert verdict("queued-writes-wait", queued("remember", ended="failed")) is Verdict.INCONCLUSIVE
    assert verdict("queued-writes-wait", queued("remember", early=True, late=True, exact=False)) is Verdict.INCONCLUSIVE


def test_what_is_remembered_last_of_all_is_not_looked_for() -> None:
    write = writer()
    turn = write.begin(ALICE, "Keep it in mind.")
    write.model(turn, ["user: Keep it in mind."], calls=[ToolCall("1", "remember", json.dumps({"text": A}))])
    write.end(turn)
    assert "nothing that was remembered" in judged("queued-writes-wait", write.history()).reason


def test_what_is_remembered_may_stand_in_a_message_of_any_author() -> None:
    write = writer()
    turn = write.begin(ALICE, f"Keep {B} in mind.")
    asking = ToolCall("1", "remember", json.dumps({"text": f"Badge {A}."}))
    write.model(turn, [f"user: Keep {B} in mind."], says="", calls=[asking])
    write.model(turn, [f"user: Keep {B} in mind.", call("1", asking.arguments), result("1", f"Queued: {A}")])
    write.end(turn)
    write.turn(ALICE, "Next?", prompt=[f"user: Known of me: {A}", "user: Next?"])
    assert verdict("queued-writes-wait", write.history()) is Verdict.HELD


def test_what_the_model_forgets_is_gone_after_its_turn_and_not_before() -> None:
    assert (
        verdict("queued-writes-wait", queued("forget", late=True, early=True, ended="failed")) is Verdict.INCONCLUSIVE
    )
    assert verdict("queued-writes-wait", queued("forget", early=False)) is Verdict.VIOLATED
    assert verdict("queued-writes-wait", queued("forget", early=True, late=True)) is Verdict.VIOLATED
    assert verdict("queued-writes-wait", queued("forget", early=True, ended="failed")) is Verdict.VIOLATED


# Other ways through a turn


def handed_over(*prompt: Line, exact: bool = True) -> History:
    write = writer()
    turn = write.begin(ALICE, f"Where is {A}?", via="handoff")
    handing = ToolCall("1", "handoff_to_expert", json.dumps({"reason": f"wants {C}"}))
    write.model(turn, [ASKED], says="", calls=[handing])
    write.model(turn, [ASKED, call("1", handing.arguments), result("1", f"wants {C}")], says=f"On {B}.")
    write.end(turn)
    write.turn(ALICE, "Next?", prompt=[*prompt, "user: Next?"], exact=exact)
    return write.history()


def test_a_handed_over_run_is_kept_once_without_its_hand_off() -> None:
    assert verdict("handoff-recorded-once", handed_over(ASKED, ANSWERED)) is Verdict.HELD
    assert verdict("handoff-recorded-once", handed_over(ASKED, ANSWERED, ASKED, ANSWERED)) is Verdict.VIOLATED
    assert verdict("handoff-recorded-once", handed_over(ASKED, ANSWERED, f"user: wants {C}")) is Verdict.VIOLATED
    assert verdict("handoff-recorded-once", handed_over()) is Verdict.VIOLATED
    assert "more than once" in judged("handoff-recorded-once", handed_over(ASKED, ASKED, ANSWERED)).reason
    assert "more than once" in judged("handoff-recorded-once", handed_over(ASKED, ANSWERED, ANSWERED)).reason
    assert "is not kept as" in judged("handoff-recorded-once", handed_over(ANSWERED, ASKED)).reason
    assert verdict("handoff-recorded-once", handed_over(exact=False)) is Verdict.INCONCLUSIVE


def test_a_handed_over_run_that_failed_need_not_be_kept() -> None:
    write = writer()
    write.turn(ALICE, f"Where is {A}?", via="handoff", outcome="failed")
    write.turn(ALICE, "Next?")
    assert verdict("handoff-recorded-once", write.history()) is Verdict.INCONCLUSIVE


def overlapped(*prompt: Line, second: str = "ok", exact: bool = True) -> History:
    write = writer()
    first = write.begin(ALICE, f"Where is {A}?")
    write.model(first, [ASKED], says=f"On {B}.")
    write.turn(ALICE, f"Who is {C}?", says=f"It is {D}.", outcome=second, prompt=[f"user: Who is {C}?"])
    write.end(first)
    write.turn(ALICE, "Next?", prompt=[*prompt, "user: Next?"], exact=exact)
    return write.history()


def test_what_is_seen_before_overlapping_turns_have_ended_decides_nothing() -> None:
    write = writer()
    first = write.begin(ALICE, f"Where is {A}?")
    write.model(first, [ASKED], says=f"On {B}.")
    write.turn(ALICE, f"Who is {C}?", says=f"It is {D}.")
    write.stored(ALICE)
    write.end(first)
    write.stored(ALICE, f"user: Who is {C}?", f"assistant: It is {D}.", ASKED, ANSWERED)
    assert verdict("overlapping-turns-both-kept", write.history()) is Verdict.HELD


def test_overlapping_turns_are_both_kept_or_one_fails() -> None:
    other = [f"user: Who is {C}?", f"assistant: It is {D}."]
    assert verdict("overlapping-turns-both-kept", overlapped(ASKED, ANSWERED, *other)) is Verdict.HELD
    assert verdict("overlapping-turns-both-kept", overlapped(*other, ASKED, ANSWERED)) is Verdict.HELD
    assert verdict("overlapping-turns-both-kept", overlapped(ASKED, ANSWERED, second="failed")) is Verdict.HELD
    assert verdict("overlapping-turns-both-kept", overlapped(ASKED, ANSWERED)) is Verdict.VIOLATED
    assert verdict("overlapping-turns-both-kept", overlapped(*other, ASKED)) is Verdict.VIOLATED
    assert verdict("overlapping-turns-both-kept", overlapped(exact=False)) is Verdict.INCONCLUSIVE
