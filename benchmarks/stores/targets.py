"""The ratios that a run is judged by."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from .measure import Ratio, Samples, Series, ratio
from .peer import NAME
from .run import BARE, OURS, READ

FLAT: Final = 1.10
OVER_BARE: Final = 1.5
FASTER_THAN_PEER: Final = {"sqlite": 10.0, "postgres": 3.0, "redis": 10.0}


@dataclass(frozen=True, slots=True)
class Judged:
    """A ratio and its target: at most that, or where ``at_least``, no less."""

    name: str
    backend: str
    count: int
    size: int
    ratio: Ratio
    target: float
    at_least: bool = False

    @property
    def is_met(self) -> bool:
        """Whether the measured ratio is within the target."""
        return self.ratio.value >= self.target if self.at_least else self.ratio.value <= self.target

    @property
    def is_certain(self) -> bool:
        """Whether its whole interval is on the same side of the target."""
        return not self.ratio.low <= self.target <= self.ratio.high


def judged(samples: Mapping[Series, Samples]) -> Iterator[Judged]:
    """Every ratio with a target that both sides of it were measured for."""
    reads = [series for series in samples if (series.side, series.operation) == (OURS, READ)]
    for backend in dict.fromkeys(series.backend for series in reads):
        of_backend = [series for series in reads if series.backend == backend]
        yield from _flat(samples, backend, of_backend)
        for series in of_backend:
            yield from _against_bare(samples, series)
        for series in of_backend:
            yield from _against_peer(samples, series)


def _flat(samples: Mapping[Series, Samples], backend: str, reads: list[Series]) -> Iterator[Judged]:
    for size in dict.fromkeys(series.size for series in reads):
        counts = sorted(((series.count, series) for series in reads if series.size == size), key=lambda each: each[0])
        (few, first), (many, last) = counts[0], counts[-1]
        if few < many:
            found = ratio(samples[last], samples[first])
            yield Judged(f"{many:,} facts / {few:,} facts", backend, many, size, found, FLAT)


def _against_bare(samples: Mapping[Series, Samples], ours: Series) -> Iterator[Judged]:
    bare = Series(ours.backend, BARE, READ, ours.count, ours.size)
    if bare in samples:
        found = ratio(samples[ours], samples[bare])
        yield Judged(f"{OURS} / {BARE}", ours.backend, ours.count, ours.size, found, OVER_BARE)


def _against_peer(samples: Mapping[Series, Samples], ours: Series) -> Iterator[Judged]:
    peer = Series(ours.backend, NAME, READ, ours.count, ours.size)
    if peer in samples:
        found = ratio(samples[peer], samples[ours])
        target = FASTER_THAN_PEER[ours.backend]
        yield Judged(f"{NAME} / {OURS}", ours.backend, ours.count, ours.size, found, target, at_least=True)
