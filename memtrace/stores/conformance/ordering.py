"""Newest means newest."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from memtrace.errors import UsageError
from memtrace.model import Level, Record, Scope
from memtrace.stores.contract import FactStore


class Ordering:
    """Which records a read returns, and in what order."""

    @pytest.fixture
    def zone(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
        """Sets ``TZ``; what it was comes back with the test's end."""
        with monkeypatch.context() as patch:
            yield patch
        time.tzset()

    def test_the_newest_come_first_whatever_order_they_were_added_in(self, store: FactStore, scope: Scope) -> None:
        times = (3.0, 1.0, 2.0, 1.5, -1.5, 1e12, 1796002068.0509586, 1796002068.0509584, 5e-324)
        for at in times:
            store.add(Record(scope, f"at {at!r}", created_at=at))
        assert [record.created_at for record in store.newest(scope)] == sorted(times, reverse=True)
        assert store.history(scope) == store.newest(scope)

    def test_of_equal_times_the_one_added_last_comes_first(self, store: FactStore, scope: Scope) -> None:
        added = [store.add(Record(scope, f"fact {number}", created_at=7.0)) for number in range(12)]
        assert [record.id for record in added] == sorted(record.id for record in added)
        assert store.newest(scope) == store.history(scope) == added[::-1]
        assert store.newest(scope, 5) == added[:6:-1]

    def test_the_limit_keeps_the_newest(self, store: FactStore, scope: Scope) -> None:
        added = [store.add(Record(scope, f"fact {number}", created_at=1.0 + number)) for number in range(60)][::-1]
        assert store.newest(scope) == added[:50]
        for limit in (0, 1, 2, 59, 60, 61, 2**31, 2**63, 10**30):
            assert store.newest(scope, limit) == added[:limit]
        assert store.newest(scope, None) == added

    @pytest.mark.parametrize("limit", [-1, -50, -(2**70)])
    def test_a_negative_limit_is_refused(self, store: FactStore, scope: Scope, limit: int) -> None:
        store.add(Record(scope, "x"))
        with pytest.raises(UsageError):
            store.newest(scope, limit)

    def test_one_source_is_read_alone(self, store: FactStore, scope: Scope) -> None:
        sources = ["learned", "", "learned", "mined", "", "Learned"]
        added = [
            store.add(Record(scope, f"fact {number}", source=source, created_at=1.0 + number))
            for number, source in enumerate(sources)
        ][::-1]
        for source in {*sources, "*", "learn", "%"}:
            matching = [record for record in added if record.source == source]
            assert store.newest(scope, source=source) == matching
            assert store.newest(scope, 1, source=source) == matching[:1]
        assert store.newest(scope) == added

    def test_everyone_is_one_level_of_one_project(self, store: FactStore, scope: Scope) -> None:
        other = store.add(Record(replace(scope, id="*"), "likes tea", created_at=2.0))
        old = store.add(Record(scope, "likes tea", created_at=3.0))
        new = store.supersede(scope, old.id, Record(scope, "likes jazz", created_at=1.0))
        store.add(Record(replace(scope, project=f"{scope.project}2"), "elsewhere"))
        agents = store.add(Record(replace(scope, level=Level.AGENT), "answers in German"))
        assert store.everyone(Level.USER, scope.project) == [other, new]
        assert store.everyone("agent", scope.project) == [agents]
        assert store.everyone(Level.SESSION, scope.project) == []
        assert store.everyone(Level.USER, "a\0b") == []

    @pytest.mark.parametrize("level", ["", "*", "USER", "users"])
    def test_everyone_needs_a_level_that_there_is(self, store: FactStore, scope: Scope, level: str) -> None:
        with pytest.raises(UsageError):
            store.everyone(level, scope.project)

    def test_another_time_zone_changes_nothing(self, store: FactStore, scope: Scope, zone: pytest.MonkeyPatch) -> None:
        added = []
        for number, name in enumerate(("UTC-14", "UTC+11", "Europe/Berlin")):
            zone.setenv("TZ", name)
            time.tzset()
            added.append(store.add(Record(scope, f"fact {number}", created_at=1_792_893_600.0 + number)))
            assert store.newest(scope) == added[::-1]
