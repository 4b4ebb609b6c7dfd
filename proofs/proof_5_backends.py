"""Proof 5: the same memory on a laptop's store and on a fleet's."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from typing import Final

from memtrace.harness.record.events import Noted
from memtrace.harness.record.history import History, Turn
from memtrace.harness.scenes.flatness import SIZES, measure
from memtrace.harness.scenes.lifecycle import ALONE, LIFECYCLE, expect_known
from memtrace.harness.seen.slopes import DURATIONS, slope
from memtrace.harness.stage import Stage
from proofs.act import Act, Proof

STORES: Final = ("sqlite", "postgres", "redis")
_WIDTH: Final = 20
_COLUMNS: Final = ("Alice asks", "Bob asks", "cat to bird", "dog forgotten", "Bob forgotten")
_HAS: Final = re.compile(r"\b(?:has|under) (?:a |the )(\w+),")


def from_first_to_last(stage: Stage) -> None:
    """Two users' facts are added, listed, replaced and forgotten; after each, whoever they are of asks."""
    alice, bob = stage.callers(2)
    cat, dog, tree, bird = (stage.canary() for _ in range(4))
    cats = stage.add(alice, f"Alice has a cat, {cat}.")
    dogs = stage.add(alice, f"Alice has a dog, {dog}.")
    stage.add(bob, f"Bob sits under the tree, {tree}.")
    for limit in (None, 1, 50):
        stage.facts(alice, limit)
    expect_known(stage, alice, has=(cat, dog), lacks=(tree,))
    expect_known(stage, bob, has=(tree,), lacks=(cat, dog))
    stage.update(alice, cats, f"Alice has a bird, {bird}.")
    expect_known(stage, alice, has=(bird, dog), lacks=(cat, tree))
    stage.forget(alice, dogs)
    expect_known(stage, alice, has=(bird,), lacks=(cat, dog, tree))
    stage.forget(bob)
    expect_known(stage, bob, has=(), lacks=(cat, dog, tree, bird))


def _columns(cells: Sequence[str]) -> str:
    return "".join(f"{cell:<{_WIDTH}}" for cell in cells).rstrip()


def _prompts(history: History) -> list[str]:
    """What each turn's prompt said that its user has."""
    return [_columns([_shown(turn) for turn in history.turns.values()])]


def _shown(turn: Turn) -> str:
    return ", ".join(sorted(_HAS.findall(turn.answers[0].prompt.text))) or "nothing" if turn.answers else "(no prompt)"


def _times(history: History) -> list[str]:
    """Each size's median with the 5th and 95th percentile, and the slope."""
    timed = next((event.value for event in history.of(Noted) if event.name == DURATIONS), None)
    if timed is None:
        return ["no read was timed"]
    low, middle, high = slope(timed).as_text
    return [_columns([*(_spread(timed[str(size)]) for size in SIZES), f"{middle} [{low} to {high}]"])]


def _spread(seconds: Sequence[float]) -> str:
    twentieths = statistics.quantiles(seconds, n=20)
    low, middle, high = (took * 1e3 for took in (twentieths[0], statistics.median(seconds), twentieths[-1]))
    return f"{middle:.2f} [{low:.2f}-{high:.2f}]"


PROOF = Proof(
    number=5,
    boundary="between a laptop and a fleet",
    claim="On every store facts come and go alike, and the newest take no longer to read the more their user has.",
    method=(
        "Play the life of a fact on each store; "
        "time the newest 50 of 50, 500 and 5,000 facts, one size after the other."
    ),
    acts=(
        Act(
            title="what the prompt says that a user has, as facts come and go",
            rules=(LIFECYCLE, "backends.newest-means-newest"),
            script=from_first_to_last,
            show=_prompts,
            against="memtrace.broken.backends:ReplacesTheNewest",
            needs=("turns", "list", "update", "forget"),
            options=ALONE,
            heading=_columns(_COLUMNS),
        ),
        Act(
            title="milliseconds to read the newest 50, median [p5-p95], and the slope: 0 is flat, 1 is linear",
            rules=("backends.read-is-flat",),
            script=measure,
            show=_times,
            against="memtrace.broken.backends:SortsThemAll",
            options={**ALONE, "tracing": False},
            heading=_columns([*(f"of {size:,} facts" for size in SIZES), "slope [95 %]"]),
        ),
    ),
    stores=STORES,
)
