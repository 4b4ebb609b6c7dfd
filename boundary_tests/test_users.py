"""Between users: whose memory it is."""

from __future__ import annotations

from itertools import product

import pytest

from memtrace.harness.rules import rule
from memtrace.harness.scripted_model.scripting import fails, use_tool
from memtrace.harness.stage import OK_OR_REFUSED, Stage
from memtrace.harness.system import APPROVAL_TOOL
from memtrace.model import Outcome, Unresolved

_WAYS = [("run", "turns"), ("stream", "stream")]
_ALL = "What is my locker code, and where is my desk?"


@rule("users.own-memory-recalled")
def test_an_owner_is_shown_again_what_they_said(stage: Stage) -> None:
    stage.needs("conv|learn|facts")
    alice, bob = stage.callers(2)
    for caller in (alice, bob):
        word = stage.canary()
        stage.turn(caller, "Hello.")
        stage.turn(caller, f"My locker code is {word}.")
        asked = stage.turn(caller, "What is my locker code?")
        stage.expect("users.own-memory-recalled", asked, word, why="they said so in the turn before")


@rule("users.own-memory-recalled", needs=("facts",))
def test_an_owner_is_shown_what_was_stored_for_them(stage: Stage) -> None:
    alice = stage.caller()
    word = stage.canary()
    stage.add(alice, f"Their desk is number {word}.")
    asked = stage.turn(alice, "Where is my desk?")
    stage.expect("users.own-memory-recalled", asked, word, why="it is a durable fact of theirs")


@rule("users.no-foreign-memory")
def test_a_stranger_asking_the_same_question_gets_nothing_of_the_owners(stage: Stage) -> None:
    _ask_the_same(stage, "run")


@rule("users.no-foreign-memory", needs=("stream",))
def test_a_stranger_gets_nothing_of_the_owners_in_a_stream_either(stage: Stage) -> None:
    _ask_the_same(stage, "stream")


@rule("users.no-foreign-memory")
def test_whoever_comes_after_a_failed_turn_gets_nothing_of_its_callers(stage: Stage) -> None:
    alice, bob = stage.callers(2)
    for caller in (alice, bob):
        stage.turn(caller, f"My locker code is {stage.canary()}.")
    stage.turn(alice, "What is my locker code?", says=[fails()], expect=Outcome.FAILED)
    for caller in (bob, alice):
        stage.turn(caller, "What is my locker code?")


@rule("users.no-foreign-memory")
def test_what_one_user_tells_in_many_turns_reaches_no_other(stage: Stage) -> None:
    alice, bob = stage.callers(2)
    stage.turn(bob, f"My locker code is {stage.canary()}.")
    for turn in range(8):
        stage.turn(alice, f"My locker number {turn} has the code {stage.canary()}.")
        if "facts" in stage.claims:
            stage.add(alice, f"They have locker {stage.canary()}.")
    for caller in (bob, alice):
        stage.turn(caller, "What is my locker code?")


def _ask_the_same(stage: Stage, via: str) -> None:
    alice, bob, carol = stage.callers(3)
    stage.turn(alice, f"My locker code is {stage.canary()}.", says=[f"Noted: {stage.canary()}."], via=via)
    stage.turn(bob, f"My locker code is {stage.canary()}.", via=via)
    for caller in (alice, bob, carol, alice):
        stage.turn(caller, "What is my locker code?", via=via)


@rule("users.no-foreign-memory", needs=("resume",))
def test_a_resumed_run_goes_on_with_its_own_callers_memory(stage: Stage) -> None:
    alice, bob = stage.callers(2)
    stage.turn(alice, f"My account is {stage.canary()}.")
    paused = stage.turn(
        alice,
        "Transfer ten to the savings account.",
        says=[use_tool("ten", name=APPROVAL_TOOL)],
        expect=Outcome.PAUSED,
    )
    stage.turn(bob, f"My account is {stage.canary()}.")
    stage.resume(paused, says=[f"Done: {stage.canary()}."])
    for caller in (bob, alice):
        stage.turn(caller, "Which account is mine?")


@rule("users.no-foreign-memory", needs=("handoff",))
def test_the_agent_a_turn_is_handed_to_sees_its_callers_memory_alone(stage: Stage) -> None:
    alice, bob = stage.callers(2)
    for caller in (alice, bob, alice):
        stage.turn(
            caller, f"My invoice is {stage.canary()}.", via="handoff",
            says=[stage.hands_over("billing"), f"It is open: {stage.canary()}."],
        )  # fmt: skip
    stage.turn(bob, "Which invoice is mine?", via="handoff", says=[stage.hands_over("billing"), "That one."])


@rule("users.no-foreign-memory", needs=("delegate",))
def test_the_agent_a_task_is_delegated_to_sees_its_callers_memory_alone(stage: Stage) -> None:
    alice, bob = stage.callers(2)
    for caller in (alice, bob, alice):
        stage.turn(
            caller, f"Look up my invoice {stage.canary()}.", via="delegate",
            says=[stage.delegates(f"Look up {stage.canary()}."), "Found it.", "It is open."],
        )  # fmt: skip
    stage.turn(alice, f"And what of the one from {stage.canary()}?")
    stage.turn(alice, "Which invoice is mine?")


@rule("users.no-foreign-memory", needs=("facts",))
def test_reads_give_a_caller_their_own_alone(stage: Stage) -> None:
    stage.needs("list|search")
    alice, bob = stage.callers(2)
    for caller in (alice, bob):
        stage.add(caller, f"Their badge has the number {stage.canary()}.")
        stage.turn(caller, f"My parking lot is {stage.canary()}.")
    for caller in (alice, bob, stage.caller()):
        if "list" in stage.claims:
            stage.facts(caller)
        if "search" in stage.claims:
            stage.search(caller, "number of the badge")
        stage.messages(caller)


@rule("users.no-foreign-memory", needs=("summary",), options={"summary": True, "window": 2})
def test_a_summary_is_made_of_its_own_users_words(stage: Stage) -> None:
    alice, bob = stage.callers(2)
    for number in range(4):
        for caller in (alice, bob):
            stage.turn(caller, f"Item {number} on my list is {stage.canary()}.")


@rule("users.reply-goes-to-its-caller")
def test_the_same_question_gets_each_caller_the_answer_given_to_them(stage: Stage) -> None:
    for caller in stage.callers(3):
        stage.turn(caller, "What is my balance?", says=[f"It is {stage.canary()}."])


# Callers who cannot be told


@rule("users.unresolved-sees-only-agent-facts")
def test_a_caller_who_cannot_be_told_sees_the_agents_facts_only(stage: Stage) -> None:
    alice = stage.caller()
    if "agent-facts" in stage.claims:
        stage.add(alice, f"The shop opens at {stage.canary()}.", scope="agent")
    if "facts" in stage.claims:
        stage.add(alice, f"Their key is {stage.canary()}.")
    stage.turn(alice, f"My locker code is {stage.canary()}.")
    stage.turn(alice, "What is my locker code?")
    for via, kind in product(_ways(stage), Unresolved):
        stage.turn(stage.anonymous(kind), "What is my locker code?", via=via, expect=OK_OR_REFUSED)


@rule("users.unresolved-writes-nothing")
def test_what_a_caller_says_who_cannot_be_told_is_kept_nowhere(stage: Stage) -> None:
    words = []
    for via, kind in product((*_ways(stage), "run"), Unresolved):
        words.append(stage.canary())
        stage.turn(
            stage.anonymous(kind), f"My locker code is {words[-1]}.", via=via, says=[f"Noted: {stage.canary()}."],
            expect=OK_OR_REFUSED,
        )  # fmt: skip
    named = [stage.caller(), *([stage.named("None")] if stage.fresh else [])]
    for caller in named:
        stage.turn(caller, f"My locker code is {stage.canary()}.", expect=OK_OR_REFUSED)
        stage.turn(caller, "What is my locker code?", expect=OK_OR_REFUSED)
    stage.scan(*words)


def _ways(stage: Stage) -> list[str]:
    return [via for via, capability in _WAYS if capability in stage.claims]


@rule("users.unresolved-writes-nothing")
def test_callers_whose_context_gives_what_is_no_id_share_nothing(stage: Stage) -> None:
    alice = stage.caller()
    stage.turn(alice, f"My locker code is {stage.canary()}.")
    stage.turn(alice, "What is my locker code?")
    for _ in range(12):
        caller = stage.anonymous(Unresolved.NOT_AN_ID)
        stage.turn(caller, f"My locker code is {stage.canary()}.", expect=OK_OR_REFUSED)


@rule("users.unresolved-writes-nothing", needs=("recall",), options={"recall": True, "window": 2, "learn": False})
def test_nobody_recalls_what_a_caller_said_who_cannot_be_told(stage: Stage) -> None:
    alice, word = stage.caller(), stage.canary()
    stage.turn(stage.anonymous(), f"My yoga class is on {word}.", expect=OK_OR_REFUSED)
    stage.turn(alice, f"My yoga class is on {stage.canary()}.")
    for caller in (alice, stage.anonymous(), alice):
        stage.turn(caller, "When is my yoga class?", expect=OK_OR_REFUSED)
    stage.scan(word)


@rule("users.resolved-once-per-turn")
@pytest.mark.parametrize(("via", "capability"), _WAYS)
def test_a_turn_is_one_callers_though_its_context_changes(stage: Stage, via: str, capability: str) -> None:
    stage.needs(capability, "conv|learn")
    alice, bob = stage.callers(2)
    for caller in (alice, bob):
        stage.turn(caller, f"My locker code is {stage.canary()}.")
    for asked_before in (1, 2, 3):
        stage.resolve_as(alice, *[alice.user] * asked_before, bob.user)
        stage.turn(alice, f"My bicycle is {stage.canary()}.", via=via)
        stage.resolve_as(alice, alice.user)
        for caller in (alice, bob):
            stage.turn(caller, "What is my bicycle, and my locker code?")


# What two callers may have in common


@rule("users.same-session-id-apart")
def test_two_users_with_one_session_id_share_nothing(stage: Stage) -> None:
    alice, bob = stage.callers(2, session="s-shared")
    for caller in (alice, bob):
        stage.turn(caller, f"My locker code is {stage.canary()}.", says=[f"Noted: {stage.canary()}."])
    for caller in (alice, bob):
        stage.turn(caller, "What is my locker code?")
        stage.messages(caller)


@rule("users.recall-namespaced", options={"recall": True, "window": 2, "learn": False})
def test_recall_gives_a_caller_their_own_messages(stage: Stage) -> None:
    alice, bob = stage.callers(2)
    for caller in (alice, bob):
        stage.turn(caller, f"My yoga class is on {stage.canary()}.")
        stage.turn(caller, "The weather is fine today.")
    for caller in (alice, bob, alice):
        stage.turn(caller, "When is my yoga class?")


@rule("users.recall-namespaced", options={"recall": True, "window": 2, "learn": False})
def test_a_busy_user_does_not_crowd_out_a_quiet_one(stage: Stage) -> None:
    quiet, busy = stage.callers(2)
    word = stage.canary()
    stage.turn(quiet, f"My yoga class is on {word}.")
    stage.turn(quiet, "The weather is fine today.")
    before = stage.turn(quiet, "Yoga class today?")
    for _ in range(12):
        stage.turn(busy, f"Yoga class today? {stage.canary()}", says=[f"Yoga class today: {stage.canary()}"])
    after = stage.turn(quiet, "Yoga class today?")
    for asked in (before, after):
        stage.expect("users.recall-namespaced", asked, word, why="no window holds it, and nothing of theirs is nearer")


@rule("users.evicted-keeps-facts", needs=("facts",), options={"max_users": 2, "learn": False})
def test_whose_window_was_dropped_keeps_their_facts(stage: Stage) -> None:
    alice, bob, carol = stage.callers(3)
    fact, word = stage.canary(), stage.canary()
    stage.add(alice, f"Their desk is number {fact}.")
    stage.turn(alice, f"My locker code is {word}.")
    before = stage.turn(alice, _ALL)
    for caller in (bob, carol):
        stage.turn(caller, f"My locker code is {stage.canary()}.")
    after = stage.turn(alice, _ALL)
    for asked in (before, after):
        stage.expect("users.evicted-keeps-facts", asked, fact, why="a fact is no part of a window")
    stage.expect("users.evicted-keeps-facts", before, word, why="they said so in the turn before")
    stage.expect(
        "users.evicted-keeps-facts", after, word, times="none", why="two windows are kept, and two others came since"
    )


@rule("users.evicted-keeps-facts", options={"max_users": 2, "learn": False})
def test_the_window_of_who_was_active_last_is_kept(stage: Stage) -> None:
    alice, bob, carol = stage.callers(3)
    word = stage.canary()
    stage.turn(alice, f"My locker code is {word}.")
    stage.turn(bob, f"My locker code is {stage.canary()}.")
    before = stage.turn(alice, "What is my locker code?")
    stage.turn(carol, f"My locker code is {stage.canary()}.")
    after = stage.turn(alice, "What is my locker code?")
    for asked in (before, after):
        stage.expect("users.evicted-keeps-facts", asked, word, why="of two windows theirs was used later than another")


@rule("users.evicted-keeps-facts", needs=("save-load",), options={"max_users": 2, "learn": False})
def test_saving_after_a_window_was_dropped_destroys_nothing(stage: Stage) -> None:
    alice, bob, carol = stage.callers(3)
    word, path = stage.canary(), stage.directory / "window"
    stage.turn(alice, f"My locker code is {word}.")
    before = stage.turn(alice, "What is my locker code?")
    stage.save(alice, path)
    for caller in (bob, carol):
        stage.turn(caller, f"My locker code is {stage.canary()}.")
    stage.save(alice, path)
    stage.load(alice, path)
    after = stage.turn(alice, "What is my locker code?")
    for asked in (before, after):
        stage.expect("users.evicted-keeps-facts", asked, word, why="it was saved before the window was dropped")


@rule("users.no-foreign-memory", needs=("facts", "list"))
def test_whatever_is_listed_is_the_callers_own(stage: Stage) -> None:
    alice, bob = stage.callers(2)
    for number in range(3):
        for caller in (alice, bob):
            record = stage.add(caller, f"Badge {number} of this person is {stage.canary()}.")
            if "update" in stage.claims:
                stage.update(caller, record, f"Badge {number} of this person is now {stage.canary()}.")
    for caller in (alice, bob, alice):
        for limit in (1, 2, 50, None):
            stage.facts(caller, limit)
            stage.facts(caller, limit, superseded=True)
        stage.turn(caller, "What are my badges?")
