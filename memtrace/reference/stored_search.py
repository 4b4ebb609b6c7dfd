"""Durable facts by meaning, by vectors that the store keeps: what one process embedded, none embeds again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from memtrace.errors import StoreError
from memtrace.model import Record, Scope
from memtrace.reference.embedding import Embedder, Vector, embedded, require_length
from memtrace.stores.vectors import FactVectors, Match, Nearest

_PROBE: Final = "The quick brown fox jumps over the lazy dog."
"""What an embedder makes of it tells the embedder from others: vectors of two models may have the same length."""

_AT_ONCE: Final = 200
"""Facts embedded and kept in one step, so that a scope of any size is done in the time that a step may take."""


@dataclass(frozen=True, slots=True)
class _Query:
    """One search: in which facts, by whose vectors, for what."""

    scope: Scope
    vectors: FactVectors
    wanted: Vector
    embedder: int
    outgoing: Callable[[str], str]

    def nearest(self, limit: int | None) -> Nearest:
        return self.vectors.nearest(self.scope, self.wanted.tolist(), embedder=self.embedder, limit=limit)

    def put(self, records: Sequence[Record], made: Sequence[Vector]) -> None:
        require_length(made[0], self.wanted.size)
        by_id = {record.id: vector.tolist() for record, vector in zip(records, made, strict=True)}
        self.vectors.put(self.scope, by_id, embedder=self.embedder)


class StoredSearch:
    """Facts near a query, by the store's own vectors; a fact that has none of this embedder gets one at the query."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._numbers: dict[int, int] = {}  # by the length of the vectors, should the embedder change it

    def search(
        self, scope: Scope, query: str, *, vectors: FactVectors, limit: int | None, outgoing: Callable[[str], str]
    ) -> list[Match]:
        """See `FactSearch.search`."""
        if not query.strip():
            return []
        [wanted] = embedded(self._embedder, [outgoing(query)])
        try:
            asked = _Query(scope, vectors, wanted, self._number(vectors, wanted), outgoing)
            found = asked.nearest(limit)
            if found.unknown:
                self._embed(asked, found.unknown)
                found = asked.nearest(limit)
        except StoreError:
            self._numbers.clear()  # the tables may be made anew
            raise
        return found.matches

    def _number(self, vectors: FactVectors, wanted: Vector) -> int:
        number = self._numbers.get(wanted.size)
        if number is None:
            [probe] = embedded(self._embedder, [_PROBE])
            require_length(probe, wanted.size)
            number = self._numbers[wanted.size] = vectors.embedder(probe.tolist())
        return number

    def _embed(self, asked: _Query, records: Sequence[Record]) -> None:
        for first in range(0, len(records), _AT_ONCE):
            some = records[first : first + _AT_ONCE]
            asked.put(some, embedded(self._embedder, [asked.outgoing(record.text) for record in some]))
