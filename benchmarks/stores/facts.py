"""The facts that the stores are filled with: numbered text of a given length that no compression makes small."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from typing import Final

from memtrace.model import Level, Record, Scope

SCOPE: Final = Scope(Level.USER, "alice")
NEWEST: Final = 50
_BEGAN: Final = 1.7e9
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


def text(number: int, size: int) -> str:
    """The fact of this number: ``size`` characters, all ASCII."""
    start = f"Fact {number} about Alice: "
    words = _words()
    first = number * 7919 % (len(words) - size)
    return start + words[first : first + size - len(start)]


def records(first: int, last: int, size: int) -> Iterator[Record]:
    """The records of the facts from one number up to before another, each newer than the last."""
    for number in range(first, last):
        yield Record(
            SCOPE,
            text(number, size),
            confidence=0.6,
            source="learned",
            source_trace_id=f"{number:032x}",
            source_span_id=f"{number:016x}",
            created_at=_BEGAN + number,
        )


@cache
def _words() -> str:
    chance = random.Random(7)  # noqa: S311  the same text in every run, and no secret
    vocabulary = ["".join(chance.choices(_LETTERS, k=chance.randint(2, 9))) for _ in range(5_000)]
    return " ".join(chance.choices(vocabulary, k=60_000))
