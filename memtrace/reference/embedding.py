"""Texts to vectors: what an embedder is, and the checks that no bad vector gets past."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from memtrace.errors import AdapterError

Embedder = Callable[[Sequence[str]], Sequence[Sequence[float]]]
"""One vector a text, in order, all of one length; raises where it cannot."""

Vector = NDArray[np.float32]
"""Of length one."""

_WORD: Final = re.compile(r"\w+")


class HashEmbedder:
    """Texts that share words are near each other; needs no model, and gives the same on every machine.

    It knows no meaning: for tests and first steps.
    """

    def __init__(self, dimension: int = 512) -> None:
        self._dimension = dimension

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        """One unit vector a text."""
        return [self._vector(text) for text in texts]

    def _vector(self, text: str) -> list[float]:
        folded = text.casefold()
        total = self._sum(set(_WORD.findall(folded)))
        # Words can cancel each other out, and some texts have none; a text as one word cannot.
        total = total if total.any() else self._sum({folded})
        unit: list[float] = (total / np.linalg.norm(total)).tolist()
        return unit

    def _sum(self, words: set[str]) -> NDArray[np.float64]:
        total = np.zeros(self._dimension)
        for word in words:
            number = int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest())
            total[number // 2 % self._dimension] += 1 if number % 2 else -1
        return total


def embedded(embedder: Embedder, texts: Sequence[str]) -> list[Vector]:
    """The texts' vectors, scaled to length one.

    Raises:
        AdapterError: what the embedder gave is not one usable vector a text; a zero vector is not usable, since
            nothing that is stored under it is ever found.
    """
    raw = embedder(list(texts))
    if len(raw) != len(texts):
        raise AdapterError(f"the embedder gave {len(raw)} vectors for {len(texts)} texts")
    vectors = [_unit(vector) for vector in raw]
    if len({vector.size for vector in vectors}) > 1:
        raise AdapterError("the embedder gave vectors of different lengths")
    return vectors


def require_length(vector: Vector, length: int) -> None:
    """Refuse a fact's vector that cannot be compared with the query's.

    Raises:
        AdapterError: it is not as long.
    """
    if vector.size != length:
        raise AdapterError(f"the embedder gave {vector.size} numbers where the query's vector has {length}")


def _unit(raw: Sequence[float]) -> Vector:
    try:
        vector = np.asarray(raw, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise AdapterError("the embedder gave something that is not a vector of numbers") from error
    length = float(np.linalg.norm(vector)) if vector.ndim == 1 and vector.size else 0.0
    if not 0.0 < length < float("inf"):  # also false where a number is NaN
        raise AdapterError("the embedder gave an empty, zero or non-finite vector")
    unit: Vector = vector / np.float32(length)
    return unit
