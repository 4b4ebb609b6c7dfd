"""Timing many calls in turns, so that what else the machine does falls on all of them alike."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Samples = NDArray[np.float64]
"""Microseconds: a row a round, a column a call."""

_BLOCK_NS: Final = 20_000_000
_RESAMPLED: Final = 1_000


@dataclass(frozen=True, slots=True)
class Series:
    """What is timed: an operation of one side, on a backend that holds ``count`` facts of ``size`` characters."""

    backend: str
    side: str
    operation: str
    count: int
    size: int


@dataclass(frozen=True, slots=True)
class Subject:
    """How a series is timed: ``call`` gets what ``before`` made, ``after`` its result; only ``call`` is timed."""

    series: Series
    call: Callable[[Any], Any]
    before: Callable[[], Any] = lambda: None
    after: Callable[[Any], object] = lambda _result: None


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of two medians, with its 95 % interval."""

    value: float
    low: float
    high: float


def sample(subjects: Sequence[Subject], *, rounds: int, calls: int) -> dict[Series, Samples]:
    """Every subject in turn, up to ``calls`` times a round, fewer where it is slow; the next begins elsewhere."""
    sizes = [_calls_a_block(subject, calls) for subject in subjects]
    took = [np.empty((rounds, size)) for size in sizes]
    gc.collect()
    gc.disable()
    try:
        for number in range(rounds):
            for place in range(len(subjects)):
                which = (place + number * 7) % len(subjects)
                _time(subjects[which], took[which][number])
            gc.collect(0)
    finally:
        gc.enable()
    return {subject.series: times for subject, times in zip(subjects, took, strict=True)}


def percentiles(samples: Samples) -> tuple[float, float, float]:
    """The fifth percentile, the median, and the ninety-fifth, in microseconds."""
    low, middle, high = np.percentile(samples, (5, 50, 95))
    return float(low), float(middle), float(high)


def ratio(over: Samples, under: Samples) -> Ratio:
    """How many times the median of one is that of the other.

    The interval comes from rounds drawn anew, for both sides the same: what disturbs a round disturbs both.
    """
    chance = np.random.default_rng(7)
    drawn = chance.integers(len(over), size=(_RESAMPLED, len(over)))
    ratios = [float(np.median(over[rounds]) / np.median(under[rounds])) for rounds in drawn]
    low, high = np.percentile(ratios, (2.5, 97.5))
    return Ratio(float(np.median(over) / np.median(under)), float(low), float(high))


def merged(parts: Sequence[Mapping[Series, Samples]]) -> dict[Series, Samples]:
    """All series of several runs."""
    return {series: samples for part in parts for series, samples in part.items()}


def _calls_a_block(subject: Subject, most: int) -> int:
    """As many calls as fit into a block; asking also warms up."""
    spent = 0
    for _ in range(2):
        began = perf_counter_ns()
        _once(subject)
        spent = perf_counter_ns() - began
    return max(1, min(most, _BLOCK_NS // max(spent, 1)))


def _time(subject: Subject, took: NDArray[np.float64]) -> None:
    if len(took) > 1:
        _once(subject)  # its data comes back into the caches, which the one before it filled
    for number in range(len(took)):
        took[number] = _once(subject) / 1000


def _once(subject: Subject) -> int:
    given = subject.before()
    began = perf_counter_ns()
    result = subject.call(given)
    ended = perf_counter_ns()
    subject.after(result)
    return ended - began
