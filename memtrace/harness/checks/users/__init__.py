"""Checks of the *users* boundary: whose memory it is."""

from __future__ import annotations

from memtrace.harness.checks.users.apart import (
    concurrent_turns_apart,
    no_foreign_memory,
    own_memory_recalled,
    recall_namespaced,
    reply_goes_to_its_caller,
    same_session_id_apart,
    similar_ids_apart,
    wildcard_is_not_a_user,
)
from memtrace.harness.checks.users.records import (
    empty_id_reads_nothing,
    evicted_keeps_facts,
    foreign_record_untouchable,
    forget_one_leaves_others,
)
from memtrace.harness.checks.users.resolved import (
    resolved_once_per_turn,
    unresolved_sees_only_agent_facts,
    unresolved_writes_nothing,
)
from memtrace.harness.checks.users.scopes import agent_facts_stay_with_agent, id_not_in_prompt, project_partitions

__all__ = [
    "agent_facts_stay_with_agent",
    "concurrent_turns_apart",
    "empty_id_reads_nothing",
    "evicted_keeps_facts",
    "foreign_record_untouchable",
    "forget_one_leaves_others",
    "id_not_in_prompt",
    "no_foreign_memory",
    "own_memory_recalled",
    "project_partitions",
    "recall_namespaced",
    "reply_goes_to_its_caller",
    "resolved_once_per_turn",
    "same_session_id_apart",
    "similar_ids_apart",
    "unresolved_sees_only_agent_facts",
    "unresolved_writes_nothing",
    "wildcard_is_not_a_user",
]
