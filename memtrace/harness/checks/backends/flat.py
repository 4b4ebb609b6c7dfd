"""Whether a read costs what it returns, and not what its user has stored."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

from memtrace.harness.findings import Judgement, check, held, undecided, untested, violated
from memtrace.harness.record.events import FactsRead, Noted
from memtrace.harness.record.history import History
from memtrace.harness.seen.slopes import DURATIONS, NEWEST, STORED, slope
from memtrace.model import Evidence

BOUND: Final = 0.1
"""The slope of a flat read is less: where a hundred times as much is stored, it takes at most 1.6 times as long."""


@check("backends.read-is-flat")
def read_is_flat(history: History) -> Judgement:
    """The whole confidence interval of the slope lies under the bound; above it the read grows with what is stored."""
    noted = {event.name: event.value for event in history.of(Noted)}
    reads = noted.get(DURATIONS)
    if not reads:
        return untested("no read was timed")
    grows, evidence = slope(reads), Evidence("medians", _medians(reads))
    if grows.low > BOUND:
        reason = f"reading the newest {NEWEST} takes longer the more their user has: its slope is {grows}"
        return violated(f"{reason}, where 0 is flat and 1 is linear", evidence)
    if grows.high >= BOUND:
        return undecided(
            f"the machine is too noisy to tell: the slope is {grows}, and flat is under {BOUND:g}", evidence
        )
    return held(when=not (missing := _missing(history, noted)), otherwise=missing)


def _missing(history: History, noted: Mapping[str, Any]) -> str:
    """What there was less of than was timed."""
    for size, there in noted.get(STORED, {}).items():
        if there < int(size):
            return f"of {int(size):,} facts that were added {there:,} are there"
    listed = [len(e.texts) for e in history.of(FactsRead) if e.limit == NEWEST and e.op == "facts"]
    full = listed and min(listed) == NEWEST
    return "" if full else f"a listing did not have the {NEWEST} facts that were asked for"


def _medians(reads: Mapping[str, Sequence[float]]) -> str:
    return "\n".join(
        f"{int(size):>5,} facts: {statistics.median(reads[size]) * 1e3:.3f} ms" for size in sorted(reads, key=int)
    )
