"""The processes checks on the smallest histories that break them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from histories import ALICE, BOB, A, B, C, HistoryWriter

from memtrace.harness.checks import CHECKS
from memtrace.harness.record.events import (
    Closed,
    Expected,
    FactsRead,
    FactWritten,
    Noted,
    ProcessEnded,
    ProcessStarted,
    Scanned,
)
from memtrace.harness.record.history import History
from memtrace.harness.rules import RULES
from memtrace.model import Caller, Fact, Verdict

CLAIMS = (
    "turns", "ids", "conv", "facts", "update", "forget", "list", "learn", "learn-offline", "search", "erase",
    "save-load", "reopen", "shared", "own-recall", "recall",
)  # fmt: skip
HELD, VIOLATED, INCONCLUSIVE, UNTESTED = (
    Verdict.HELD, Verdict.VIOLATED, Verdict.INCONCLUSIVE, Verdict.NOT_EXERCISED,
)  # fmt: skip


class Writer(HistoryWriter):
    """A history of a system that claims everything here."""

    def __init__(self) -> None:
        super().__init__(*CLAIMS, telemetry=["spans.db*"])

    def knows(self, *texts: str, caller: Caller = ALICE, exact: bool = True) -> str:
        """A turn in whose prompt there is a block of facts."""
        block = "\n".join(["Facts:", *texts])
        return self.turn(caller, "And?", prompt=["system: Help.", f"system: {block}", "user: And?"], exact=exact)

    def expects(self, rule: str, turn: str, word: str = A, times: str = "some") -> None:
        self.add(Expected, rule=f"processes.{rule}", turn=turn, canary=word, times=times)

    def starts(self, process: str, forked_from: str = "") -> None:
        self.process = process
        self.add(ProcessStarted, pid=1, forked_from=forked_from)

    def ends(self, how: str = "kill") -> None:
        self.add(ProcessEnded, how=how)
        self.process = "main"

    def wrote(self, op: str, text: str = "", *, record: str = "", caller: Caller = ALICE, **more: object) -> None:
        self.add(FactWritten, op=op, caller=caller, text=text, record=record, **more)

    def listed(self, *facts: Fact | str, caller: Caller = ALICE, superseded: bool = False) -> None:
        found = tuple(f if isinstance(f, Fact) else Fact(str(n), f) for n, f in enumerate(facts, 1))
        texts = tuple(fact.text for fact in found)
        self.add(FactsRead, op="facts", caller=caller, texts=texts, facts=found, superseded=superseded)


def verdict(rule: str, history: History) -> Verdict:
    return CHECKS[f"processes.{rule}"](history).verdict


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.startswith("processes.")])
def test_an_empty_history_exercises_nothing(rule: str) -> None:
    assert CHECKS[rule](Writer().history()).verdict is UNTESTED


# What survives

AGAIN = ("facts-survive", "search-after-restart", "search-survives-forget", "recall-survives-own-store")


@pytest.mark.parametrize("rule", AGAIN)
@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [(A, A, HELD), (A, B, VIOLATED), (B, A, INCONCLUSIVE), (B, B, INCONCLUSIVE)],
)
def test_what_a_prompt_held_once_it_must_hold_again(rule: str, before: str, after: str, expected: Verdict) -> None:
    write = Writer()
    write.expects(rule, write.knows(before))
    write.starts("process-1")
    write.expects(rule, write.knows(after))
    assert verdict(rule, write.history()) is expected


@pytest.mark.parametrize("rule", AGAIN)
def test_a_guess_whose_turn_it_was_does_not_accuse(rule: str) -> None:
    write = Writer()
    write.expects(rule, write.knows(A))
    write.expects(rule, write.knows(B, exact=False))
    assert verdict(rule, write.history()) is INCONCLUSIVE


def test_a_turn_that_calls_no_model_any_more_has_lost_the_facts() -> None:
    write = Writer()
    write.expects("facts-survive", write.knows(A))
    write.expects("facts-survive", write.turn(ALICE, "And?", outcome="failed"))
    assert verdict("facts-survive", write.history()) is VIOLATED


@pytest.mark.parametrize(("found", "expected"), [((A, B), HELD), ((B, A), VIOLATED), ((), VIOLATED)])
def test_what_a_search_found_first_it_must_find_first_again(found: tuple[str, ...], expected: Verdict) -> None:
    write = Writer()
    for texts in ((A, B), found):
        write.read(ALICE, *texts, op="search", query="What?")
        write.expects("search-after-restart", "", times="first")
    assert verdict("search-after-restart", write.history()) is expected


@pytest.mark.parametrize(
    ("stored", "expected"), [((f"From {A} to {B}.",), HELD), ((), HELD), ((f"From {A}",), VIOLATED)]
)
def test_of_a_write_that_was_cut_short_all_is_there_or_nothing(stored: tuple[str, ...], expected: Verdict) -> None:
    write = Writer()
    write.expects("facts-survive", write.knows(C), C)
    write.starts("process-1")
    write.wrote("add", f"From {A} to {B}.", error="process-1 is gone")
    write.ends()
    write.listed(*stored)
    write.expects("facts-survive", write.knows(C), C)
    assert verdict("facts-survive", write.history()) is expected


# Several processes


@pytest.mark.parametrize(("there", "expected"), [(A, HELD), (B, VIOLATED)])
def test_what_one_process_adds_another_must_know(there: str, expected: Verdict) -> None:
    write = Writer()
    write.starts("process-1")
    write.process = "main"
    write.fact(ALICE, f"I am {A}.", record="1")
    write.process = "process-1"
    write.expects("other-process-seen", write.knows(there))
    assert verdict("other-process-seen", write.history()) is expected


def test_what_one_process_forgot_another_must_not_find() -> None:
    write = Writer()
    write.starts("process-1")
    write.process = "main"
    write.fact(ALICE, f"I am {A}.", record="1")
    write.process = "process-1"
    write.expects("other-process-seen", write.knows(A))
    write.process = "main"
    write.wrote("forget", record="1")
    write.process = "process-1"
    write.read(ALICE, f"I am {A}.", op="search", query="What?")
    history = write.history()
    assert verdict("other-process-seen", history) is VIOLATED
    assert verdict("forget-fact", history) is not VIOLATED


def forked(child: str, parent: str, *, error: str = "") -> History:
    write = Writer()
    write.starts("process-1")
    write.fact(ALICE, f"I am {A}.")
    write.expects("fork-safe", write.knows(A))
    write.starts("process-1-fork", "process-1")
    write.wrote("add", f"I am {B}.", error=error)
    write.expects("fork-safe", write.knows(child, B), B)
    write.process = "process-1"
    write.expects("fork-safe", write.knows(parent), B)
    return write.history()


@pytest.mark.parametrize(
    ("history", "expected"),
    [(forked(A, B), HELD), (forked(A, A), VIOLATED), (forked(A, B, error="OperationalError: gone"), VIOLATED)],
)
def test_parent_and_child_of_a_fork_must_work_and_know_what_either_stored(history: History, expected: Verdict) -> None:
    assert verdict("fork-safe", history) is expected


@pytest.mark.parametrize(("worked", "expected"), [(True, VIOLATED), (False, INCONCLUSIVE)])
def test_a_turn_that_fails_after_a_fork_counts_where_turns_had_worked(worked: bool, expected: Verdict) -> None:
    write = Writer()
    write.starts("process-1")
    if worked:
        write.expects("fork-safe", write.knows(A))
    write.starts("process-1-fork", "process-1")
    write.expects("fork-safe", write.turn(ALICE, "And?", outcome="failed"))
    assert verdict("fork-safe", write.history()) is expected


@pytest.mark.parametrize(
    ("listed", "error", "expected"),
    [((A, B), "", HELD), ((A,), "", VIOLATED), ((A,), "OperationalError: locked", UNTESTED), ((), "", VIOLATED)],
)
def test_what_two_processes_stored_is_all_there(listed: tuple[str, ...], error: str, expected: Verdict) -> None:
    write = Writer()
    write.wrote("add", f"I am {A}.", record="1")
    write.starts("process-1")
    write.wrote("add", f"I am {B}.", record="2", error=error)
    write.listed(*listed)
    assert verdict("two-writers", write.history()) is expected


def test_what_was_forgotten_since_need_not_be_there() -> None:
    write = Writer()
    write.wrote("add", f"I am {A}.", record="1")
    write.starts("process-1")
    write.wrote("add", f"I am {B}.", record="2")
    write.listed(f"I am {A}.", f"I am {B}.")
    write.wrote("forget", record="1", count=1)
    write.listed(f"I am {B}.")
    assert verdict("two-writers", write.history()) is HELD


# Forgetting


def forgotten(after: Callable[[Writer], object], *, before: Callable[[Writer], object] | None = None) -> History:
    write = Writer()
    write.fact(ALICE, f"I am {A}.", record="1")
    (before or (lambda writer: writer.knows(A)))(write)
    write.wrote("forget", record="1", count=1)
    after(write)
    return write.history()


def read_in_a_fresh_process(write: Writer) -> None:
    write.starts("process-1")
    write.knows(A)


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (lambda w: w.knows(B), HELD),
        (lambda w: w.knows(A), VIOLATED),
        (lambda w: w.knows(A, exact=False), INCONCLUSIVE),
        (lambda w: w.listed(f"I am {A}."), VIOLATED),
        (lambda w: w.listed(Fact("1", f"I am {A}.", superseded=True), superseded=True), VIOLATED),
        (lambda w: w.read(ALICE, f"I am {A}.", op="search", query="What?"), VIOLATED),
        (lambda w: w.add(Scanned, found={A: ("facts.db",)}), VIOLATED),
        (lambda w: (w.add(Scanned, found={A: ("spans.db-wal",)}), w.knows(B)), HELD),
        (read_in_a_fresh_process, VIOLATED),
        (lambda w: (w.turn(ALICE, f"I am {A}."), w.knows(A)), HELD),
        (lambda w: (w.fact(ALICE, f"I am {A}.", record="2"), w.knows(A)), HELD),
        (lambda w: w.turn(ALICE, f"I am {A}?", prompt=[f"user: I am {A}?"]), HELD),
        (lambda w: None, INCONCLUSIVE),
    ],
)
def test_a_forgotten_fact_must_be_nowhere(after: Callable[[Writer], object], expected: Verdict) -> None:
    assert verdict("forget-fact", forgotten(after)) is expected


def test_what_memory_never_showed_it_cannot_be_seen_to_forget() -> None:
    assert verdict("forget-fact", forgotten(lambda w: w.knows(B), before=lambda w: w.knows(B))) is INCONCLUSIVE


def test_what_a_forgotten_fact_had_superseded_goes_with_it() -> None:
    write = Writer()
    write.fact(ALICE, f"Free {A}", record="1")
    write.wrote("update", f"Pro {B}", record="1", returned="2")
    write.listed(Fact("2", f"Pro {B}"))
    write.wrote("forget", record="2", count=2)
    write.listed(Fact("1", f"Free {A}", superseded=True), superseded=True)
    assert verdict("forget-fact", write.history()) is VIOLATED


def test_a_forgotten_fact_may_stay_in_the_conversation_it_was_learned_from() -> None:
    write = Writer()
    write.turn(ALICE, f"I am {A}.")
    write.listed(f"I am {A}.")
    write.wrote("forget", record="1", count=1)
    write.turn(ALICE, "And?", prompt=[f"user: I am {A}.", "assistant: Noted.", "user: And?"])
    write.read(ALICE, f"I am {A}.", "Noted.", op="messages")
    write.listed()
    assert verdict("forget-fact", write.history()) is HELD
    write.listed(f"I am {A}.")
    assert verdict("forget-stays-forgotten", write.history()) is VIOLATED


def test_a_fact_that_another_record_holds_too_is_not_gone() -> None:
    write = Writer()
    write.turn(ALICE, f"I am {A}.")
    write.listed(f"I am {A}.", f"Alice is {A}.")
    write.wrote("forget", record="1", count=1)
    write.listed(Fact("2", f"Alice is {A}."))
    assert verdict("forget-fact", write.history()) is UNTESTED


def test_what_was_never_away_did_not_come_back() -> None:
    history = forgotten(lambda w: (w.knows(A), w.knows(A)))
    assert verdict("forget-fact", history) is VIOLATED
    assert verdict("forget-stays-forgotten", history) is not VIOLATED


def test_forgetting_nothing_proves_nothing() -> None:
    write = Writer()
    write.fact(ALICE, f"I am {A}.", record="1")
    write.knows(A)
    write.wrote("forget", record="1", count=0)
    write.knows(A)
    assert verdict("forget-fact", write.history()) is UNTESTED


def erased(*after: Callable[[Writer], object]) -> History:
    write = Writer()
    write.turn(ALICE, f"I am {A}.", says=f"Hello, {B}.")
    write.turn(ALICE, "And?", prompt=[f"user: I am {A}.", f"assistant: Hello, {B}.", "user: And?"])
    write.wrote("erase")
    for act in after:
        act(write)
    return write.history()


def load(write: Writer) -> None:
    write.wrote("load", file="alice.json")


def replays(word: str, caller: Caller = ALICE) -> Callable[[Writer], object]:
    return lambda w: w.turn(caller, "And?", prompt=[f"user: I am {word}.", "user: And?"])


def summarizes(write: Writer) -> None:
    turn = write.begin(ALICE, "And?")
    write.model(turn, [f"user: Summarize: I am {A}."], purpose="memory")
    write.end(turn)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        (erased(replays(C)), HELD),
        (erased(replays(A)), VIOLATED),
        (erased(replays(B)), VIOLATED),
        (erased(summarizes), VIOLATED),
        (erased(lambda w: w.read(ALICE, f"I am {A}.", op="messages")), VIOLATED),
        (erased(lambda w: w.add(Scanned, found={B: ("recall.db",)})), VIOLATED),
        (erased(replays(C), load, replays(A)), VIOLATED),
        (erased(lambda w: w.turn(ALICE, f"I am {A}."), replays(A)), HELD),
        (erased(), INCONCLUSIVE),
    ],
)
def test_nothing_of_an_erased_user_may_be_seen_again(history: History, expected: Verdict) -> None:
    assert verdict("forget-user", history) is expected


def test_a_window_that_its_application_saved_is_a_file_of_the_applications() -> None:
    write = Writer()
    write.turn(ALICE, f"I am {A}.")
    write.turn(ALICE, "And?", prompt=[f"user: I am {A}.", "assistant: Noted.", "user: And?"])
    write.wrote("save", file="alice.json")
    write.wrote("erase")
    write.add(Scanned, found={A: ("alice.json",)})
    write.turn(ALICE, "And?")
    assert verdict("forget-user", write.history()) is HELD


def test_words_of_others_do_not_count_as_the_erased_users() -> None:
    write = Writer()
    for caller in (ALICE, BOB):
        write.turn(caller, f"I am {A}.")
    write.turn(ALICE, "And?", prompt=[f"user: I am {A}.", "assistant: Noted.", "user: And?"])
    write.wrote("erase")
    write.turn(BOB, "And?", prompt=[f"user: I am {A}.", "assistant: Noted.", "user: And?"])
    assert verdict("forget-user", write.history()) is UNTESTED


# And stays forgotten


def in_flight(*facts: str) -> History:
    write = Writer()
    write.fact(ALICE, f"I am {A}.", record="1")
    write.listed(f"I am {A}.")
    turn = write.begin(ALICE, f"I am {A}.")
    write.model(turn, [f"user: I am {A}."])
    write.wrote("forget", record="1", count=1)
    write.end(turn)
    write.listed(*facts)
    return write.history()


def mined(*facts: str) -> History:
    write = Writer()
    write.turn(ALICE, f"I am {A}.")
    write.listed(f"I am {A}.")
    write.wrote("forget", count=1)
    write.wrote("learn_offline")
    write.listed(*facts)
    return write.history()


def rebuilt(*facts: str) -> History:
    write = Writer()
    write.fact(ALICE, f"I am {A}.", record="1")
    write.listed(f"I am {A}.")
    write.wrote("forget", record="1", count=1)
    write.listed()
    write.listed(*facts)
    return write.history()


def stale(*messages: str) -> History:
    write = Writer()
    write.starts("process-1")
    write.turn(ALICE, f"I am {A}.")
    write.turn(ALICE, "And?", prompt=[f"user: I am {A}.", "user: And?"])
    write.process = "main"
    write.wrote("erase")
    write.process = "process-1"
    write.turn(ALICE, "And?", prompt=[*messages, "user: And?"])
    return write.history()


@pytest.mark.parametrize("happened", [in_flight, mined, rebuilt])
def test_nothing_brings_a_forgotten_fact_back(happened: Callable[..., History]) -> None:
    assert verdict("forget-stays-forgotten", happened()) is HELD
    assert verdict("forget-stays-forgotten", happened(f"I am {A}.")) is VIOLATED
    assert verdict("forget-fact", happened(f"I am {A}.")) is not VIOLATED


def test_no_process_brings_an_erased_user_back() -> None:
    assert verdict("forget-stays-forgotten", stale()) is HELD
    assert verdict("forget-stays-forgotten", stale(f"user: I am {A}.")) is VIOLATED
    assert verdict("forget-user", stale(f"user: I am {A}.")) is not VIOLATED


# Windows


def asked(write: Writer, *said: str, caller: Caller = ALICE) -> None:
    """A turn that replays exchanges, each answered alike."""
    messages = [line for text in said for line in (f"user: {text}", "assistant: Noted.")]
    write.turn(caller, "And?", prompt=["system: Help.", *messages, "user: And?"])


def saved(write: Writer) -> None:
    write.turn(ALICE, f"I am {A}.")
    write.wrote("save", file="alice.json")


def loaded(*said: str, caller: Caller = ALICE, error: str = "", refused: bool = False) -> History:
    write = Writer()
    saved(write)
    write.starts("process-1")
    write.wrote("load", file="alice.json", caller=caller, error=error, refused=refused)
    asked(write, *said, caller=caller)
    return write.history()


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        (loaded(f"I am {A}."), HELD),
        (loaded(), VIOLATED),
        (loaded(f"I am {A}.", "Who?"), VIOLATED),
        (loaded(error="ValueError: no"), VIOLATED),
        (loaded(f"I am {A}.", caller=BOB), VIOLATED),
        (loaded(caller=BOB, error="Refused: not yours", refused=True), INCONCLUSIVE),
        (loaded(caller=BOB, error="KeyError: 'bob'"), INCONCLUSIVE),
    ],
)
def test_a_window_is_given_back_whole_to_its_user_alone(history: History, expected: Verdict) -> None:
    assert verdict("window-round-trip", history) is expected


@pytest.mark.parametrize(
    ("error", "refused", "bobs", "expected"),
    [
        ("Refused: not yours", True, (f"I am {B}.",), HELD),
        ("Refused: not yours", True, (), VIOLATED),
        ("ValueError: no", False, (f"I am {B}.",), INCONCLUSIVE),
    ],
)
def test_another_users_window_is_refused_and_ones_own_stays(
    error: str, refused: bool, bobs: tuple[str, ...], expected: Verdict
) -> None:
    write = Writer()
    saved(write)
    write.starts("process-1")
    write.wrote("load", file="alice.json")
    asked(write, f"I am {A}.")
    write.turn(BOB, f"I am {B}.")
    write.wrote("load", file="alice.json", caller=BOB, error=error, refused=refused)
    asked(write, *bobs, caller=BOB)
    assert verdict("window-round-trip", write.history()) is expected


@pytest.mark.parametrize("op", ["erase", "forget"])
def test_a_window_may_be_refused_once_its_user_was_erased(op: str) -> None:
    write = Writer()
    saved(write)
    write.wrote(op)
    write.wrote("load", file="alice.json", error="Refused: erased", refused=True)
    assert (verdict("window-round-trip", write.history()) is VIOLATED) == (op == "forget")


def test_a_window_another_user_loaded_is_a_leak_of_this_rule() -> None:
    assert CHECKS["users.no-foreign-memory"](loaded(f"I am {A}.", caller=BOB)).verdict is not VIOLATED


def halved(*said: str, error: str = "ValueError: cut short", reopened: bool = False) -> History:
    write = Writer()
    saved(write)
    write.add(Noted, name="truncated", value="alice.json")
    if reopened:
        write.add(Closed)
        write.opened(CLAIMS)
    write.wrote("load", file="alice.json", error=error)
    asked(write, *said)
    return write.history()


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        (halved(f"I am {A}."), INCONCLUSIVE),
        (halved(f"I am {A}.", error=""), VIOLATED),
        (halved(f"I am {A}.", error="KeyError: 'messages'"), VIOLATED),
        (halved(), VIOLATED),
        (halved(reopened=True), INCONCLUSIVE),
        (halved(f"I am {A}.", reopened=True), VIOLATED),
    ],
)
def test_a_file_cut_short_is_told_and_changes_nothing(history: History, expected: Verdict) -> None:
    assert verdict("window-round-trip", history) is expected


@pytest.mark.parametrize(
    ("said", "error", "expected"),
    [
        ((f"I am {A}.",), "", HELD),
        ((f"I am {A}.", f"I work at {B}."), "", HELD),
        ((f"I work at {B}.",), "", VIOLATED),
        ((), "ValueError: empty", VIOLATED),
    ],
)
def test_a_save_that_was_killed_leaves_the_old_window_or_the_new(
    said: tuple[str, ...], error: str, expected: Verdict
) -> None:
    write = Writer()
    write.starts("process-1")
    saved(write)
    write.turn(ALICE, f"I work at {B}.")
    write.wrote("save", file="alice.json", error="process-1 is gone")
    write.ends()
    write.wrote("load", file="alice.json", error=error)
    asked(write, *said)
    assert verdict("window-round-trip", write.history()) is expected
