"""Between a laptop and a fleet: the same promises on each store, and while the store fails."""

from __future__ import annotations

from functools import partial
from typing import Final

from memtrace.harness.processes import OtherProcess
from memtrace.harness.rules import rule
from memtrace.harness.scenes.crashing import crashing
from memtrace.harness.scenes.flatness import measure
from memtrace.harness.scenes.hours import FARTHEST, at_one_moment, in_time_zone
from memtrace.harness.scenes.interrupted import Found, Write, interrupted
from memtrace.harness.scenes.lifecycle import ALONE, ASKS, LIFECYCLE, expect_known
from memtrace.harness.scenes.store_faults import faulty_store
from memtrace.harness.scenes.timing import timing
from memtrace.harness.scenes.twin_store import demand_taken
from memtrace.harness.stage import Stage
from memtrace.harness.system import SQLITE_URL
from memtrace.model import Caller, Outcome

SOON: Final = {**ALONE, "store_timeout": 0.5}
MUCH: Final = 1_000_000
LONG: Final = 8_000
"""Characters: more than an index entry holds, and less than a page of text."""
LONG_AFTER: Final = 3600.0
PLANES: Final = "".join(chr(plane * 0x10000 + 0x100) for plane in (0, 1, 2, 3, 14, 15, 16))
"""A character of each plane of Unicode that has any."""
ODD: Final = ("a:b", "a::b", ":b", "a/b", "../b", "{b}", "%s", "b ", "É", "b\u0301", "*", "\U0001f600", "b\nc")


@rule(LIFECYCLE, options=ALONE)
def test_facts_are_added_replaced_found_and_forgotten_and_are_their_owners_alone(stage: Stage) -> None:
    alice, bob = stage.callers(2)
    cat, dog, tree = stage.canary(), stage.canary(), stage.canary()
    record = stage.add(alice, f"Alice has a cat called {cat}.")
    dogs = stage.add(alice, f"Alice has a dog called {dog}.")
    stage.add(bob, f"Bob sits under the {tree}.")
    expect_known(stage, alice, has=(cat, dog), lacks=(tree,))
    expect_known(stage, bob, has=(tree,), lacks=(cat, dog))
    if "update" in stage.claims:
        bird = stage.canary()
        stage.update(alice, record, f"Alice has a bird called {bird}.")
        expect_known(stage, alice, has=(bird, dog), lacks=(cat,))
    if "forget" in stage.claims:
        stage.forget(alice, dogs)
        expect_known(stage, alice, has=(), lacks=(dog, tree))
        stage.forget(bob)
        expect_known(stage, bob, has=(), lacks=(tree,))


@rule("backends.newest-means-newest", options=ALONE)
def test_the_newest_facts_are_listed_and_the_newest_first(stage: Stage) -> None:
    alice, bob = stage.callers(2)
    for number in range(12):
        stage.add(alice, f"Alice has been to {stage.canary()}, her trip number {number}.")
        stage.add(bob, f"Bob has been to {stage.canary()}, his trip number {number}.")
    for limit in (None, 1, 5, 12, 50):
        stage.facts(alice, limit)
    stage.facts(bob)
    stage.facts(bob)


@rule("backends.newest-means-newest", options=ALONE)
def test_the_newest_are_the_newest_whatever_the_clocks_say(stage: Stage) -> None:
    alice = stage.caller()
    with at_one_moment(stage):
        for number in range(4):
            stage.add(alice, f"Alice is in four places at once, number {number} is {stage.canary()}.")
    for limit in (None, 2, None):
        stage.facts(alice, limit)
    for zone in FARTHEST:
        with in_time_zone(zone):
            stage.add(alice, f"Alice has flown to {stage.canary()}, where {zone} is the time.")
            stage.facts(alice, 2)
    stage.facts(alice)


@rule("backends.read-is-flat", options={**ALONE, "tracing": False})
def test_the_newest_facts_take_no_longer_to_read_where_there_are_many(stage: Stage) -> None:
    stage.require_timed()
    measure(stage)


@rule("backends.same-answers", options=ALONE)
def test_the_same_calls_give_the_same_on_this_store_and_on_a_fresh_one(stage: Stage) -> None:
    names = [f"{stage.canary()}{odd}" for odd in ODD]
    texts = _texts()
    home, twin = stage.environment().store_url, f"{SQLITE_URL}{stage.directory / 'twin.db'}"
    demand_taken(stage, f"{SQLITE_URL}{stage.directory / 'first.db'}")
    for title, url in (("this store", home), ("a fresh SQLite file", twin)):
        stage.reopen_at(url)
        stage.note("store", title)
        _ask_all(stage, [f"{title[0]}{name}" for name in names], texts)
    stage.reopen_at(home)


def _texts() -> list[str]:
    return [
        "Plays saxophone.", "plays saxophone.", "Plays saxophone. ", PLANES, "no\u0301 \u00e9 e\u0301",
        "line\nbreak\r\nand\ttab", "'; DROP TABLE facts; --", "{}[]\\\"", "x" * LONG, "y" * MUCH, "zero\0byte",
    ]  # fmt: skip


def _ask_all(stage: Stage, names: list[str], texts: list[str]) -> None:
    everyone = [stage.named(name) for name in names]
    alice = everyone[0]
    for text in texts:
        stage.add(alice, text)
    for text in texts:
        stage.add(alice, text)
    with at_one_moment(stage):
        for number in range(4):
            stage.add(alice, f"Is in four places at once, number {number}.")
    for zone in FARTHEST:
        with in_time_zone(zone):
            stage.add(alice, f"Has flown to where {zone} is the time.")
    for limit in (None, 0, 1, 3, 50):
        stage.facts(alice, limit)
    for number, caller in enumerate(everyone[1:]):
        stage.add(caller, f"Sits in room {number}.")
    for caller in everyone:
        stage.facts(caller)
    if "forget" in stage.claims:
        stage.forget(everyone[1])
    for caller in everyone:
        stage.facts(caller)


@rule("backends.add-is-atomic", needs=("list",), options=ALONE)
def test_a_process_killed_while_it_stores_a_fact_leaves_the_facts_as_they_were_or_with_it(stage: Stage) -> None:
    with crashing(stage) as crashes:
        interrupted(stage, crashes, partial(_adds, stage))


@rule("backends.add-is-atomic", needs=("list", "update"), options=ALONE)
def test_a_process_killed_while_it_replaces_a_fact_leaves_one_of_the_two(stage: Stage) -> None:
    with crashing(stage) as crashes:
        interrupted(stage, crashes, partial(_updates, stage))


def _adds(stage: Stage, process: OtherProcess, alice: Caller) -> Write:
    """A fact is added, and then added again."""
    text = f"Alice has a cat called {stage.canary()}."
    process.add(alice, f"Alice plays saxophone at {stage.canary()}.")
    process.facts(alice)

    def look(process: OtherProcess) -> Found:
        found = process.facts(alice)
        record = process.add(alice, text)
        process.facts(alice)
        return Found(text in [fact.text for fact in found], record)

    return Write(lambda: process.add(alice, text), look)


def _updates(stage: Stage, process: OtherProcess, alice: Caller) -> Write:
    """A fact is replaced, and replaced again if it still is there."""
    cat, dog = (f"Alice has a {animal} called {stage.canary()}." for animal in ("cat", "dog"))
    process.add(alice, f"Alice plays saxophone at {stage.canary()}.")
    record = process.add(alice, cat)
    process.facts(alice)

    def look(process: OtherProcess) -> Found:
        found = {fact.text: fact.id for fact in process.facts(alice)}
        if dog in found:
            return Found(True, found[dog])
        new = process.update(alice, found.get(cat, record), dog)
        process.facts(alice)
        return Found(False, new)

    return Write(lambda: process.update(alice, record, dog), look)


@rule("backends.outage-is-bounded", needs=("turns",), options=SOON)
def test_while_the_store_fails_turns_that_begin_at_once_end_in_time_with_what_was_known(stage: Stage) -> None:
    with faulty_store(stage) as store:
        for kind in store.kinds:
            callers = stage.callers(3)
            for caller in callers:
                _stores(stage, caller)
                stage.turn(caller, ASKS)
            store.fault(kind)
            for _ in range(2):
                with timing(stage) as turns:
                    for caller in (*callers, stage.caller()):
                        turns.start(caller, ASKS)
            store.fault()
            stage.advance(LONG_AFTER)


@rule("backends.outage-is-visible", needs=("turns", "memory-spans"), options=SOON)
def test_a_turn_that_was_kept_from_its_facts_has_a_span_that_says_so(stage: Stage) -> None:
    with faulty_store(stage) as store:
        for kind in store.kinds:
            alice, bob = stage.callers(2)
            for caller in (alice, bob):
                _stores(stage, caller)
            stage.turn(alice, ASKS)
            store.fault(kind)
            for caller in (alice, bob):
                stage.turn(caller, ASKS, expect=(Outcome.OK, Outcome.FAILED))
            store.fault()
            stage.advance(LONG_AFTER)


def _stores(stage: Stage, caller: Caller) -> None:
    stage.add(caller, f"Their desk is number {stage.canary()}.")
    if "agent-facts" in stage.claims:
        stage.add(caller, f"We ship on {stage.canary()}.", "agent")
