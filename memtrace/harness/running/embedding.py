"""Text to vectors without a model: the embedder the harness gives a system under test.

Each word stands for a fixed direction that a hash draws, and a text points where its words do. Texts are therefore
near each other in the measure in which they share words, and the same on every machine and in every process.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Final

from memtrace.harness.system import DIMENSION

_WORD: Final = re.compile(r"[^\W_]+")
_STOPWORDS: Final = frozenset(
    _WORD.findall(
        "a about am an and any are as at be but by can could d did do does for from had has have he her his how i "
        "if in is it its ll m me my of on or our please re s she so t tell that the their them then there they "
        "this to us ve was we were what when where which who whose why will with would you your"
    )
)


def embed(texts: Sequence[str]) -> list[list[float]]:
    """One unit vector of `DIMENSION` floats a text: the same text, the same vector; none is ever zero."""
    return [_vector(text) for text in texts]


def _vector(text: str) -> list[float]:
    # Of an even number of words opposite directions could cancel out; the text as one word cannot.
    return _unit(_directions(_content(text))) or _unit([_direction(text)])


def _content(text: str) -> set[str]:
    """The words that carry meaning; where a text has none such, all its words."""
    words = set(_WORD.findall(text.casefold()))
    return words - _STOPWORDS or words


def _directions(words: Iterable[str]) -> list[list[int]]:
    return [_direction(word) for word in sorted(words)]


def _direction(word: str) -> list[int]:
    """A corner of the cube, drawn by hash: two words' corners are all but perpendicular."""
    bits = int.from_bytes(blake2b(word.encode("utf-8", "surrogatepass"), digest_size=DIMENSION // 8).digest())
    return [1 if bits >> place & 1 else -1 for place in range(DIMENSION)]


def _unit(directions: Sequence[Sequence[int]]) -> list[float]:
    """The sum, scaled to length one; empty where there is none or it is zero."""
    total = [sum(column) for column in zip(*directions, strict=True)]
    length = math.hypot(*total)
    return [value / length for value in total] if length else []
