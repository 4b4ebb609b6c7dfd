"""Vectors by number, nearest first: one small usearch index for each length of vectors."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

import numpy as np

from memtrace.reference.embedding import Vector

_EXACT_UP_TO: Final = 20_000
"""Vectors up to which a search looks at each; beyond, it walks the graph and is approximate."""


class VectorIndex:
    """Unit vectors, each under a number; those of one length are compared with each other alone.

    Not safe to share between threads without a lock of the owner's.
    """

    def __init__(self) -> None:
        self._indexes: dict[int, Any] = {}  # by the length of their vectors
        self._lengths: dict[int, int] = {}  # by number

    def __len__(self) -> int:
        return sum(len(index) for index in self._indexes.values())

    def has(self, number: int, length: int) -> bool:
        """Whether there is a vector of this length under this number."""
        return self._lengths.get(number) == length

    def put(self, vectors: Mapping[int, Vector]) -> None:
        """Keep vectors, in the place of those of another length; a number that has one of this length keeps that."""
        new = {number: vector for number, vector in vectors.items() if not self.has(number, vector.size)}
        self.drop(new.keys())
        for number, vector in new.items():
            if vector.size not in self._indexes:
                self._indexes[vector.size] = _index(vector.size)
            self._indexes[vector.size].add(number, vector)
            self._lengths[number] = vector.size

    def drop(self, numbers: Collection[int]) -> None:
        """Forget the vectors under these numbers.

        Their index is built anew from the others: usearch's own removal only marks a slot free, and the vector stays.
        """
        lengths = {self._lengths.pop(number) for number in set(numbers) & self._lengths.keys()}
        for length in lengths:
            old = self._indexes.pop(length)
            kept = [int(key) for key in old.keys if self.has(int(key), length)]
            if kept:
                self._indexes[length] = _index(length)
                keys = np.array(kept, dtype=np.uint64)
                self._indexes[length].add(keys, np.stack(old.get(keys)))

    def nearest(self, vector: Vector, limit: int) -> list[tuple[int, float]]:
        """Up to ``limit`` numbers with the cosine of their angle to ``vector``, nearest first."""
        index = self._indexes.get(vector.size)
        if index is None or limit <= 0:
            return []
        matches = index.search(vector, min(limit, len(index)), exact=len(index) <= _EXACT_UP_TO)
        return [(int(match.key), 1.0 - float(match.distance)) for match in matches]


def _index(dimension: int) -> Any:
    try:
        from usearch.index import Index
    except ModuleNotFoundError as error:
        raise ImportError(
            "recall and search by meaning need usearch: pip install 'memtrace-otel[reference]'"
        ) from error
    return Index(ndim=dimension, metric="cos", dtype="f32")
