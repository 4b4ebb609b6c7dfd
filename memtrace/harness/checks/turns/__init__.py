"""Checks of the *turns* boundary: what one turn reads and writes."""

from __future__ import annotations

from memtrace.harness.checks.turns.kept import (
    growth_is_linear,
    input_and_answer,
    recalled_next_turn,
    window_is_bounded,
)
from memtrace.harness.checks.turns.paths import handoff_recorded_once, overlapping_turns_both_kept, retry_stores_once
from memtrace.harness.checks.turns.prompt import prompt_holds_its_input, prompt_order
from memtrace.harness.checks.turns.redaction import redaction_is_for_the_model
from memtrace.harness.checks.turns.resumed import resume_belongs_to_its_caller, resumed_records_its_question
from memtrace.harness.checks.turns.streams import (
    abandoned_leaves_no_context,
    cancelled_whole_or_nothing,
    stream_equals_run,
)
from memtrace.harness.checks.turns.tools import (
    queued_writes_wait,
    tool_pairs_intact,
    tool_traffic_never_a_fact,
    tool_traffic_not_replayed,
)
from memtrace.harness.checks.turns.unkept import (
    blocked_writes_nothing,
    failed_writes_nothing,
    limit_writes_nothing,
    paused_writes_nothing,
)

__all__ = [
    "abandoned_leaves_no_context",
    "blocked_writes_nothing",
    "cancelled_whole_or_nothing",
    "failed_writes_nothing",
    "growth_is_linear",
    "handoff_recorded_once",
    "input_and_answer",
    "limit_writes_nothing",
    "overlapping_turns_both_kept",
    "paused_writes_nothing",
    "prompt_holds_its_input",
    "prompt_order",
    "queued_writes_wait",
    "recalled_next_turn",
    "redaction_is_for_the_model",
    "resume_belongs_to_its_caller",
    "resumed_records_its_question",
    "retry_stores_once",
    "stream_equals_run",
    "tool_pairs_intact",
    "tool_traffic_never_a_fact",
    "tool_traffic_not_replayed",
    "window_is_bounded",
]
