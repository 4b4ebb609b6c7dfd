"""Every span, attribute and metric name memtrace emits or reads, in one table.

Three vocabularies meet here. Span names and ``memory.*`` are fastaiagent's, the SDK that the page *How memory works*
describes. ``gen_ai.*`` are OpenTelemetry's (open-telemetry/semantic-conventions-genai, status Development; no package
of generated constants exists yet). ``memtrace.*`` is what neither has. No ``gen_ai.*`` name is invented here, except
Sentry's ``gen_ai.request.messages``, which the page *Agent Memory Breaks at the Boundaries* looks at.
"""

from __future__ import annotations

from typing import Final

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.44.0"

# Spans.
READ: Final = "memory.read"
WRITE: Final = "memory.write"
PERSIST: Final = "memory.persist"
UPDATE: Final = "memory.update"
RETRIEVE: Final = "memory.retrieve"
FORGET: Final = "memory.forget"
CHAT: Final = "chat"  # span name: "chat <model>"
INVOKE_AGENT: Final = "invoke_agent"  # span name: "invoke_agent <agent>"
EXECUTE_TOOL: Final = "execute_tool"  # span name: "execute_tool <tool>"

# fastaiagent's.
MEMORY_OPERATION: Final = "memory.operation"
MEMORY_BLOCK_NAME: Final = "memory.block_name"
MEMORY_BLOCK_TYPE: Final = "memory.block_type"
MEMORY_BLOCK_COUNT: Final = "memory.block_count"
MEMORY_MESSAGE_COUNT: Final = "memory.message_count"
MEMORY_MESSAGES_ADDED: Final = "memory.messages_added"
MEMORY_RENDERED_COUNT: Final = "memory.rendered_count"
MEMORY_DEDUPED_COUNT: Final = "memory.deduped_count"
MEMORY_SCORES: Final = "memory.scores"
MEMORY_SNIPPETS: Final = "memory.snippets"
MEMORY_QUERY: Final = "memory.query"
MEMORY_SCOPE: Final = "memory.scope"
MEMORY_SCOPE_ID: Final = "memory.scope_id"
MEMORY_PROJECT_ID: Final = "memory.project_id"
MEMORY_TIER: Final = "memory.tier"
MEMORY_COUNT: Final = "memory.count"
MEMORY_ACTION: Final = "memory.action"

# OpenTelemetry's.
OPERATION_NAME: Final = "gen_ai.operation.name"
SEARCH_MEMORY: Final = "search_memory"
UPSERT_MEMORY: Final = "upsert_memory"
CREATE_MEMORY: Final = "create_memory"
UPDATE_MEMORY: Final = "update_memory"
DELETE_MEMORY: Final = "delete_memory"
MEMORY_OPERATIONS: Final = frozenset(
    {"create_memory_store", "delete_memory_store", SEARCH_MEMORY, UPSERT_MEMORY, CREATE_MEMORY, UPDATE_MEMORY,
     DELETE_MEMORY}
)  # fmt: skip
INFERENCE_OPERATIONS: Final = frozenset({"chat", "generate_content", "text_completion"})
MEMORY_STORE_ID: Final = "gen_ai.memory.store.id"
MEMORY_RECORD_ID: Final = "gen_ai.memory.record.id"
MEMORY_RECORD_COUNT: Final = "gen_ai.memory.record.count"
MEMORY_QUERY_TEXT: Final = "gen_ai.memory.query.text"
MEMORY_RECORDS: Final = "gen_ai.memory.records"
AGENT_NAME: Final = "gen_ai.agent.name"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
PROVIDER_NAME: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
RESPONSE_MODEL: Final = "gen_ai.response.model"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
USER_ID: Final = "user.id"
ERROR_TYPE: Final = "error.type"

# The recorded prompt: fastaiagent's and Sentry's form (chat-API messages), and the standard's (parts).
REQUEST_MESSAGES: Final = "gen_ai.request.messages"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"

# Ours.
TURN: Final = "memtrace.turn"
"""The label of the turn a span belongs to."""
OUTCOME: Final = "memtrace.outcome"
PURPOSE: Final = "memtrace.purpose"
"""Of a model call: ``answer``, ``extraction`` or ``summary``."""
OWNER_DIGEST: Final = "memtrace.owner.digest"
"""Whose the records are: keyed digest of a scope id."""
REQUESTER_DIGEST: Final = "memtrace.requester.digest"
"""Who asked: keyed digest of the user id the turn was resolved to."""
RECORD_DIGESTS: Final = "memtrace.record.digests"
"""Keyed digests of the rendered records' ids, in order."""
DIGEST_KEY_ID: Final = "memtrace.digest.key_id"
AUTHOR: Final = "memtrace.author"
FRESHNESS: Final = "memtrace.freshness"
"""Of curated facts: ``fresh``, ``stale`` or ``missing``."""
AGE: Final = "memtrace.age"
"""Of curated facts: seconds since they were read or confirmed."""
PLANE_STATUS: Final = "memtrace.plane.status"
"""How the latest read of the plane went: ``ok``, ``busy``, ``unreachable``, ``timeout``, ``unauthorized`` …"""
WITHHELD: Final = "memtrace.withheld"
"""How many things were withheld from a span on its way out."""

# Metrics.
OPERATION_DURATION: Final = "gen_ai.client.operation.duration"
DURATION_BUCKETS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""Seconds; the boundaries the convention asks for."""
WITHHELD_METRIC: Final = "memtrace.export.withheld"
WITHHELD_REASON: Final = "memtrace.export.reason"
WITHHELD_KEY: Final = "memtrace.export.key"
"""The key or place something was withheld at, where it is one of OpenTelemetry's or ours; else ``other``."""
EXPORT_SIGNAL: Final = "memtrace.export.signal"
"""``spans``, ``logs`` or ``metrics``."""
LOST_METRIC: Final = "memtrace.export.lost"
"""Spans, log records and metrics that never reached a collector."""
