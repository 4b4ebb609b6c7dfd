"""The fact store contract as tests, for any store; needs pytest.

::

    from memtrace.stores.conformance import FactStoreContract

    class TestMyStore(FactStoreContract):
        @pytest.fixture
        def store(self):
            store = MyStore(URL)
            yield store
            store.close()

        @pytest.fixture
        def reopen(self):
            return lambda: MyStore(URL)

``store`` gives an open `FactStore`. It need not be empty: each test files its facts under a project of its own.
``reopen`` gives a function that opens the same data as another process would; the tests of restarts, forks and kills
are skipped without it. Call ``pytest.register_assert_rewrite("memtrace.stores.conformance")`` before the import to see
the values in a failed assertion.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from uuid import uuid4

import pytest

from memtrace.errors import UsageError
from memtrace.model import Level, Record, Scope
from memtrace.stores.contract import FactStore
from memtrace.stores.crowd import at_once, in_children, killed_at_work
from memtrace.stores.samples import IDS, PAIRS, TEXTS, UNSTORABLE

Reopen = Callable[[], FactStore]


class FactStoreContract:
    """Subclass it and give it a ``store`` fixture, and a ``reopen`` fixture where the data can be opened twice."""

    threads = 8
    processes = 4
    writes_each = 100
    kills = 20

    @pytest.fixture
    def reopen(self) -> Reopen:
        pytest.skip("no `reopen` fixture: it returns a function that opens the same data as another process would")

    @pytest.fixture
    def scope(self) -> Scope:
        return Scope(Level.USER, "alice", f"test-{uuid4()}")

    # Adding and reading

    def test_what_is_added_is_read_back_whole(self, store: FactStore, scope: Scope) -> None:
        written = Record(scope, "likes tea", 0, 0.25, "learned", "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", 7.5)
        added = store.add(written)
        assert added.id > 0
        assert added == replace(written, id=added.id)
        assert store.get(scope, added.id) == added
        assert store.newest(scope) == store.history(scope) == [added]
        assert type(added) is type(store.newest(scope)[0]) is Record

    def test_a_fact_without_a_time_is_of_now(self, store: FactStore, scope: Scope) -> None:
        before = time.time()
        added = store.add(Record(scope, "likes tea"))
        assert before <= added.created_at <= time.time()

    def test_a_store_gives_the_id_and_what_supersedes_it(self, store: FactStore, scope: Scope) -> None:
        first = store.add(Record(scope, "likes tea"))
        second = store.add(Record(scope, "likes jazz", id=first.id, superseded_by=first.id))
        assert second.id != first.id
        assert second in store.newest(scope), "a record was stored as superseded"

    def test_adding_twice_is_adding_once(self, store: FactStore, scope: Scope) -> None:
        first = store.add(Record(scope, "likes tea", confidence=0.5, source="learned", created_at=1.0))
        again = store.add(Record(scope, "likes tea", confidence=0.9, source="mined", created_at=2.0))
        assert again == first
        assert store.history(scope) == [first]

    def test_a_learned_fact_that_is_added_by_hand_is_by_hand(self, store: FactStore, scope: Scope) -> None:
        learned = store.add(Record(scope, "likes tea", confidence=0.6, source="learned", source_trace_id="a" * 32, created_at=1.0))
        by_hand = store.add(Record(scope, "likes tea", source_trace_id="b" * 32, source_span_id="c" * 16))
        assert by_hand == replace(learned, confidence=1.0, source="", source_trace_id="b" * 32, source_span_id="c" * 16)
        assert store.newest(scope, source="") == store.history(scope) == [by_hand]
        assert store.newest(scope, source="learned") == []

    def test_a_fact_by_hand_that_is_learned_stays_by_hand(self, store: FactStore, scope: Scope) -> None:
        by_hand = store.add(Record(scope, "likes tea"))
        assert store.add(Record(scope, "likes tea", confidence=0.6, source="learned")) == by_hand
        assert store.newest(scope) == [by_hand]

    @pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
    def test_any_text_is_kept_as_it_is(self, store: FactStore, scope: Scope, text: str) -> None:
        added = store.add(Record(scope, text))
        assert added.text == text
        assert store.add(Record(scope, text)).id == added.id
        assert [record.text == text for record in store.newest(scope)] == [True]

    def test_texts_that_look_alike_are_two_facts(self, store: FactStore, scope: Scope) -> None:
        for text in IDS:
            store.add(Record(scope, text))
        assert {record.text for record in store.newest(scope, None)} == set(IDS)

    @pytest.mark.parametrize("odd", UNSTORABLE.values(), ids=UNSTORABLE.keys())
    def test_text_that_no_store_keeps_is_refused_everywhere(self, store: FactStore, scope: Scope, odd: str) -> None:
        kept = store.add(Record(scope, "likes tea"))
        elsewhere = (replace(scope, id=odd), replace(scope, project=odd))
        for record in (
            Record(scope, odd),
            Record(scope, "x", source=odd),
            Record(scope, "x", source_trace_id=odd),
            Record(scope, "x", source_span_id=odd),
            *(Record(other, "x") for other in elsewhere),
        ):
            with pytest.raises(UsageError):
                store.add(record)
            with pytest.raises(UsageError):
                store.supersede(record.scope, kept.id, record)
        for other in elsewhere:
            _assert_empty(store, other, kept.id)
            with pytest.raises(UsageError):
                store.delete(other)
        assert store.newest(scope, source=odd) == []
        assert store.history(scope) == [kept]

    @pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
    def test_numbers_that_have_no_order_are_refused(self, store: FactStore, scope: Scope, number: float) -> None:
        for record in (Record(scope, "x", confidence=number), Record(scope, "x", created_at=number)):
            with pytest.raises(UsageError):
                store.add(record)
        assert store.history(scope) == []

    # Whose it is

    def test_odd_ids_are_kept_apart(self, store: FactStore, scope: Scope) -> None:
        self._assert_apart(store, [replace(scope, id=name) for name in IDS])

    def test_odd_projects_are_kept_apart(self, store: FactStore, scope: Scope) -> None:
        self._assert_apart(store, [Scope(Level.USER, f"{scope.project} {name}", name) for name in ("", *IDS)])

    def test_projects_and_ids_that_join_alike_are_kept_apart(self, store: FactStore, scope: Scope) -> None:
        run = scope.project
        self._assert_apart(store, [Scope(Level.USER, name, f"{run}{project}") for project, name in PAIRS])

    def test_levels_are_kept_apart(self, store: FactStore, scope: Scope) -> None:
        self._assert_apart(store, [replace(scope, level=level) for level in Level])

    def _assert_apart(self, store: FactStore, scopes: list[Scope]) -> None:
        """Each scope holds its own facts, and deleting one leaves all others'."""
        added = {scope: store.add(Record(scope, "the same text")) for scope in scopes}
        assert len({record.id for record in added.values()}) == len(scopes)
        for scope in scopes:
            assert store.newest(scope) == store.history(scope) == [added[scope]], f"{scope} shows another scope's facts"
        for number, scope in enumerate(scopes):
            assert store.delete(scope) == 1, f"{scope} lost its fact with another scope's"
            assert store.newest(scope) == []
            for other in scopes[number + 1 : number + 3]:
                assert store.newest(other) == [added[other]], f"deleting {scope} reached {other}"

    def test_an_id_is_no_pattern(self, store: FactStore, scope: Scope) -> None:
        kept = store.add(Record(scope, "likes tea"))
        for pattern in ("*", "%", "_____", "?????", "a*", "a%", "alic_", ".*", "[a]lice", "alice*", "al?ce"):
            _assert_empty(store, replace(scope, id=pattern), kept.id)
            assert store.delete(replace(scope, id=pattern)) == 0
        assert store.newest(scope) == [kept]

    def test_an_empty_id_holds_nothing(self, store: FactStore, scope: Scope) -> None:
        kept = store.add(Record(scope, "likes tea"))
        for level in Level:
            nobody = Scope(level, "", scope.project)
            _assert_empty(store, nobody, kept.id)
            for write in (
                lambda nobody=nobody: store.add(Record(nobody, "x")),
                lambda nobody=nobody: store.supersede(nobody, kept.id, Record(nobody, "x")),
                lambda nobody=nobody: store.delete(nobody),
                lambda nobody=nobody: store.delete(nobody, kept.id),
                lambda nobody=nobody: store.prune(nobody, "", 0),
            ):
                with pytest.raises(UsageError):
                    write()
        assert store.history(scope) == [kept]

    def test_a_record_is_found_in_its_own_scope_only(self, store: FactStore, scope: Scope) -> None:
        kept = store.add(Record(scope, "likes tea"))
        for other in _others(scope):
            assert store.get(other, kept.id) is None
            assert store.delete(other, kept.id) == 0
            with pytest.raises(UsageError):
                store.supersede(other, kept.id, Record(other, "x"))
        assert store.history(scope) == [kept]

    def test_an_id_that_no_record_has_finds_nothing(self, store: FactStore, scope: Scope) -> None:
        kept = store.add(Record(scope, "likes tea"))
        for number in (0, -1, -kept.id, kept.id + 10**6, 2**31, 2**63 - 1, 2**63, 2**64 + kept.id, 10**40):
            assert store.get(scope, number) is None
            assert store.delete(scope, number) == 0
            with pytest.raises(UsageError):
                store.supersede(scope, number, Record(scope, "x"))
        assert store.history(scope) == [kept]

    def test_everyone_is_one_level_of_one_project(self, store: FactStore, scope: Scope) -> None:
        users = [store.add(Record(replace(scope, id=name), "x", created_at=9.0 - at)) for at, name in enumerate("ab*")]
        old = store.add(Record(scope, "old", created_at=20.0))
        users.insert(0, store.supersede(scope, old.id, Record(scope, "new", created_at=21.0)))
        store.add(Record(replace(scope, project=f"{scope.project}2"), "x"))
        agent = store.add(Record(replace(scope, level=Level.AGENT), "x"))
        assert store.everyone(Level.USER, scope.project) == users
        assert store.everyone("agent", scope.project) == [agent]
        assert store.everyone(Level.SESSION, scope.project) == []
        for none in ("", "*", "User", "users"):
            with pytest.raises(UsageError):
                store.everyone(none, scope.project)
