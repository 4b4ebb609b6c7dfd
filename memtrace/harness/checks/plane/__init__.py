"""Checks of the *plane* boundary: what curated facts reach, and what a turn gets while they cannot be read."""

from memtrace.harness.checks.plane.asking import one_warning, question_stays_home, read_only
from memtrace.harness.checks.plane.outages import outage_serves_last, staleness_is_visible, turn_is_bounded
from memtrace.harness.checks.plane.shown import agents_apart, facts_reach_everyone, recovers, retired_is_gone

__all__ = [
    "agents_apart",
    "facts_reach_everyone",
    "one_warning",
    "outage_serves_last",
    "question_stays_home",
    "read_only",
    "recovers",
    "retired_is_gone",
    "staleness_is_visible",
    "turn_is_bounded",
]
