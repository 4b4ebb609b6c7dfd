"""Vectors beside the facts, in a store that keeps them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from memtrace.errors import UsageError
from memtrace.model import Record, Scope
from memtrace.stores.contract import FactStore
from memtrace.stores.vectors import FactVectors, Match, Nearest

TEA, JAZZ, BOTH = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (3.0, 4.0, 0.0)
PROBE = (0.0, 0.0, 1.0)


class Searching:
    """The nearest facts, by their vectors."""

    def test_the_nearest_are_found_and_what_has_no_vector_is_told(
        self, store: FactStore, vectors: FactVectors, scope: Scope
    ) -> None:
        tea, jazz, *new = (store.add(Record(scope, text)) for text in ("tea", "jazz", "chess", "cats"))
        _keep(vectors, scope, {tea: TEA, jazz: JAZZ})
        found = _nearest(vectors, scope, BOTH, None)
        assert found == Nearest([Match(jazz, 0.8), Match(tea, 0.6)], new[::-1])
        assert _nearest(vectors, scope, BOTH, 1) == Nearest([Match(jazz, 0.8)], new[::-1])
        assert _nearest(vectors, scope, BOTH, 0) == Nearest([], new[::-1])

    def test_vectors_are_found_in_their_own_scope_only(
        self, store: FactStore, vectors: FactVectors, scope: Scope
    ) -> None:
        tea, other = store.add(Record(scope, "tea")), replace(scope, id="bob")
        _keep(vectors, other, {tea: TEA})
        assert _nearest(vectors, scope, TEA, None) == Nearest([], [tea])
        _keep(vectors, scope, {tea: TEA})
        assert _nearest(vectors, other, TEA, None) == _nearest(vectors, replace(scope, id=""), TEA, None)
        assert _nearest(vectors, other, TEA, None) == Nearest([], [])
        assert _nearest(vectors, scope, TEA, None) == Nearest([Match(tea, 1.0)], [])

    def test_a_vector_is_of_an_active_fact(self, store: FactStore, vectors: FactVectors, scope: Scope) -> None:
        old, gone = (store.add(Record(scope, text)) for text in ("tea", "jazz"))
        _keep(vectors, scope, {old: TEA, gone: JAZZ})
        store.delete(scope, gone.id)
        new = store.supersede(scope, old.id, Record(scope, "coffee"))
        _keep(vectors, scope, {old: TEA, gone: JAZZ})
        assert _nearest(vectors, scope, TEA, None) == Nearest([], [new])

    def test_an_embedder_is_known_again_by_its_probe(self, vectors: FactVectors) -> None:
        number = vectors.embedder(PROBE)
        assert vectors.embedder(PROBE) == number
        assert len({number, vectors.embedder(PROBE[::-1]), vectors.embedder((*PROBE, 1.0))}) == 3

    def test_each_embedder_has_vectors_of_its_own(self, store: FactStore, vectors: FactVectors, scope: Scope) -> None:
        tea = store.add(Record(scope, "tea"))
        _keep(vectors, scope, {tea: TEA})
        other = vectors.embedder(PROBE[::-1])
        assert vectors.nearest(scope, TEA, embedder=other, limit=None) == Nearest([], [tea])

    @pytest.mark.parametrize("wrong", [(), (1.0,), (1.0, 0.0), (1.0, 0.0, 0.0, 0.0), (1.0, float("nan"), 0.0)])
    def test_what_is_no_vector_of_the_embedder_is_refused(
        self, store: FactStore, vectors: FactVectors, scope: Scope, wrong: Sequence[float]
    ) -> None:
        tea, jazz = (store.add(Record(scope, text)) for text in ("tea", "jazz"))
        _keep(vectors, scope, {tea: TEA})
        with pytest.raises(UsageError):
            _keep(vectors, scope, {jazz: wrong})
        with pytest.raises(UsageError):
            _nearest(vectors, scope, wrong, None)
        assert _nearest(vectors, scope, TEA, None) == Nearest([Match(tea, 1.0)], [jazz])

    def test_a_negative_number_of_nearest_is_refused(self, vectors: FactVectors, scope: Scope) -> None:
        with pytest.raises(UsageError):
            _nearest(vectors, scope, TEA, -1)


def _keep(vectors: FactVectors, scope: Scope, made: dict[Record, Sequence[float]]) -> None:
    by_id = {record.id: vector for record, vector in made.items()}
    vectors.put(scope, by_id, embedder=vectors.embedder(PROBE))


def _nearest(vectors: FactVectors, scope: Scope, vector: Sequence[float], limit: int | None) -> Nearest:
    """What is found, with scores as exact as stores agree on."""
    found = vectors.nearest(scope, vector, embedder=vectors.embedder(PROBE), limit=limit)
    return Nearest([Match(match.record, round(match.score, 4)) for match in found.matches], found.unknown)
