"""What a store promises that keeps vectors beside its facts: search by meaning then needs no index of its own.

A store may do without. Then vectors are made anew in each process that searches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from memtrace.errors import StoreError
from memtrace.model import Record, Scope


@dataclass(frozen=True, slots=True)
class Match:
    """A fact and how near it is to the query: the cosine of the angle, 1 is the same."""

    record: Record
    score: float


@dataclass(frozen=True, slots=True)
class Nearest:
    """One look at a scope's active facts.

    Attributes:
        matches: nearest first; of equally near ones the newest first.
        unknown: all that have no vector of this embedder yet, newest first. They are in no match.
    """

    matches: list[Match]
    unknown: list[Record]


class VectorsLost(StoreError):
    """The place for vectors is gone, and the store looks anew whether there is one when it is next asked for it."""


class FactVectors(Protocol):
    """Vectors of facts, each under its record's id and its embedder's number, gone as soon as the record is.

    Each embedder has its own, since one's say nothing about another's. A vector is one to 16,000 finite numbers, not
    all 0, and all of one embedder's have as many as its probe; only their direction counts. A vector that is none, or
    is longer or shorter than its embedder's probe, raises `UsageError`; a driver's failure `StoreError`, and
    `VectorsLost` where there is no place for them any more.
    """

    def embedder(self, probe: Sequence[float]) -> int:
        """The number of the embedder that makes this vector of one fixed text; an unknown one gets a new number."""

    def put(self, scope: Scope, vectors: Mapping[int, Sequence[float]], *, embedder: int) -> None:
        """Keep vectors by record id, but for records that are not active in the scope, or were deleted meanwhile."""

    def nearest(self, scope: Scope, vector: Sequence[float], *, embedder: int, limit: int | None) -> Nearest:
        """The ``limit`` active facts nearest to a vector, ``None`` for all; exact, and one look at the store.

        A negative ``limit`` raises `UsageError`.
        """
