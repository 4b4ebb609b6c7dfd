"""The checks of what a turn sends and keeps, on the smallest histories that break and keep each rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from histories import ALICE, BOB, A, B, C, D, HistoryWriter, Line, call, result
from turns_by_hand import ANSWERED, ASKED, LOOKUP, ORDER, judged, talk, verdict, writer

from memtrace.harness.events import Expected, Noted
from memtrace.harness.history import History
from memtrace.harness.judging import judge_rule
from memtrace.harness.rules import RULES
from memtrace.harness.system import CAPABILITIES
from memtrace.model import Verdict

TURNS = [rule for rule in RULES if rule.startswith("turns.")]


@pytest.mark.parametrize("rule", TURNS)
def test_a_history_in_which_nothing_happened_exercises_nothing(rule: str) -> None:
    assert judge_rule(writer().history(), RULES[rule], own=(rule,)).verdict is Verdict.NOT_EXERCISED


# What stands in the prompt


def ordered(*blocks: str, exact: bool = True) -> History:
    write = writer()
    write.fact(ALICE, f"Badge {A}.")
    write.fact(ALICE, f"Open until {B}.", scope="agent")
    write.turn(ALICE, f"I am {C}.")
    write.turn(ALICE, f"And {D}?", prompt=["system: Help.", *blocks, f"user: And {D}?"], exact=exact)
    return write.history()


USERS, AGENTS, SAID = f"system: User: {A}", f"system: Agent: {B}", f"user: I am {C}."


def test_blocks_in_another_order_than_declared_are_a_violation() -> None:
    found = judged("prompt-order", ordered(USERS, AGENTS, SAID))
    assert found.verdict is Verdict.VIOLATED
    assert f"{A} (user-facts) stands before {B} (agent-facts)" in found.reason
    assert verdict("prompt-order", ordered(AGENTS, SAID, USERS)) is Verdict.VIOLATED
    assert verdict("prompt-order", ordered(USERS, AGENTS, exact=False)) is Verdict.INCONCLUSIVE
    assert verdict("prompt-order", ordered(AGENTS, USERS, SAID)) is Verdict.HELD
    assert verdict("prompt-order", ordered(f"system: {B}\n{A}", SAID)) is Verdict.HELD
    assert verdict("prompt-order", ordered()) is Verdict.INCONCLUSIVE


def test_the_system_prompt_has_its_place_too() -> None:
    write = writer()
    write.fact(ALICE, f"Badge {A}.")
    write.turn(ALICE, f"I am {C}.", prompt=["system: Help.", f"user: I am {C}."])
    write.turn(ALICE, "And?", prompt=[USERS, "system: Help.", "user: And?"])
    assert verdict("prompt-order", write.history()) is Verdict.VIOLATED


@pytest.mark.parametrize(
    "first",
    [
        ["system: It is 10:01.", f"user: I am {C}."],  # no system prompt that could be told from other messages
        ["user: Be brief.", f"user: I am {C}."],
        [],
    ],
)
def test_what_is_not_known_to_be_the_system_prompt_has_no_place(first: Sequence[Line]) -> None:
    write = writer()
    write.fact(ALICE, f"Badge {A}.")
    write.turn(ALICE, f"I am {C}.", prompt=first)
    write.turn(ALICE, "And?", prompt=[USERS, "user: Be brief.", "system: Be brief.", "user: And?"])
    write.turn(ALICE, "And?", prompt=[USERS, "user: Be brief.", "system: Be brief.", "user: And?"])
    assert verdict("prompt-order", write.history()) is Verdict.INCONCLUSIVE


def test_words_whose_kind_cannot_be_told_have_no_place() -> None:
    def history(block: str, *, claims: Sequence[str] = tuple(CAPABILITIES)) -> History:
        write = writer()
        write.opened(claims, declares={"prompt_order": ORDER}, system_prompt=f"Help with {D}.")
        write.fact(ALICE, f"Open until {B}.", scope="agent")
        write.turn(ALICE, f"I am {C}.")
        write.turn(ALICE, f"I am {C}, {A}.", prompt=[block, AGENTS, f"user: I am {C}, {A}."])
        return write.history()

    for block in (
        f"system: {D}",
        f"system: {C}",
        f"system: {A}",
        f"user: Known: {C} and more that makes this no message.",
    ):
        assert verdict("prompt-order", history(block)) is Verdict.INCONCLUSIVE


def test_what_a_block_may_be_depends_on_what_is_switched_on() -> None:
    def history(*blocks: Line, **options: bool) -> Verdict:
        write = HistoryWriter(*(set(CAPABILITIES) - {"recall"}), prompt_order=ORDER)
        write.opened(tuple(set(CAPABILITIES) - {"recall"}), declares={"prompt_order": ORDER}, **options)
        write.fact(ALICE, f"Badge {A}.")
        write.turn(ALICE, f"I am {C}.")
        write.turn(ALICE, f"And {D}?", prompt=[*blocks, "assistant: Noted.", f"user: And {D}?"])
        return verdict("prompt-order", write.history())

    told = f"system: So far: {C}"
    assert history(told, USERS, summary=True, learn=False) is Verdict.VIOLATED
    assert history(USERS, told, summary=True, learn=False) is Verdict.HELD
    assert history(told, USERS, summary=True) is Verdict.HELD  # it may have been learned
    assert history(told, USERS, recall=True, learn=False) is Verdict.INCONCLUSIVE  # it does not recall
    assert history(USERS, f"user: And {D}?", SAID) is Verdict.VIOLATED
    assert history(USERS, SAID, f"system: And {D}?") is Verdict.HELD  # not what the user says


def test_a_conversation_told_in_a_block_has_the_place_of_the_window() -> None:
    def history(*claims: str) -> Verdict:
        order = ["user facts", "agent facts", "window", "input"]
        write = HistoryWriter("facts", "turns", "learn", *claims, prompt_order=order)
        write.fact(ALICE, f"Open until {B}.", scope="agent")
        write.turn(ALICE, f"I am {C}.")
        write.turn(ALICE, "And?", prompt=[AGENTS, f"system: {C}", "user: And?"])
        return verdict("prompt-order", write.history())

    assert history() is Verdict.VIOLATED
    assert history("conv") is Verdict.HELD


def test_a_system_that_declares_no_order_is_not_judged_by_one() -> None:
    write = HistoryWriter(*CAPABILITIES)
    write.fact(ALICE, f"Badge {A}.")
    write.turn(ALICE, f"I am {C}.", prompt=[f"user: I am {C}.", USERS])
    assert verdict("prompt-order", write.history()) is Verdict.NOT_EXERCISED


def asked(*prompt: Line, exact: bool = True) -> History:
    write = writer()
    write.turn(ALICE, f"Where is {A}?", prompt=prompt, exact=exact)
    return write.history()


def test_a_prompt_without_its_input_is_a_violation() -> None:
    assert verdict("prompt-holds-its-input", asked("user: Hello.")) is Verdict.VIOLATED
    assert verdict("prompt-holds-its-input", asked(ASKED, "assistant: There.")) is Verdict.VIOLATED
    assert verdict("prompt-holds-its-input", asked("user: Hello.", exact=False)) is Verdict.INCONCLUSIVE
    assert verdict("prompt-holds-its-input", asked(ASKED, "assistant: There.", ASKED)) is Verdict.HELD
    assert verdict("prompt-holds-its-input", asked(f"user: Known: nothing.\n\nWhere is {A}?")) is Verdict.HELD


def test_a_resumed_turn_is_sent_the_question_of_the_run_it_goes_on_with() -> None:
    def history(*prompt: Line) -> History:
        write = writer()
        write.turn(ALICE, f"Who is {B}?")
        paused = write.turn(ALICE, f"Where is {A}?", outcome="paused", prompt=[ASKED])
        earlier = [f"user: Who is {B}?", "assistant: Noted."]
        write.turn(ALICE, "", via="resume", of=paused, prompt=[*earlier, *prompt])
        return write.history()

    traffic = [call("1", said="One moment."), result("1", "Approved.")]
    assert verdict("prompt-holds-its-input", history(ASKED, *traffic)) is Verdict.HELD
    assert verdict("prompt-holds-its-input", history(*traffic)) is Verdict.VIOLATED


def test_an_input_whose_blanks_and_quotes_changed_on_the_way_is_the_input() -> None:
    for sent in (f'user: {{"question": "Say \\"hi\\" to\\n{A}."}}', f'user: Say "hi"  to {A}.'):
        write = writer()
        write.turn(ALICE, f'Say "hi" to\n{A}.', prompt=[sent])
        assert verdict("prompt-holds-its-input", write.history()) is Verdict.HELD


def test_a_redacted_input_is_the_input() -> None:
    write = writer()
    write.turn(ALICE, f"I am a@example.com, {A}.", prompt=[f"user: I am [a redacted address], {A}."])
    assert verdict("prompt-holds-its-input", write.history()) is Verdict.HELD


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


# Redaction


ADDRESS = f"{A}@example.com"


def redacting(act: Callable[[HistoryWriter], object]) -> Verdict:
    write = writer()
    write.opened(tuple(CAPABILITIES), redaction=True)
    write.turn(
        ALICE, f"I am {ADDRESS}, {B}.", prompt=[f"user: I am [redacted], {B}."], says=f"Hi {C}@example.com, {D}."
    )
    act(write)
    return verdict("redaction-is-for-the-model", write.history())


def test_an_address_is_in_no_request() -> None:
    turn = f"I am {ADDRESS}, {B}."
    assert redacting(lambda write: None) is Verdict.HELD
    for purpose in ("answer", "memory", "embedding"):
        assert redacting(lambda write, p=purpose: write.model("t1", [f"user: {turn}"], purpose=p)) is Verdict.VIOLATED
    assert redacting(lambda write: write.model("t1", [f"user: {turn}"], exact=False)) is Verdict.INCONCLUSIVE


def test_where_nothing_was_redacted_there_is_nothing_to_judge() -> None:
    def said(text: str, **options: bool) -> Verdict:
        write = writer()
        write.opened(tuple(CAPABILITIES), **options)
        write.turn(ALICE, text)
        return verdict("redaction-is-for-the-model", write.history())

    assert said(f"I am {ADDRESS}.") is Verdict.NOT_EXERCISED
    assert said(f"I am {A}.", redaction=True) is Verdict.NOT_EXERCISED
    assert said(f"I am {ADDRESS} or {A}.", redaction=True) is Verdict.NOT_EXERCISED  # said as a word too


def test_a_prompt_without_the_rest_of_what_was_said_proves_nothing() -> None:
    write = writer()
    write.opened(tuple(CAPABILITIES), redaction=True)
    write.turn(ALICE, f"I am {ADDRESS}, {B}.", prompt=["user: Hello."])
    assert verdict("redaction-is-for-the-model", write.history()) is Verdict.INCONCLUSIVE


def test_memory_keeps_the_users_words_and_the_redacted_answer() -> None:
    said, redacted = f"user: I am {ADDRESS}, {B}.", f"user: I am [redacted], {B}."
    replied, answer = f"assistant: Hi {C}@example.com, {D}.", f"assistant: Hi [redacted], {D}."
    assert redacting(lambda write: write.stored(ALICE, said, answer)) is Verdict.HELD
    assert redacting(lambda write: write.stored(ALICE, redacted, answer)) is Verdict.VIOLATED
    assert redacting(lambda write: write.stored(ALICE, said, replied)) is Verdict.VIOLATED
    others = [f"assistant: I am [redacted], {B}.", f"user: Hi {C}@example.com, {D}."]
    assert redacting(lambda write: write.stored(ALICE, said, answer, *others)) is Verdict.HELD


def test_a_fact_written_by_hand_keeps_its_address() -> None:
    def listed(*facts: str) -> Verdict:
        def act(write: HistoryWriter) -> None:
            write.fact(ALICE, f"They are {ADDRESS}.")
            write.read(ALICE, *facts)

        return redacting(act)

    assert listed(f"They are {ADDRESS}.") is Verdict.HELD
    assert listed("They are [redacted].") is Verdict.VIOLATED
    assert listed("They are [redacted].", f"They are {ADDRESS}.") is Verdict.HELD
