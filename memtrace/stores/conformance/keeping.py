"""What is added is read back."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import pytest

from memtrace.errors import UsageError
from memtrace.model import Record, Scope
from memtrace.stores.conformance.samples import IDS, TEXTS, UNSTORABLE
from memtrace.stores.contract import FactStore


class Keeping:
    """Adding and reading back."""

    def test_what_is_added_is_read_back_whole(self, store: FactStore, scope: Scope) -> None:
        written = Record(
            scope, "likes tea", 0, 0.25, "learned", "0af7651916cd43dd8448eb211c80319c", "b7ad6b71692033", 7.5
        )
        added = store.add(written)
        assert added.id > 0
        assert added == replace(written, id=added.id)
        assert store.get(scope, added.id) == added
        assert store.newest(scope) == store.history(scope) == [added]
        assert {type(record) for record in (added, *store.newest(scope))} == {Record}

    def test_a_fact_without_a_time_is_of_now(self, store: FactStore, scope: Scope) -> None:
        before = time.time()
        added = store.add(Record(scope, "likes tea"))
        assert before <= added.created_at <= time.time()

    def test_the_store_alone_says_what_id_a_record_has_and_what_supersedes_it(
        self, store: FactStore, scope: Scope
    ) -> None:
        first = store.add(Record(scope, "likes tea"))
        second = store.add(Record(scope, "likes jazz", id=first.id, superseded_by=first.id))
        assert second.id != first.id
        assert second.superseded_by is None
        assert {record.id for record in store.newest(scope)} == {first.id, second.id}

    def test_adding_twice_is_adding_once(self, store: FactStore, scope: Scope) -> None:
        first = store.add(Record(scope, "likes tea", confidence=0.5, source="learned", created_at=1.0))
        again = store.add(Record(scope, "likes tea", confidence=0.9, source="mined", created_at=2.0))
        assert again == first
        assert store.history(scope) == [first]

    def test_a_learned_fact_that_is_then_added_by_hand_is_by_hand(self, store: FactStore, scope: Scope) -> None:
        learned = store.add(Record(scope, "likes tea", source="learned", confidence=0.6, source_trace_id="a" * 32))
        by_hand = store.add(
            Record(scope, "likes tea", source_trace_id="b" * 32, source_span_id="c" * 16, created_at=5.0)
        )
        assert by_hand == replace(learned, source="", confidence=1.0, source_trace_id="b" * 32, source_span_id="c" * 16)
        assert store.newest(scope, source="") == store.history(scope) == [by_hand]
        assert store.newest(scope, source="learned") == []

    def test_a_fact_by_hand_that_is_then_learned_stays_by_hand(self, store: FactStore, scope: Scope) -> None:
        by_hand = store.add(Record(scope, "likes tea"))
        assert store.add(Record(scope, "likes tea", source="learned", confidence=0.6)) == by_hand
        assert store.newest(scope) == [by_hand]

    @pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
    def test_any_text_is_kept_as_it_is(self, store: FactStore, scope: Scope, text: str) -> None:
        added = store.add(Record(scope, text))
        again = store.add(Record(scope, text))
        kept = [record.text for record in store.newest(scope)]
        # Not compared by ==, so that a failure does not print a megabyte.
        same = added.text == text and again.id == added.id and len(kept) == 1 and kept[0] == text
        assert same, f"{text[:30]!a}… came back as {[each[:30] for each in kept]!a}"

    def test_texts_that_look_alike_are_two_facts(self, store: FactStore, scope: Scope) -> None:
        for text in IDS:
            store.add(Record(scope, text))
        assert {record.text for record in store.newest(scope, None)} == set(IDS)

    @pytest.mark.parametrize("odd", UNSTORABLE.values(), ids=UNSTORABLE.keys())
    def test_text_that_not_every_store_keeps_is_refused(self, store: FactStore, scope: Scope, odd: str) -> None:
        kept = store.add(Record(scope, "likes tea"))
        for record in (
            Record(scope, odd),
            Record(scope, "x", source=odd),
            Record(scope, "x", source_trace_id=odd),
            Record(scope, "x", source_span_id=odd),
            Record(replace(scope, id=odd), "x"),
            Record(replace(scope, project=odd), "x"),
        ):
            with pytest.raises(UsageError):
                store.add(record)
            with pytest.raises(UsageError):
                store.supersede(record.scope, kept.id, record)
        assert store.newest(scope, source=odd) == []
        assert store.history(scope) == [kept]

    @pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
    def test_numbers_without_an_order_are_refused(self, store: FactStore, scope: Scope, number: float) -> None:
        for record in (Record(scope, "x", confidence=number), Record(scope, "x", created_at=number)):
            with pytest.raises(UsageError):
                store.add(record)
        assert store.history(scope) == []

    def test_using_a_store_after_close_opens_it_again(self, store: FactStore, scope: Scope) -> None:
        store.add(Record(scope, "likes tea"))
        store.close()
        store.close()
        added = store.add(Record(scope, "likes jazz"))
        assert added in store.newest(scope)
