"""Vectors by number, nearest first: one small usearch index."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import numpy as np

from memtrace.errors import AdapterError
from memtrace.reference.embedding import Vector

_EXACT_UP_TO: Final = 20_000
"""Vectors up to which a search looks at each; beyond, it walks the graph and is approximate."""


class VectorIndex:
    """Unit vectors, each under a number. Not safe to share between threads without a lock of the owner's."""

    def __init__(self) -> None:
        self._index: Any = None

    def __len__(self) -> int:
        return 0 if self._index is None else len(self._index)

    def put(self, key: int, vector: Vector) -> None:
        """Keep a vector under a number that has none yet."""
        if self._index is None:
            self._index = _index(vector.size)
        if vector.size != self._index.ndim:
            raise AdapterError(f"the embedder gave {vector.size} numbers where earlier vectors have {self._index.ndim}")
        self._index.add(key, vector)

    def drop(self, keys: Collection[int]) -> None:
        """Forget the vectors under these numbers.

        The index is built anew from the others: usearch's own removal only marks a slot free, and the vector stays.
        """
        kept = [key for key in self._keys() if key not in keys]
        old, self._index = self._index, None
        if kept:
            self._index = _index(old.ndim)
            keys = np.array(kept, dtype=np.uint64)
            self._index.add(keys, np.stack(old.get(keys)))

    def nearest(self, vector: Vector, limit: int) -> list[tuple[int, float]]:
        """Up to ``limit`` numbers with the cosine of their angle to ``vector``, nearest first."""
        if not len(self) or limit <= 0 or vector.size != self._index.ndim:
            return []
        matches = self._index.search(vector, min(limit, len(self)), exact=len(self) <= _EXACT_UP_TO)
        return [(int(match.key), 1.0 - float(match.distance)) for match in matches]

    def _keys(self) -> list[int]:
        return [] if self._index is None else [int(key) for key in self._index.keys]


def _index(dimension: int) -> Any:
    try:
        from usearch.index import Index
    except ModuleNotFoundError as error:
        raise ImportError(
            "recall and search by meaning need usearch: pip install 'memtrace-otel[reference]'"
        ) from error
    return Index(ndim=dimension, metric="cos", dtype="f32")
