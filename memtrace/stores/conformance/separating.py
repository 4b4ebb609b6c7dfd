"""Nobody's facts are another's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from memtrace.errors import UsageError
from memtrace.model import Level, Record, Scope
from memtrace.stores.conformance.samples import IDS, PAIRS, UNSTORABLE
from memtrace.stores.contract import FactStore


class Separating:
    """Scopes are apart, whatever their ids look like."""

    def test_odd_ids_are_kept_apart(self, store: FactStore, scope: Scope) -> None:
        _assert_apart(store, [replace(scope, id=odd) for odd in IDS])

    def test_odd_projects_are_kept_apart(self, store: FactStore, scope: Scope) -> None:
        _assert_apart(store, [replace(scope, project=f"{scope.project}{odd}") for odd in ("", *IDS)])

    def test_projects_and_ids_that_join_alike_are_kept_apart(self, store: FactStore, scope: Scope) -> None:
        run = scope.project
        _assert_apart(store, [Scope(Level.USER, name, f"{run}{project}") for project, name in PAIRS])
        _assert_apart(store, [Scope(Level.USER, f"{name}{run}", project) for project, name in PAIRS])

    def test_levels_are_kept_apart(self, store: FactStore, scope: Scope) -> None:
        _assert_apart(store, [replace(scope, level=level) for level in Level])

    @pytest.mark.parametrize("pattern", ["*", "%", "_____", "?????", "a*", "a%", "alic_", ".*", "[a]lice", "al*ce"])
    def test_an_id_is_no_pattern(self, store: FactStore, scope: Scope, pattern: str) -> None:
        kept = store.add(Record(scope, "likes tea"))
        _assert_shows_nothing(store, replace(scope, id=pattern), kept.id)
        assert store.delete(replace(scope, id=pattern)) == 0
        assert store.prune(replace(scope, id=pattern), "", 0) == []
        assert store.history(scope) == [kept]

    @pytest.mark.parametrize("level", Level)
    def test_an_empty_id_reads_nothing_and_writes_nothing(self, store: FactStore, scope: Scope, level: Level) -> None:
        kept = store.add(Record(replace(scope, level=level), "likes tea"))
        _assert_holds_nothing(store, replace(scope, level=level, id=""), kept.id)
        assert store.history(kept.scope) == [kept]

    @pytest.mark.parametrize("odd", UNSTORABLE.values(), ids=UNSTORABLE.keys())
    def test_an_id_that_not_every_store_keeps_is_as_an_empty_one(
        self, store: FactStore, scope: Scope, odd: str
    ) -> None:
        kept = store.add(Record(scope, "likes tea"))
        _assert_holds_nothing(store, replace(scope, id=odd), kept.id)
        _assert_holds_nothing(store, replace(scope, project=odd), kept.id)
        assert store.history(scope) == [kept]

    def test_a_record_is_found_in_its_own_scope_only(self, store: FactStore, scope: Scope) -> None:
        kept = store.add(Record(scope, "likes tea"))
        for other in (
            replace(scope, id="bob"),
            replace(scope, project=f"{scope.project}2"),
            replace(scope, level=Level.AGENT),
        ):
            _assert_shows_nothing(store, other, kept.id)
            assert store.delete(other, kept.id) == 0
            with pytest.raises(UsageError):
                store.supersede(other, kept.id, Record(other, "x"))
            assert store.history(other) == []
        assert store.history(scope) == [kept]

    def test_an_id_that_no_record_has_finds_nothing(self, store: FactStore, scope: Scope) -> None:
        kept = store.add(Record(scope, "likes tea"))
        for number in (0, -1, -kept.id, kept.id + 10**6, 2**31, 2**63 - 1, 2**63, 2**64 + kept.id, 10**40):
            assert store.get(scope, number) is None
            assert store.delete(scope, number) == 0
            with pytest.raises(UsageError):
                store.supersede(scope, number, Record(scope, "x"))
        assert store.history(scope) == [kept]


def _assert_apart(store: FactStore, scopes: list[Scope]) -> None:
    """Each scope has a fact of its own, and deleting one scope leaves the others."""
    added = {scope: store.add(Record(scope, "the same text")) for scope in scopes}
    assert len({record.id for record in added.values()}) == len(scopes)
    for scope, record in added.items():
        assert store.newest(scope) == store.history(scope) == [record], f"{scope!a} does not show its own facts alone"
    for scope in scopes:
        assert store.delete(scope) == 1, f"{scope!a} has lost its fact with another scope's"
        assert store.newest(scope) == [], f"{scope!a} was not deleted"


def _assert_shows_nothing(store: FactStore, scope: Scope, record_id: int) -> None:
    """No read finds anything in this scope, the record of another one either."""
    assert store.newest(scope) == store.newest(scope, None, source="") == store.history(scope) == []
    assert store.get(scope, record_id) is None


def _assert_holds_nothing(store: FactStore, scope: Scope, record_id: int) -> None:
    """Nothing can be filed under this scope: reads find nothing, writes are refused."""
    _assert_shows_nothing(store, scope, record_id)
    writes: tuple[Callable[[], object], ...] = (
        partial(store.add, Record(scope, "x")),
        partial(store.supersede, scope, record_id, Record(scope, "x")),
        partial(store.delete, scope),
        partial(store.delete, scope, record_id),
        partial(store.prune, scope, "", 0),
    )
    for write in writes:
        with pytest.raises(UsageError):
            write()
    _assert_shows_nothing(store, scope, record_id)
