"""Checks of the *export* boundary: what is recorded is what happened, and what leaves is what may."""

from __future__ import annotations

from memtrace.harness.checks.export.leaving import (
    local_is_complete,
    no_id_in_clear,
    no_payload_in_logs,
    no_payload_leaves,
    safe_under_a_foreign_exporter,
)
from memtrace.harness.checks.export.prompts import span_equals_wire
from memtrace.harness.checks.export.trees import every_call_has_one_span, one_trace_per_turn

__all__ = [
    "every_call_has_one_span",
    "local_is_complete",
    "no_id_in_clear",
    "no_payload_in_logs",
    "no_payload_leaves",
    "one_trace_per_turn",
    "safe_under_a_foreign_exporter",
    "span_equals_wire",
]
