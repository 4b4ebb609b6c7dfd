"""What a store promises that keeps vectors beside its facts: search by meaning then needs no index of its own.

A store may do without. Then vectors are made anew in each process that searches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

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


class FactVectors(Protocol):
    """Vectors of facts, each under its record's id and its embedder's number, gone as soon as the record is.

    Each embedder has its own, since one's say nothing about another's. A driver's failure is raised as `StoreError`.
    """

    def embedder(self, probe: Sequence[float]) -> int:
        """The number of the embedder that makes this vector of one fixed text; an unknown one gets a new number."""

    def put(self, scope: Scope, embedder: int, vectors: Mapping[int, Sequence[float]]) -> None:
        """Keep vectors by record id, but for records that are not active in the scope, or were deleted meanwhile."""

    def nearest(self, scope: Scope, embedder: int, vector: Sequence[float], limit: int | None) -> Nearest:
        """The ``limit`` active facts nearest to a vector, ``None`` for all; exact, and one look at the store."""


@runtime_checkable
class KeepsVectors(Protocol):
    """A store that may have a place for vectors."""

    def vectors(self) -> FactVectors | None:
        """That place, made where there is none; ``None``, and the log says why, where it cannot be had."""
