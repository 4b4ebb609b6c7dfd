"""Checks of the *backends* boundary: the same promises on a laptop and on a fleet, and while the store fails."""

from __future__ import annotations

from memtrace.harness.checks.backends.answers import lifecycle, newest_means_newest, same_answers
from memtrace.harness.checks.backends.outages import outage_is_bounded, outage_is_visible

__all__ = ["lifecycle", "newest_means_newest", "outage_is_bounded", "outage_is_visible", "same_answers"]
