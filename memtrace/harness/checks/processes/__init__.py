"""Checks of the *processes* boundary: what survives a restart, and what does not survive being forgotten."""

from __future__ import annotations

from memtrace.harness.checks.processes.forgetting import forget_fact, forget_stays_forgotten, forget_user
from memtrace.harness.checks.processes.surviving import (
    facts_survive,
    recall_survives_own_store,
    search_after_restart,
    search_survives_forget,
)
from memtrace.harness.checks.processes.together import fork_safe, other_process_seen, two_writers
from memtrace.harness.checks.processes.windows import window_round_trip

__all__ = [
    "facts_survive",
    "forget_fact",
    "forget_stays_forgotten",
    "forget_user",
    "fork_safe",
    "other_process_seen",
    "recall_survives_own_store",
    "search_after_restart",
    "search_survives_forget",
    "two_writers",
    "window_round_trip",
]
