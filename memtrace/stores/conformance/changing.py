"""An update keeps the old fact, marked superseded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from memtrace.errors import UsageError
from memtrace.model import Record, Scope
from memtrace.stores.contract import FactStore


class Changing:
    """Putting one record in the place of another."""

    def test_an_update_keeps_the_old_fact_marked_superseded(self, store: FactStore, scope: Scope) -> None:
        old = store.add(Record(scope, "is on Free", source="learned", created_at=1.0))
        new = store.supersede(scope, old.id, Record(scope, "is on Pro", confidence=0.5, created_at=2.0))
        assert (new.text, new.confidence, new.created_at, new.superseded_by) == ("is on Pro", 0.5, 2.0, None)
        assert store.newest(scope) == [new]
        assert store.newest(scope, source="learned") == []
        assert store.history(scope) == [new, replace(old, superseded_by=new.id)]
        assert store.get(scope, old.id) == replace(old, superseded_by=new.id)

    def test_there_and_back_leaves_the_first_text_active(self, store: FactStore, scope: Scope) -> None:
        first = store.add(Record(scope, "is on Free"))
        second = store.supersede(scope, first.id, Record(scope, "is on Pro"))
        third = store.supersede(scope, second.id, Record(scope, "is on Free"))
        assert store.newest(scope) == [third]
        assert (third.text, third.superseded_by) == ("is on Free", None)
        fourth = store.supersede(scope, third.id, Record(scope, "is on Pro"))
        assert [record.text for record in store.newest(scope)] == ["is on Pro"]
        assert fourth in store.newest(scope)

    def test_updating_a_fact_with_its_own_text_changes_nothing(self, store: FactStore, scope: Scope) -> None:
        old = store.add(Record(scope, "is on Free", source="learned", confidence=0.6))
        assert store.supersede(scope, old.id, Record(scope, "is on Free", created_at=9.0)) == old
        assert store.history(scope) == [old]

    def test_a_fact_that_is_there_already_takes_the_old_ones_place(self, store: FactStore, scope: Scope) -> None:
        old = store.add(Record(scope, "is on Free", created_at=1.0))
        there = store.add(Record(scope, "is on Pro", source="learned", created_at=2.0))
        assert store.supersede(scope, old.id, Record(scope, "is on Pro", source="mined")) == there
        assert store.history(scope) == [there, replace(old, superseded_by=there.id)]

    def test_a_learned_fact_that_an_update_by_hand_brings_in_is_by_hand(self, store: FactStore, scope: Scope) -> None:
        old = store.add(Record(scope, "is on Free"))
        there = store.add(Record(scope, "is on Pro", source="learned", confidence=0.6))
        kept = store.supersede(scope, old.id, Record(scope, "is on Pro"))
        assert kept == replace(there, source="", confidence=1.0)
        assert store.newest(scope) == [kept]

    def test_a_superseded_text_can_be_added_again(self, store: FactStore, scope: Scope) -> None:
        old = store.add(Record(scope, "is on Free"))
        new = store.supersede(scope, old.id, Record(scope, "is on Pro"))
        again = store.add(Record(scope, "is on Free"))
        assert again.id not in {old.id, new.id}
        assert {record.id for record in store.newest(scope)} == {again.id, new.id}

    def test_only_an_active_record_is_superseded(self, store: FactStore, scope: Scope) -> None:
        old = store.add(Record(scope, "is on Free", created_at=1.0))
        new = store.supersede(scope, old.id, Record(scope, "is on Pro", created_at=2.0))
        with pytest.raises(UsageError):
            store.supersede(scope, old.id, Record(scope, "is on Team"))
        assert store.history(scope) == [new, replace(old, superseded_by=new.id)]

    def test_a_record_is_superseded_by_one_of_its_own_scope(self, store: FactStore, scope: Scope) -> None:
        old = store.add(Record(scope, "is on Free"))
        other = replace(scope, id="bob")
        with pytest.raises(UsageError):
            store.supersede(scope, old.id, Record(other, "is on Pro"))
        assert (store.history(scope), store.history(other)) == ([old], [])
