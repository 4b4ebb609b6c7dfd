"""Checks of the *authors* boundary: what is learned, and from whom."""

from __future__ import annotations

from memtrace.harness.checks.authors.by_hand import (
    cap_spares_persisted,
    persisted_stays_in_prompt,
    restated_is_relearned,
    update_supersedes,
)
from memtrace.harness.checks.authors.learning import (
    few_per_message,
    learned_is_marked,
    no_relearning,
    reply_never_a_fact,
    tool_output_never_a_fact,
)
from memtrace.harness.checks.authors.offline import offline_mines_users_only
from memtrace.harness.checks.authors.prompt import once_in_prompt, text_stays_data

__all__ = [
    "cap_spares_persisted",
    "few_per_message",
    "learned_is_marked",
    "no_relearning",
    "offline_mines_users_only",
    "once_in_prompt",
    "persisted_stays_in_prompt",
    "reply_never_a_fact",
    "restated_is_relearned",
    "text_stays_data",
    "tool_output_never_a_fact",
    "update_supersedes",
]
