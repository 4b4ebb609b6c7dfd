"""The checks of what is kept of a turn, on the smallest histories that break and keep each rule."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from histories import ALICE, BOB, A, B, C, D, Line, call, result
from turns_by_hand import ANSWERED, ASKED, LOOKUP, judged, talk, verdict, writer

from memtrace.harness.record.events import Expected, Noted
from memtrace.harness.record.history import History
from memtrace.harness.rules import RULES
from memtrace.harness.system import CAPABILITIES
from memtrace.harness.verdicts.judging import judge_rule
from memtrace.model import Verdict

TURNS = [rule for rule in RULES if rule.startswith("turns.")]


@pytest.mark.parametrize("rule", TURNS)
def test_a_history_in_which_nothing_happened_exercises_nothing(rule: str) -> None:
    assert judge_rule(writer().history(), RULES[rule], own=(rule,)).verdict is Verdict.NOT_EXERCISED


# What is kept of a turn that ended well


@pytest.mark.parametrize(
    ("prompt", "expected", "reason"),
    [
        ([ASKED, ANSWERED], Verdict.HELD, ""),
        ([f"user: [10:00] Where is {A}?", ANSWERED], Verdict.HELD, ""),
        ([ANSWERED], Verdict.INCONCLUSIVE, "no prompt or read showed"),
        ([], Verdict.INCONCLUSIVE, "no prompt or read showed"),
        ([ASKED, ASKED, ANSWERED], Verdict.VIOLATED, "kept more than once"),
        ([ASKED], Verdict.VIOLATED, "without its answer"),
        (["user: Hello.", ANSWERED], Verdict.VIOLATED, "without its question"),
        (["user: Hello.", ANSWERED, ASKED], Verdict.VIOLATED, "in front of its question"),
    ],
)
def test_a_turn_is_kept_as_question_and_answer(prompt: Sequence[Line], expected: Verdict, reason: str) -> None:
    found = judged("input-and-answer", talk(*prompt))
    assert found.verdict is expected
    assert reason in found.reason


def test_a_guess_whose_prompt_it_was_accuses_nobody() -> None:
    assert verdict("input-and-answer", talk(ASKED, ASKED, ANSWERED, exact=False)) is Verdict.INCONCLUSIVE


def test_what_was_said_on_the_way_to_a_tool_is_no_answer() -> None:
    def history(answer: str) -> History:
        write = writer()
        turn = write.begin(ALICE, f"Where is {A}?")
        write.model(turn, [ASKED], says=f"Let me see, {D}.", calls=[LOOKUP])
        write.model(turn, [ASKED, call("1"), result("1", "Here.")], says=f"On {B}.")
        write.end(turn)
        write.turn(ALICE, "Next?", prompt=[ASKED, f"assistant: {answer}", "user: Next?"])
        return write.history()

    found = judged("input-and-answer", history(f"Let me see, {D}. On {B}."))
    assert (found.verdict, D in found.reason) == (Verdict.VIOLATED, True)
    assert verdict("input-and-answer", history(f"On {B}.")) is Verdict.HELD


def test_a_transcript_shows_what_was_said_on_the_way_beside_the_call() -> None:
    write = writer()
    turn = write.begin(ALICE, f"Where is {A}?")
    write.model(turn, [ASKED], says=f"Let me see, {D}.", calls=[LOOKUP])
    write.model(turn, [ASKED, call("1", said=f"Let me see, {D}."), result("1", "Here.")], says=f"On {B}.")
    write.end(turn)
    kept = [ASKED, call("1", said=f"Let me see, {D}."), result("1", "Here."), ANSWERED]
    write.turn(ALICE, "Next?", prompt=[*kept, "user: Next?"])
    assert verdict("input-and-answer", write.history()) is Verdict.HELD


def test_turns_that_cannot_be_told_apart_are_not_judged() -> None:
    write = writer()
    for _ in range(2):
        write.turn(ALICE, "Hello.", says="Hi.")
    write.turn(ALICE, f"Where is {A}?", says="", prompt=["user: Hello.", "user: Hello.", f"user: Where is {A}?"])
    write.turn(ALICE, "Next?", prompt=[f"user: Where is {A}?", "user: Next?"])
    assert verdict("input-and-answer", write.history()) is Verdict.INCONCLUSIVE


def test_answers_that_two_turns_share_are_not_one_kept_twice() -> None:
    write = writer()
    for word in (A, C):
        write.turn(ALICE, f"Where is {word}?", says=f"On {B}.")
    lines = [ASKED, ANSWERED, f"user: Where is {C}?", ANSWERED]
    write.turn(ALICE, "Next?", prompt=[*lines, "user: Next?"])
    assert verdict("input-and-answer", write.history()) is Verdict.HELD


def test_what_the_system_says_it_stores_is_looked_at_too() -> None:
    def history(*stored: Line) -> History:
        write = writer()
        write.turn(ALICE, f"Where is {A}?", says=f"On {B}.")
        write.turn(ALICE, "Next?")
        write.stored(ALICE, *stored)
        return write.history()

    assert verdict("input-and-answer", history(ASKED, ANSWERED)) is Verdict.HELD
    assert verdict("input-and-answer", history(ASKED, ANSWERED, ASKED)) is Verdict.VIOLATED


def expecting(rule: str, times: str, *prompt: Line, exact: bool = True) -> History:
    write = writer()
    write.turn(ALICE, f"Where is {A}?", says=f"On {B}.")
    turn = write.turn(ALICE, "Next?", prompt=[*prompt, "user: Next?"], exact=exact)
    write.add(Expected, rule=f"turns.{rule}", canary=A, turn=turn, times=times, why="it was said")
    return write.history()


@pytest.mark.parametrize("rule", ["recalled-next-turn", "resumed-records-its-question"])
def test_what_the_script_expects_of_a_prompt_decides(rule: str) -> None:
    assert verdict(rule, expecting(rule, "some", ASKED)) is Verdict.HELD
    assert verdict(rule, expecting(rule, "1", ASKED)) is Verdict.HELD
    assert verdict(rule, expecting(rule, "some")) is Verdict.VIOLATED
    assert verdict(rule, expecting(rule, "1", ASKED, ANSWERED, ASKED)) is Verdict.VIOLATED
    assert verdict(rule, expecting(rule, "none", ASKED)) is Verdict.VIOLATED
    assert verdict(rule, expecting(rule, "none")) is Verdict.INCONCLUSIVE
    assert verdict(rule, expecting(rule, "some", exact=False)) is Verdict.INCONCLUSIVE
    assert "it was said" in judged(rule, expecting(rule, "some")).reason


def test_a_window_replays_the_newest_whole_turns_and_no_more() -> None:
    def history(window: int, *prompt: Line, exact: bool = True) -> History:
        write = writer(window)
        write.turn(ALICE, f"Where is {A}?", says=f"On {B}.")
        write.turn(ALICE, f"Who is {C}?", says=f"It is {D}.")
        write.turn(ALICE, "Next?", prompt=[*prompt, "user: Next?"], exact=exact)
        return write.history()

    newest = [f"user: Who is {C}?", f"assistant: It is {D}."]
    assert verdict("window-is-bounded", history(2, *newest)) is Verdict.HELD
    assert verdict("window-is-bounded", history(20, ASKED, ANSWERED, *newest)) is Verdict.INCONCLUSIVE
    for window, prompt, reason in (
        (2, [ASKED, ANSWERED, *newest], "4 were replayed"),
        (0, newest, "2 were replayed"),
        (3, [ANSWERED, *newest], "in the middle of turn"),
        (2, [ASKED, ANSWERED], "but not the newer"),
    ):
        found = judged("window-is-bounded", history(window, *prompt))
        assert found.verdict is Verdict.VIOLATED
        assert reason in found.reason
    assert verdict("window-is-bounded", history(0, *newest, exact=False)) is Verdict.INCONCLUSIVE
    assert verdict("window-is-bounded", history(0, f"user: [10:00] Who is {C}?")) is Verdict.VIOLATED
    assert verdict("window-is-bounded", history(0, "user: Who is there?", "user: Do be brief.")) is Verdict.INCONCLUSIVE


def test_tool_traffic_takes_no_room_in_a_window() -> None:
    write = writer(window=2)
    write.turn(ALICE, "Find it.", outcome="limit", prompt=["user: Find it."], says="")
    for word, answer in ((A, B), (C, D)):
        write.turn(ALICE, f"Where is {word}?", says=f"On {answer}.")
    newest = [f"user: Where is {C}?", call("1"), result("1", f"On {D}."), f"assistant: On {D}."]
    write.turn(ALICE, "Next?", prompt=[*newest, "user: Next?"])
    assert verdict("window-is-bounded", write.history()) is Verdict.HELD


def test_where_messages_are_recalled_the_window_cannot_be_told_from_them() -> None:
    write = writer()
    write.opened(tuple(CAPABILITIES), declares={"window": 0}, recall=True)
    write.turn(ALICE, f"Where is {A}?", says=f"On {B}.")
    write.turn(ALICE, "Next?", prompt=[ASKED, "user: Next?"])
    assert verdict("window-is-bounded", write.history()) is Verdict.NOT_EXERCISED


def grown(sizes: Sequence[int], lengths: Sequence[int]) -> History:
    write = writer(window=2)
    write.add(Noted, name="stored", value={"turns": 0, "bytes": sizes[0]})
    write.turn(ALICE, f"Where is {A}?")
    for turns, size, length in zip((1, 2), sizes[1:], lengths, strict=True):
        turn = write.turn(ALICE, "Next?", prompt=[f"user: Where is {A}?" + "x" * length, "user: Next?"])
        write.add(Noted, name="stored", value={"turns": turns, "bytes": size, "turn": turn})
    return write.history()


def test_bytes_and_prompts_that_grow_faster_than_the_turns_are_a_violation() -> None:
    mega = 1_000_000
    assert verdict("growth-is-linear", grown((mega, 2 * mega, 3 * mega), (0, 0))) is Verdict.HELD
    assert verdict("growth-is-linear", grown((mega, 2 * mega, 4 * mega), (0, 0))) is Verdict.VIOLATED
    assert verdict("growth-is-linear", grown((0, 0, 0), (100, 1000))) is Verdict.VIOLATED


def test_a_measured_turn_without_a_prompt_decides_nothing() -> None:
    write = writer()
    for turns in range(3):
        turn = write.turn(ALICE, f"Where is {A}?", outcome="failed")
        write.add(Noted, name="stored", value={"turns": turns, "bytes": 0, "turn": turn})
    assert verdict("growth-is-linear", write.history()) is Verdict.INCONCLUSIVE


# What is kept of a turn that did not


@pytest.mark.parametrize(
    ("rule", "outcome"),
    [
        ("failed-writes-nothing", "failed"),
        ("blocked-writes-nothing", "blocked"),
        ("limit-writes-nothing", "limit"),
        ("paused-writes-nothing", "paused"),
    ],
)
def test_nothing_is_kept_of_a_turn_that_did_not_end_well(rule: str, outcome: str) -> None:
    def history(*prompt: Line, exact: bool = True, again: bool = False, facts: Sequence[str] = ()) -> History:
        write = writer()
        write.turn(ALICE, f"Where is {A}?", says=f"On {B}.")
        write.turn(ALICE, f"I am {C}.", prompt=[ASKED, ANSWERED, f"user: I am {C}."], says=f"Hi {D}.", outcome=outcome)
        if again:
            write.turn(ALICE, f"I am {C}.", prompt=[ASKED, ANSWERED, f"user: I am {C}."], says=f"Hi {D}.")
        write.turn(ALICE, "Next?", prompt=[*prompt, "user: Next?"], exact=exact)
        write.read(ALICE, *facts)
        return write.history()

    question, answer = f"user: I am {C}.", f"assistant: Hi {D}."
    assert verdict(rule, history(ASKED, ANSWERED)) is Verdict.HELD
    assert verdict(rule, history(ASKED, ANSWERED, question)) is Verdict.VIOLATED
    assert verdict(rule, history(ASKED, ANSWERED, answer)) is Verdict.VIOLATED
    assert verdict(rule, history(ASKED, ANSWERED, facts=[f"They are {C}."])) is Verdict.VIOLATED
    assert verdict(rule, history(ASKED, ANSWERED, question, exact=False)) is Verdict.INCONCLUSIVE
    assert verdict(rule, history(ASKED, ANSWERED, question, answer, again=True)) is Verdict.HELD
    assert verdict(rule, history()) is Verdict.INCONCLUSIVE


def test_what_another_caller_is_shown_of_a_failed_turn_is_left_to_the_rules_about_leaks() -> None:
    write = writer()
    write.turn(ALICE, f"Where is {A}?", says=f"On {B}.")
    write.turn(ALICE, f"I am {C}.", outcome="failed", prompt=[f"user: I am {C}."])
    write.turn(BOB, "Next?", prompt=[f"user: I am {C}.", "user: Next?"])
    write.turn(ALICE, "Next?", prompt=[ASKED, ANSWERED, "user: Next?"])
    assert verdict("failed-writes-nothing", write.history()) is Verdict.HELD


def test_a_resumed_run_is_kept_once_it_ended_well() -> None:
    write = writer()
    write.turn(ALICE, f"Where is {A}?", says=f"On {B}.")
    paused = write.turn(ALICE, f"I am {C}.", prompt=[f"user: I am {C}."], outcome="paused")
    write.turn(ALICE, "Next?", prompt=[ASKED, ANSWERED, "user: Next?"])
    write.turn(ALICE, "", via="resume", of=paused, prompt=[ASKED, ANSWERED, f"user: I am {C}."])
    write.turn(ALICE, "Next?", prompt=[ASKED, ANSWERED, f"user: I am {C}.", "assistant: Noted.", "user: Next?"])
    assert verdict("paused-writes-nothing", write.history()) is Verdict.HELD
