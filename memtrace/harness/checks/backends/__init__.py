"""Checks of the *backends* boundary: the same promises on a laptop and on a fleet, and while the store fails."""

from __future__ import annotations

from memtrace.harness.checks.backends.answers import lifecycle, newest_means_newest, same_answers
from memtrace.harness.checks.backends.atomic import add_is_atomic
from memtrace.harness.checks.backends.flat import read_is_flat
from memtrace.harness.checks.backends.outages import outage_is_bounded, outage_is_visible

__all__ = [
    "add_is_atomic", "lifecycle", "newest_means_newest", "outage_is_bounded", "outage_is_visible", "read_is_flat",
    "same_answers",
]  # fmt: skip
