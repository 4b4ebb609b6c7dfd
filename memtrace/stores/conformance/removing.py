"""What is deleted is gone, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memtrace.errors import UsageError
from memtrace.model import Record, Scope
from memtrace.stores.contract import FactStore


class Removing:
    """Deleting and pruning."""

    def test_a_deleted_record_takes_all_it_superseded_along(self, store: FactStore, scope: Scope) -> None:
        chain = _chain(store, scope, "is on Free", "is on Pro", "is on Team")
        joined = store.add(Record(scope, "pays yearly"))
        store.supersede(scope, joined.id, Record(scope, "is on Team"))
        bystander = store.add(Record(scope, "likes tea"))
        assert store.delete(scope, chain[-1].id) == 4
        assert store.history(scope) == [bystander]
        assert store.get(scope, chain[0].id) is None
        assert store.delete(scope, chain[-1].id) == 0

    def test_what_superseded_a_deleted_record_stays(self, store: FactStore, scope: Scope) -> None:
        first, second, third = _chain(store, scope, "is on Free", "is on Pro", "is on Team")
        assert store.delete(scope, second.id) == 2
        assert store.history(scope) == [third]
        assert store.get(scope, first.id) is None

    def test_a_whole_scope_is_deleted_with_what_was_superseded(self, store: FactStore, scope: Scope) -> None:
        _chain(store, scope, "is on Free", "is on Pro")
        store.add(Record(scope, "likes tea"))
        other = store.add(Record(replace(scope, id="bob"), "likes tea"))
        assert store.delete(scope) == 3
        assert store.history(scope) == []
        assert store.everyone(scope.level, scope.project) == [other]
        assert store.delete(scope) == 0

    def test_deleting_a_text_leaves_the_same_text_of_others(self, store: FactStore, scope: Scope) -> None:
        mine = store.add(Record(scope, "likes tea"))
        other = store.add(Record(replace(scope, id="bob"), "likes tea"))
        assert store.delete(scope, mine.id) == 1
        assert store.newest(other.scope) == [other]

    def test_a_deleted_fact_that_is_stated_again_is_stored_again(self, store: FactStore, scope: Scope) -> None:
        first = store.add(Record(scope, "likes tea"))
        store.delete(scope, first.id)
        again = store.add(Record(scope, "likes tea"))
        assert again.id != first.id, "an id was given twice"
        assert store.newest(scope) == [again]

    def test_pruning_keeps_the_newest_of_one_source(self, store: FactStore, scope: Scope) -> None:
        by_hand = store.add(Record(scope, "likes tea", created_at=0.5))
        mined = store.add(Record(scope, "likes jazz", source="mined", created_at=0.25))
        other = store.add(Record(replace(scope, id="bob"), "likes rain", source="learned", created_at=0.125))
        added = [
            store.add(Record(scope, f"fact {number}", source="learned", created_at=9.0 - number)) for number in range(5)
        ]
        assert list(store.prune(scope, "learned", 5)) == []
        assert list(store.prune(scope, "learned", 2)) == added[2:]
        assert store.newest(scope) == [*added[:2], by_hand, mined]
        assert list(store.prune(scope, "learned", 0)) == added[:2]
        assert store.newest(scope) == [by_hand, mined]
        assert store.newest(other.scope) == [other]

    def test_of_equal_times_pruning_keeps_those_added_last(self, store: FactStore, scope: Scope) -> None:
        added = [store.add(Record(scope, f"fact {number}", source="learned", created_at=7.0)) for number in range(5)]
        store.prune(scope, "learned", 2)
        assert store.newest(scope) == [added[4], added[3]]

    def test_a_pruned_record_takes_all_it_superseded_along(self, store: FactStore, scope: Scope) -> None:
        old = store.add(Record(scope, "is on Free", source="learned", created_at=5.0))
        new = store.supersede(scope, old.id, Record(scope, "is on Pro", source="learned", created_at=1.0))
        kept = store.add(Record(scope, "likes tea", source="learned", created_at=2.0))
        gone = store.prune(scope, "learned", 1)
        assert {record.id for record in gone} == {old.id, new.id}
        assert store.history(scope) == [kept]

    def test_pruning_spares_what_was_learned_first_and_then_added_by_hand(self, store: FactStore, scope: Scope) -> None:
        store.add(Record(scope, "likes tea", source="learned", created_at=1.0))
        by_hand = store.add(Record(scope, "likes tea"))
        assert list(store.prune(scope, "learned", 0)) == []
        assert store.newest(scope) == [by_hand]

    def test_pruning_to_less_than_nothing_is_refused(self, store: FactStore, scope: Scope) -> None:
        kept = store.add(Record(scope, "likes tea", source="learned"))
        with pytest.raises(UsageError):
            store.prune(scope, "learned", -1)
        assert list(store.prune(scope, "learned", 10**30)) == []
        assert store.newest(scope) == [kept]


def _chain(store: FactStore, scope: Scope, first: str, *updates: str) -> list[Record]:
    """A fact and its updates, each in the place of the one before."""
    records = [store.add(Record(scope, first))]
    for text in updates:
        records.append(store.supersede(scope, records[-1].id, Record(scope, text)))
    return records
