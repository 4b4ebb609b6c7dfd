"""The export checks on the smallest histories that break them."""

from __future__ import annotations

import pytest
from histories import ALICE, A, HistoryWriter

from memtrace.harness.checks import CHECKS
from memtrace.harness.findings import Judgement
from memtrace.harness.record.history import History
from memtrace.model import Author, Message, Prompt, Verdict

CLAIMS = ("turns", "ids", "conv", "own-spans")
EQUAL, ONE_SPAN, ONE_TRACE, FOREIGN = (
    "export.span-equals-wire",
    "export.every-call-has-one-span",
    "export.one-trace-per-turn",
    "export.safe-under-a-foreign-exporter",
)


def judged(rule: str, history: History) -> Judgement:
    return CHECKS[rule](history)


def prompt(*texts: str, lost: tuple[str, ...] = ()) -> Prompt:
    return Prompt(tuple(Message(Author.USER, text) for text in texts), lost)


def one_call(*recorded: Prompt, trace: str = "1") -> HistoryWriter:
    write = HistoryWriter(*CLAIMS)
    turn = write.begin(ALICE, "Hello.")
    write.model(turn, ["user: Hello."])
    for each in recorded:
        write.span("chat", turn, prompt=each, parent="root", trace=trace)
    write.span("turn", turn, span="root")
    write.end(turn)
    return write


@pytest.mark.parametrize("rule", [EQUAL, ONE_SPAN, ONE_TRACE, FOREIGN])
def test_a_history_without_spans_exercises_nothing(rule: str) -> None:
    write = HistoryWriter("turns", "ids", "conv")
    write.turn(ALICE, "Hello.")
    assert judged(rule, write.history()).verdict is Verdict.NOT_EXERCISED


@pytest.mark.parametrize("rule", [EQUAL, ONE_SPAN, ONE_TRACE])
def test_a_claim_of_spans_without_any_span_is_undecided(rule: str) -> None:
    write = HistoryWriter(*CLAIMS)
    write.turn(ALICE, "Hello.")
    found = judged(rule, write.history())
    assert (found.verdict, found.uncontrolled) == (Verdict.INCONCLUSIVE, True)


def test_a_span_that_shows_what_was_sent_holds() -> None:
    history = one_call(prompt("Hello.")).history()
    assert {judged(rule, history).verdict for rule in (EQUAL, ONE_SPAN, ONE_TRACE)} == {Verdict.HELD}


def one_turn_with_memory() -> HistoryWriter:
    """A turn whose memory, too, has its spans."""
    write = HistoryWriter(*CLAIMS, "memory-spans")
    turn = write.begin(ALICE, "Hello.")
    write.model(turn, ["user: Hello."])
    write.span("memory.read", turn, parent="root")
    write.span("chat", turn, prompt=prompt("Hello."), parent="root")
    write.span("turn", turn, span="root")
    write.end(turn)
    return write


@pytest.mark.parametrize(
    ("silent", "verdict"), [("", Verdict.HELD), ("main", Verdict.VIOLATED), ("p2", Verdict.VIOLATED)]
)
def test_two_processes_that_write_at_once_each_have_their_own_spans(silent: str, verdict: Verdict) -> None:
    write = one_turn_with_memory()
    write.span("memory.persist", trace="main")
    write.fact(ALICE, "Likes tea.")
    for process in ("main", "p2"):
        write.process = process
        if process != silent:
            write.span("memory.persist", trace=process)
    for process in ("main", "p2"):
        write.process = process
        write.fact(ALICE, f"Likes {A}.")
    assert judged(ONE_SPAN, write.history()).verdict is verdict


@pytest.mark.parametrize(
    ("operation", "verdict"),
    [("memory.persist", Verdict.HELD), ("memory.retrieve", Verdict.VIOLATED), ("memory.load", Verdict.VIOLATED)],
)
def test_a_write_is_seen_by_the_span_of_a_write_alone(operation: str, verdict: Verdict) -> None:
    write = one_turn_with_memory()
    write.span(operation)
    write.fact(ALICE, f"Likes {A}.")
    assert judged(ONE_SPAN, write.history()).verdict is verdict


def test_a_span_that_shows_another_prompt_is_a_violation() -> None:
    found = judged(EQUAL, one_call(prompt("Hello?")).history())
    assert found.verdict is Verdict.VIOLATED
    assert [e.text for e in found.evidence] == ["message 1, user: Hello.", "message 1, user: Hello?"]


def test_a_span_that_lost_part_of_the_prompt_decides_nothing() -> None:
    found = judged(EQUAL, one_call(prompt("Hello.", lost=("2 attributes were dropped",))).history())
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "2 attributes were dropped" in found.reason


def test_a_call_without_a_span_is_a_violation() -> None:
    write = one_call(prompt("Hello."))
    turn = write.begin(ALICE, "And?")
    write.model(turn, ["user: And?"], status=500)
    write.end(turn, "failed")
    assert judged(ONE_SPAN, write.history()).verdict is Verdict.VIOLATED


def test_a_call_with_two_spans_is_a_violation() -> None:
    assert judged(ONE_SPAN, one_call(prompt("Hello."), prompt("Hello.")).history()).verdict is Verdict.VIOLATED


def test_a_turn_over_two_traces_is_a_violation() -> None:
    write = HistoryWriter(*CLAIMS)
    turn = write.begin(ALICE, "Hello.")
    write.model(turn, ["user: Hello."])
    write.span("chat", turn, prompt=prompt("Hello."), trace="2")
    write.span("turn", turn, trace="1")
    write.end(turn)
    assert judged(ONE_TRACE, write.history()).verdict is Verdict.VIOLATED


def test_a_linked_root_is_lawful() -> None:
    write = HistoryWriter(*CLAIMS)
    turn = write.begin(ALICE, "Hello.")
    write.model(turn, ["user: Hello."])
    write.span("chat", turn, prompt=prompt("Hello."), trace="1", parent="aa")
    write.span("background", turn, trace="2", links=("1-aa",))
    write.span("turn", turn, trace="1", span="aa")
    write.end(turn)
    assert judged(ONE_TRACE, write.history()).verdict is Verdict.HELD


@pytest.mark.parametrize("secret", [A, ALICE.user, ALICE.session])
def test_words_and_ids_on_a_foreign_exporters_spans_are_a_violation(secret: str) -> None:
    write = HistoryWriter(*CLAIMS)
    write.opened(CLAIMS, foreign_exporter=True)
    turn = write.begin(ALICE, f"My code is {A}.")
    write.model(turn, [f"user: My code is {A}."])
    write.span("chat x", turn, scope="memtrace", attributes={"note": f"about {secret}"}, prompt=prompt("-"))
    write.end(turn)
    found = judged(FOREIGN, write.history())
    assert found.verdict is Verdict.VIOLATED


def test_counts_and_digests_on_a_foreign_exporters_spans_hold() -> None:
    write = HistoryWriter(*CLAIMS)
    write.opened(CLAIMS, foreign_exporter=True)
    turn = write.begin(ALICE, f"My code is {A}.")
    write.model(turn, [f"user: My code is {A}."])
    write.span("chat x", turn, scope="memtrace", attributes={"memory.count": 1}, prompt=prompt("-"))
    write.end(turn)
    assert judged(FOREIGN, write.history()).verdict is Verdict.HELD
