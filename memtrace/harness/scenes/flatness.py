"""Timing the read of the newest facts, of users who have few, some and many, in turn."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from memtrace.errors import AdapterError
from memtrace.harness.running.host import Performed, answer_of, as_facts
from memtrace.harness.seen.slopes import BEST_OF, DURATIONS, NEWEST, STORED
from memtrace.harness.stage import NotExercised, Stage
from memtrace.model import Caller, Fact

SIZES: Final = (50, 500, 5_000)
ROUNDS: Final = 30
_WITHIN: Final = 60.0
_FILL_SECONDS: Final = 180.0


def measure(stage: Stage) -> None:
    """Fill a user for each size, read the newest of each in turn many times, and note how long each took."""
    callers = {size: stage.caller() for size in SIZES}
    _fill(stage, callers)
    reads: dict[str, list[float]] = {str(size): [] for size in SIZES}
    for turn in range(-BEST_OF, ROUNDS * BEST_OF):
        for size in _in_turn(turn):
            took = _timed_read(stage, callers[size])
            if turn >= 0:  # those before warm it up
                reads[str(size)].append(took)
    stage.note(DURATIONS, reads)
    stage.note(STORED, {str(size): len(_listed(stage, who, 2 * size)) for size, who in callers.items()})
    for caller in callers.values():
        stage.facts(caller, NEWEST)
        if not stage.fresh and "forget" in stage.claims:
            stage.forget(caller)  # nobody wants so many strange facts in a store of theirs


def _fill(stage: Stage, callers: Mapping[int, Caller]) -> None:
    began = time.monotonic()
    for size, caller in callers.items():
        for number in range(size):
            text = f"Fact number {number:05d} of what is known."
            added = answer_of(stage.host.submit("add", (caller, text, "user")), _WITHIN)
            if added.error:
                raise AdapterError(f"fact {number + 1} of {size} could not be added: {added.error}")
            if time.monotonic() - began > _FILL_SECONDS:
                raise NotExercised(f"{sum(SIZES):,} facts could not be added within {_FILL_SECONDS:g} s")


def _in_turn(turn: int) -> tuple[int, ...]:
    start = turn % len(SIZES)
    return SIZES[start:] + SIZES[:start]


def _read(stage: Stage, caller: Caller, limit: int) -> Performed:
    """A call that returned: how long a failure takes says nothing."""
    done = answer_of(stage.host.submit("facts", (caller,), options={"limit": limit}), _WITHIN)
    if done.error:
        raise AdapterError(f"the newest {limit:,} could not be read: {done.error}")
    return done


def _listed(stage: Stage, caller: Caller, limit: int) -> tuple[Fact, ...]:
    return as_facts(_read(stage, caller, limit).value)


def _timed_read(stage: Stage, caller: Caller) -> float:
    began = time.perf_counter()
    _read(stage, caller, NEWEST)
    return time.perf_counter() - began
