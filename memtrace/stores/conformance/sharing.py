"""Threads, processes, forks and kills."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NoReturn

from memtrace.errors import UsageError
from memtrace.model import Record, Scope
from memtrace.stores.conformance.crowd import in_children, in_threads, killed_at_work
from memtrace.stores.contract import FactStore

Reopen = Callable[[], FactStore]


class Sharing:
    """One store, many users of it."""

    threads = 8
    processes = 4
    writes_each = 100
    kills = 20

    def test_threads_that_write_at_once_lose_nothing(self, store: FactStore, scope: Scope) -> None:
        in_threads(self.threads, lambda thread: self._write(store, scope, thread))
        self._assert_all_written(store, scope, self.threads)

    def test_threads_that_add_the_same_fact_at_once_add_it_once(self, store: FactStore, scope: Scope) -> None:
        for number in range(10):
            fact = Record(scope, f"fact {number}")
            added = in_threads(self.threads, partial(_add, store, fact))
            assert len({record.id for record in added}) == 1
        assert len(store.history(scope)) == 10

    def test_of_threads_that_update_the_same_fact_at_once_one_succeeds(self, store: FactStore, scope: Scope) -> None:
        old = store.add(Record(scope, "is on Free"))

        def update(thread: int) -> Record | None:
            try:
                return store.supersede(scope, old.id, Record(scope, f"is on plan {thread}"))
            except UsageError:
                return None

        updated = [record for record in in_threads(self.threads, update) if record]
        assert store.newest(scope) == updated
        assert len(updated) == 1
        assert len(store.history(scope)) == 2, "an update that was refused left something behind"

    def test_facts_survive_a_restart(self, store: FactStore, reopen: Reopen, scope: Scope) -> None:
        old = store.add(Record(scope, "is on Free", 0, 0.6, "learned", "a" * 32, "b" * 16, 1.25))
        store.supersede(scope, old.id, Record(scope, "is on Pro", created_at=2.5))
        kept = store.history(scope)
        store.close()
        assert reopen().history(scope) == kept

    def test_what_another_store_wrote_is_seen_at_once(self, store: FactStore, reopen: Reopen, scope: Scope) -> None:
        other = reopen()
        assert store.newest(scope) == other.newest(scope) == []
        first = other.add(Record(scope, "is on Free"))
        assert store.newest(scope) == [first]
        assert store.add(Record(scope, "is on Free")) == first
        second = store.supersede(scope, first.id, Record(scope, "is on Pro"))
        assert other.newest(scope) == [second]
        assert other.history(scope) == store.history(scope)
        assert other.delete(scope, second.id) == 2
        assert store.history(scope) == []

    def test_a_store_works_on_both_sides_of_a_fork(self, store: FactStore, reopen: Reopen, scope: Scope) -> None:
        before = store.add(Record(scope, "before"))

        def check(_: int) -> None:
            assert store.newest(scope) == [before]
            store.add(Record(scope, "of the child"))

        assert in_children(1, check) == [0]
        store.add(Record(scope, "of the parent"))
        assert {record.text for record in store.newest(scope)} == {"before", "of the child", "of the parent"}
        assert reopen().history(scope) == store.history(scope)

    def test_forks_while_threads_write_lose_nothing(self, store: FactStore, reopen: Reopen, scope: Scope) -> None:
        def write(writer: int) -> None:
            if writer:
                self._write(store, scope, writer)
            else:
                assert in_children(1, lambda _: self._write(store, scope, writer)) == [0]

        in_threads(self.threads, write)
        self._assert_all_written(reopen(), scope, self.threads)

    def test_processes_that_write_at_once_lose_nothing(self, store: FactStore, reopen: Reopen, scope: Scope) -> None:
        store.newest(scope)
        codes = in_children(self.processes, lambda process: self._write(store, scope, process))
        assert codes == [0] * self.processes
        self._assert_all_written(reopen(), scope, self.processes)

    def test_a_killed_writer_loses_nothing_it_acknowledged(self, reopen: Reopen, scope: Scope) -> None:
        for number in range(self.kills):
            place = replace(scope, id=f"round {number}")
            told = killed_at_work(partial(_write_for_ever, reopen, place), after=number)
            _assert_whole(reopen(), place, done=max(told, default=0))

    def _write(self, store: FactStore, scope: Scope, writer: int) -> None:
        for number in range(self.writes_each):
            store.add(Record(scope, f"{writer}.{number}"))

    def _assert_all_written(self, store: FactStore, scope: Scope, writers: int) -> None:
        written = {f"{writer}.{number}" for writer in range(writers) for number in range(self.writes_each)}
        records = store.newest(scope, None)
        lost = written - {record.text for record in records}
        assert not lost, f"{len(lost)} of {len(written)} writes are lost, such as {min(lost)}"
        assert len(records) == len({record.id for record in records}) == len(written)


def _fact(number: int) -> str:
    """A text that tells whether it is whole."""
    return f"fact {number} " + "x" * (number * 977 % 9000) + " end"


def _plan(number: int) -> str:
    return f"plan {number}"


def _add(store: FactStore, fact: Record, _: int) -> Record:
    return store.add(fact)


def _write_for_ever(reopen: Reopen, scope: Scope, tell: Callable[[int], None]) -> NoReturn:
    """Tells 0 before each write, so that a kill can meet it at work, and the number of each that is done."""
    store = reopen()
    plans = replace(scope, id=f"{scope.id}, plan")
    plan = store.add(Record(plans, _plan(0), created_at=1.0))
    for number in itertools.count(1):
        tell(0)
        store.add(Record(scope, _fact(number), source="learned", created_at=1.0 + number))
        tell(0)
        plan = store.supersede(plans, plan.id, Record(plans, _plan(number), created_at=1.0 + number))
        tell(number)
    raise AssertionError("counting ended")


def _assert_whole(store: FactStore, scope: Scope, done: int) -> None:
    """What is done is there, perhaps with the write after it, and each write is there whole or not at all."""
    facts = store.history(scope)[::-1]
    assert done <= len(facts) <= done + 1
    for number, fact in enumerate(facts, 1):
        assert (fact.text, fact.source, fact.created_at) == (_fact(number), "learned", 1.0 + number)
    plans = store.history(replace(scope, id=f"{scope.id}, plan"))[::-1]
    assert (done + 1 if done else 0) <= len(plans) <= done + 2
    assert [plan.text for plan in plans] == [_plan(number) for number in range(len(plans))]
    successors = [plan.id for plan in plans[1:]]
    assert [plan.superseded_by for plan in plans] == [*successors, None][: len(plans)]
