"""The checks of what a turn sends, on the smallest histories that break and keep each rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from histories import ALICE, A, B, C, D, HistoryWriter, Line, call, result
from turns_by_hand import ASKED, ORDER, judged, verdict, writer

from memtrace.harness.record.history import History
from memtrace.harness.system import CAPABILITIES
from memtrace.model import Verdict

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
