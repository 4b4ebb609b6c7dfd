"""How a time grows with what is stored: a slope with its confidence interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

NEWEST: Final = 50
"""The facts of a read that is timed."""
DURATIONS: Final = "seconds of reading the newest"
STORED: Final = "facts that are there"
"""What is noted of each size: the duration of each read, and how many facts a longer listing shows."""
BEST_OF: Final = 5
_NORMAL_95: Final = 1.96


class Slope(NamedTuple):
    """The power of what is stored that a time grows with, 0 for flat and 1 for linear, and its 95 % interval."""

    low: float
    middle: float
    high: float

    def __str__(self) -> str:
        low, middle, high = self.rounded
        return f"{middle} (95 % between {low} and {high})"

    @property
    def rounded(self) -> tuple[str, ...]:
        """The three numbers as text."""
        return tuple(f"{round(value, 2) + 0.0:.2f}" for value in self)


def slope(durations: Mapping[str, Sequence[float]]) -> Slope:
    """The median of the slopes of all rounds, and the interval that the ranks around it give.

    A round is the best of a few durations of each size, which were taken in turn; its slope is that of the line through
    them, both axes logarithmic. What slows the machine down for a while slows all sizes down, and cancels; what slows
    single reads down is not the best of them.
    """
    sizes = sorted(durations, key=int)
    scale = [math.log(int(size)) for size in sizes]
    rounds = zip(*(_bests(durations[size]) for size in sizes), strict=True)
    slopes = sorted(statistics.linear_regression(scale, [math.log(took) for took in one]).slope for one in rounds)
    count = len(slopes)
    rank = max(0, math.floor((count - _NORMAL_95 * math.sqrt(count)) / 2) - 1)
    return Slope(slopes[rank], statistics.median(slopes), slopes[count - 1 - rank])


def _bests(durations: Sequence[float]) -> list[float]:
    return [min(durations[start : start + BEST_OF]) for start in range(0, len(durations), BEST_OF)]
