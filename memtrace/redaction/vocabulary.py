"""The words that may leave: names of operations, statements, methods, events, metrics. Data; nothing decides here."""

from __future__ import annotations

from typing import Final

from memtrace import semconv

GENAI: Final = (
    "chat generate_content text_completion embeddings retrieval execute_tool invoke_agent create_agent invoke_workflow"
    " plan"
)
MEMORY: Final = "read write persist update retrieve forget"
STANDARD: Final = " ".join(semconv.MEMORY_OPERATIONS)
BLOCKS: Final = (
    "window facts static few_shot summary vector recall learning persistent_facts agent_facts user_facts plane"
    " plane_facts persistent_facts.user persistent_facts.global persistent_facts.project persistent_facts.agent"
)
SQL: Final = (
    "SELECT INSERT UPDATE DELETE BEGIN COMMIT ROLLBACK CREATE ALTER DROP WITH COPY SET SHOW EXPLAIN MERGE PRAGMA"
)
REDIS: Final = (
    "GET MGET MSET DEL UNLINK EXISTS EXPIRE TTL INCR DECR PING HGET HSET HMGET HMSET HGETALL HDEL LPUSH RPUSH LPOP"
    " RPOP LRANGE LTRIM SADD SREM SMEMBERS ZADD ZREM ZRANGE ZREVRANGE ZRANGEBYSCORE SORT EVAL EVALSHA FCALL SCRIPT"
    " MULTI EXEC SCAN PIPELINE PUBLISH SUBSCRIBE AUTH HELLO CLIENT INFO XADD XREAD XRANGE"
)
BLOCK_NAMES: Final = frozenset(BLOCKS.split())
METHODS: Final = "GET HEAD POST PUT DELETE CONNECT OPTIONS TRACE PATCH QUERY HTTP _OTHER"

SUBJECTS: Final = frozenset(f"{GENAI} {SQL} {REDIS} {METHODS}".split())
"""First words of span names; what follows one is a name."""
SPAN_NAMES: Final = frozenset([*(f"memory.{operation}" for operation in MEMORY.split()), *semconv.MEMORY_OPERATIONS])
EVENT_NAMES: Final = frozenset(
    [
        "exception",
        "gen_ai.client.inference.operation.details",
        "gen_ai.client.operation.exception",
        "gen_ai.evaluation.result",
        "gen_ai.system.message",
        "gen_ai.user.message",
        "gen_ai.assistant.message",
        "gen_ai.tool.message",
        "gen_ai.choice",
    ]
)
METRICS: Final = frozenset(
    [
        "gen_ai.client.operation.duration",
        "gen_ai.client.token.usage",
        "memtrace.export.withheld",
        "memtrace.export.lost",
        "db.client.operation.duration",
        "http.client.request.duration",
        "http.client.duration",
        "http.server.request.duration",
        "http.server.duration",
        "http.server.active_requests",
        "process.cpu.time",
        "process.memory.usage",
    ]
)
UNITS: Final = frozenset(["1", "%", "s", "ms", "us", "ns", "By", "{token}", "{request}", "{item}", "{value}"])
SEVERITIES: Final = frozenset(["TRACE", "DEBUG", "INFO", "WARN", "WARNING", "ERROR", "CRITICAL", "FATAL"])

CONTENT: Final = frozenset(
    [
        "memory.query",
        "memory.snippets",
        "memory.scores",
        "memtrace.turn",
        "gen_ai.memory.query.text",
        "gen_ai.memory.records",
        "gen_ai.request.messages",
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.system_instructions",
        "gen_ai.tool.definitions",
        "gen_ai.tool.call.id",
        "gen_ai.tool.call.arguments",
        "gen_ai.tool.call.result",
        "gen_ai.response.id",
        "exception.message",
        "exception.stacktrace",
        "db.statement",
        "db.query.text",
        "url.full",
        "url.path",
        "url.query",
        "http.url",
        "http.target",
        "input.value",
        "output.value",
    ]
)
"""Well-known keys that are withheld, named in reports. What is named nowhere is withheld all the same."""

PLACES: Final = frozenset(
    [
        "span name",
        "event name",
        "scope name",
        "metric name",
        "scope version",
        "schema",
        "unit",
        "severity",
        "trace state",
        "status text",
        "log body",
        "description",
    ]
)
"""What may be withheld that has no key."""
