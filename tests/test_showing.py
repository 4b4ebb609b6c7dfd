"""A recorded history, as somebody reads it."""

from __future__ import annotations

from histories import ALICE, BOB, A, B, HistoryWriter, call, result

from memtrace.harness.record.showing import tree
from memtrace.model import ToolCall


def test_each_turn_shows_what_the_model_was_sent_and_where_each_planted_word_came_from() -> None:
    write = HistoryWriter("turns", "ids")
    told = write.turn(ALICE, f"My code is {A}.", prompt=["system: Help.", f"user: My code is {A}."])
    write.turn(BOB, "What is it?", prompt=[f"system: Facts: {A}, {B}", "user: What is it?"], says="I know.")
    assert tree(write.history()).splitlines() == [
        "ByHand: turns, ids",
        f"turn {told} (run by alice@example.com): ok",
        f"  said: My code is {A}.",
        "  answer prompt",
        "    system    Help.",
        f"    user      My code is {A}.",
        f"              {A}: user words (turn {told}) of alice@example.com",
        "    -> Noted.",
        "  got:  Noted.",
        "turn t3 (run by bob@example.com): ok",
        "  said: What is it?",
        "  answer prompt",
        f"    system    Facts: {A}, {B}",
        f"              {A}: user words (turn {told}) of alice@example.com",
        f"              {B}: planted elsewhere",
        "    user      What is it?",
        "    -> I know.",
        "  got:  I know.",
    ]


def test_tools_and_their_results_are_shown() -> None:
    write = HistoryWriter("turns", "tools")
    turn = write.begin(ALICE, "Where is it?")
    asked = ToolCall("1", "lookup", '{"query": "it"}')
    write.model(turn, ["user: Where is it?"], says="", calls=[asked])
    write.tool(turn, "it", "here")
    write.model(turn, ["user: Where is it?", call("1"), result("1", "here")], says="Here.")
    write.end(turn, text="Here.")
    shown = tree(write.history())
    assert '    -> lookup({"query": "it"})' in shown
    assert "    assistant lookup({})" in shown
    assert "  tool: here" in shown


def test_a_guessed_prompt_is_said_to_be_guessed() -> None:
    write = HistoryWriter()
    write.turn(ALICE, "Hello.", exact=False)
    assert "answer prompt (whose it was is a guess)" in tree(write.history())


def test_facts_are_shown_in_order_with_the_turns() -> None:
    write = HistoryWriter("turns", "facts")
    write.fact(ALICE, "Alice likes tea.")
    write.turn(ALICE, "Hello.")
    write.read(ALICE, "Alice likes tea.")
    write.fact(ALICE, "", op="forget", record="7")
    lines = [line for line in tree(write.history()).splitlines() if not line.startswith("    ")]
    assert lines[1] == "add by alice@example.com (user): Alice likes tea."
    assert lines[2].startswith("turn ")
    assert lines[-3:] == ["facts of alice@example.com", "  Alice likes tea.", "forget by alice@example.com (user): 7"]


def test_a_text_is_one_line_and_no_command_to_the_terminal() -> None:
    write = HistoryWriter()
    write.turn(ALICE, "one\ntwo\x1b[2J\u2028" + "x" * 200)
    said = next(line for line in tree(write.history()).split("\n") if line.startswith("  said: "))
    assert said.startswith("  said: one⏎two\\x1b[2J\\u2028xxx")
    assert said.endswith("x…")
