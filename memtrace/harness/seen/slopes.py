"""How a time grows with what is stored: a slope with its confidence interval."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

NEWEST: Final = 50
"""The facts of a read that is timed."""
DURATIONS: Final = "seconds of reading the newest"
"""The note of how long each read took, for each size."""
STORED: Final = "facts that are there"
"""The note of how many facts a longer listing shows, for each size."""
BEST_OF: Final = 5
"""The reads of a round, for each size."""
_NORMAL_95: Final = 1.96


class Slope(NamedTuple):
    """The power of what is stored that a time grows with, 0 for flat and 1 for linear, and its 95 % interval."""

    low: float
    middle: float
    high: float

    def __str__(self) -> str:
        low, middle, high = self.as_text
        return f"{middle} (95 % between {low} and {high})"

    @property
    def as_text(self) -> tuple[str, ...]:
        """The three numbers with two decimals."""
        return tuple(f"{round(value, 2) + 0.0:.2f}" for value in self)  # adding 0.0 makes 0.00 of -0.00


def slope(durations: Mapping[str, Sequence[float]]) -> Slope:
    """The median of the slopes of all rounds, and the interval that the ranks around it give.

    A round is the best of a few durations of each size, which were taken in turn; its slope is that of the line through
    them, both axes logarithmic. What slows the machine down for a while slows all sizes down, and cancels; what slows
    single reads down is not the best of them.

    Args:
        durations: at least two sizes, each with the same number of durations, a multiple of `BEST_OF`, in seconds
            above 0.

    Raises:
        ValueError: they are not so.
    """
    if not durations or any(not each or len(each) % BEST_OF for each in durations.values()):
        raise ValueError(f"each size is read {BEST_OF} times or a multiple of that")
    sizes = sorted(durations, key=int)
    scale = [math.log(int(size)) for size in sizes]
    rounds = zip(*(_bests(durations[size]) for size in sizes), strict=True)
    slopes = sorted(statistics.linear_regression(scale, [math.log(took) for took in one]).slope for one in rounds)
    count = len(slopes)
    rank = max(0, math.floor((count - _NORMAL_95 * math.sqrt(count)) / 2) - 1)
    return Slope(slopes[rank], statistics.median(slopes), slopes[count - 1 - rank])


def _bests(durations: Sequence[float]) -> list[float]:
    return [min(durations[start : start + BEST_OF]) for start in range(0, len(durations), BEST_OF)]
