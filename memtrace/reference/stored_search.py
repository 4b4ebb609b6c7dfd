"""Durable facts by meaning, by vectors that the store keeps: what one process embedded, none embeds again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from memtrace.errors import AdapterError, StoreError
from memtrace.model import Record, Scope
from memtrace.reference.embedding import Embedder, Vector, embedded
from memtrace.stores.vectors import FactVectors, Match

_PROBE: Final = "The quick brown fox jumps over the lazy dog."
"""What an embedder makes of it tells the embedder from others: vectors of two models may have the same length."""

_AT_ONCE: Final = 200
"""Facts embedded and kept in one step, so that a scope of any size is done in the time that a step may take."""


class StoredSearch:
    """Facts near a query, by the store's own vectors; a fact that has none of this embedder gets one at the query."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._numbers: dict[int, int] = {}  # by the length of the vectors, should the embedder change it

    def search(
        self, vectors: FactVectors, scope: Scope, query: str, limit: int | None, outgoing: Callable[[str], str]
    ) -> list[Match]:
        """See `FactSearch.search`."""
        if not query.strip():
            return []
        [wanted] = embedded(self._embedder, [outgoing(query)])
        try:
            number = self._number(vectors, wanted)
            found = vectors.nearest(scope, number, wanted.tolist(), limit)
            if found.unknown:
                self._embed(vectors, scope, number, found.unknown, wanted.size, outgoing)
                found = vectors.nearest(scope, number, wanted.tolist(), limit)
        except StoreError:
            self._numbers.clear()  # the tables may be made anew
            raise
        return found.matches

    def _number(self, vectors: FactVectors, wanted: Vector) -> int:
        number = self._numbers.get(wanted.size)
        if number is None:
            [probe] = embedded(self._embedder, [_PROBE])
            _require_size(probe, wanted.size)
            number = self._numbers[wanted.size] = vectors.embedder(probe.tolist())
        return number

    def _embed(
        self,
        vectors: FactVectors,
        scope: Scope,
        number: int,
        records: list[Record],
        size: int,
        outgoing: Callable[[str], str],
    ) -> None:
        for first in range(0, len(records), _AT_ONCE):
            some = records[first : first + _AT_ONCE]
            made = embedded(self._embedder, [outgoing(record.text) for record in some])
            _require_size(made[0], size)
            vectors.put(scope, number, {record.id: each.tolist() for record, each in zip(some, made, strict=True)})


def _require_size(vector: Vector, size: int) -> None:
    if vector.size != size:
        raise AdapterError(f"the embedder gave {vector.size} numbers where the query's vector has {size}")
