"""The allow-list: a shape, and the keys whose values must have it. What is not here by its exact key does not leave."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from memtrace.model import Author, Level, Outcome
from memtrace.redaction.shapes import (
    OTHER,
    Reason,
    Shape,
    count,
    digest,
    error_type,
    flag,
    host,
    identifier,
    key_id,
    many,
    name,
    number,
    status,
    version,
    words,
)
from memtrace.redaction.vocabulary import BLOCKS, CONTENT, GENAI, MEMORY, METHODS, PLACES, REDIS, SQL, STANDARD

if TYPE_CHECKING:
    from memtrace.redaction.policy import Policy


def known(value: Any, _: Policy) -> Any:
    """A key or place that is named here, else ``other``."""
    return value if isinstance(value, str) and (value in KEYS or value in CONTENT or value in PLACES) else OTHER


_ALLOWED: Final[tuple[tuple[Shape, str], ...]] = (
    # memory
    (words(MEMORY), "memory.operation"),
    (words(BLOCKS), "memory.block_name"),
    (words(BLOCKS, "persistent semantic curated messages"), "memory.block_type"),
    (count, "memory.block_count memory.message_count memory.messages_added memory.rendered_count"),
    (count, "memory.deduped_count memory.count gen_ai.memory.record.count"),
    (words(*Level), "memory.scope"),
    (words("user global project"), "memory.tier"),
    (words("stored discarded superseded deleted erased extracted_facts embedded summarized skipped"), "memory.action"),
    # model calls, agents, tools
    (words(GENAI, STANDARD), "gen_ai.operation.name"),
    (
        words(
            "openai anthropic cohere mistral_ai groq deepseek perplexity x_ai aws.bedrock azure.ai.openai ollama vllm"
            " azure.ai.inference gcp.gemini gcp.vertex_ai gcp.gen_ai ibm.watsonx.ai"
        ),
        "gen_ai.provider.name gen_ai.system",
    ),
    (name, "gen_ai.request.model gen_ai.response.model gen_ai.agent.name gen_ai.tool.name gen_ai.memory.store.id"),
    (words("function extension datastore"), "gen_ai.tool.type"),
    (words("text json image speech"), "gen_ai.output.type"),
    (words("input output"), "gen_ai.token.type"),
    (
        many(
            words(
                "stop length tool_calls tool_call content_filter function_call error end_turn max_tokens stop_sequence"
                " tool_use completed incomplete failed"
            )
        ),
        "gen_ai.response.finish_reasons",
    ),
    (count, "gen_ai.usage.input_tokens gen_ai.usage.output_tokens gen_ai.usage.cache_read.input_tokens"),
    (count, "gen_ai.usage.cache_creation.input_tokens gen_ai.usage.reasoning.output_tokens gen_ai.request.max_tokens"),
    (number, "gen_ai.request.temperature gen_ai.request.top_p"),
    # whose
    (identifier("user"), "user.id enduser.id"),
    (identifier("session"), "session.id"),
    (identifier("conversation"), "gen_ai.conversation.id"),
    (identifier("record"), "gen_ai.memory.record.id"),
    (identifier("scope"), "memory.scope_id memory.project_id"),
    (digest, "memtrace.owner.digest memtrace.requester.digest"),
    (many(digest), "memtrace.record.digests"),
    (key_id, "memtrace.digest.key_id"),
    # how it went
    (words(*Outcome), "memtrace.outcome"),
    (words("answer extraction summary"), "memtrace.purpose"),
    (words(*Author), "memtrace.author"),
    (words("fresh stale missing"), "memtrace.freshness"),
    (number, "memtrace.age"),
    (words("ok busy unreachable timeout unauthorized limited failed malformed"), "memtrace.plane.status"),
    (count, "memtrace.withheld"),
    (words(*Reason), "memtrace.export.reason"),
    (known, "memtrace.export.key"),
    (words("spans logs metrics"), "memtrace.export.signal"),
    (error_type, "error.type exception.type"),
    (flag, "exception.escaped"),
    # stores and servers
    (words("postgresql redis valkey sqlite mysql mariadb mongodb elasticsearch other_sql"), "db.system db.system.name"),
    (words(SQL, REDIS), "db.operation db.operation.name"),
    (status, "db.response.status_code"),
    (name, "db.namespace db.name db.collection.name http.route"),
    (count, "db.operation.batch.size db.response.returned_rows db.redis.database_index db.redis.args_length"),
    (count, "db.redis.pipeline_length http.response.status_code http.status_code http.request.body.size"),
    (count, "http.response.body.size http.request.resend_count server.port net.peer.port"),
    (words(METHODS), "http.request.method http.method"),
    (words("http https"), "url.scheme http.scheme"),
    (host, "server.address net.peer.name"),
    (words("http grpc postgresql redis"), "network.protocol.name"),
    (words("tcp udp unix pipe quic"), "network.transport"),
    (words("ipv4 ipv6"), "network.type"),
    # the process
    (words("unknown_service unknown_service:python"), "service.name"),
    (name, "service.namespace host.name"),
    (version, "service.version network.protocol.version telemetry.sdk.version telemetry.auto.version"),
    (version, "process.runtime.version"),
    (identifier("instance"), "service.instance.id"),
    (words("production staging test development"), "deployment.environment deployment.environment.name"),
    (words("python"), "telemetry.sdk.language"),
    (words("opentelemetry"), "telemetry.sdk.name"),
    (words("cpython pypy"), "process.runtime.name"),
    # other instrumentations
    (words("LLM CHAIN AGENT TOOL RETRIEVER EMBEDDING RERANKER GUARDRAIL EVALUATOR"), "openinference.span.kind"),
    (words("workflow task agent tool"), "traceloop.span.kind"),
    (name, "llm.model_name"),
    (count, "llm.token_count.prompt llm.token_count.completion llm.token_count.total llm.usage.total_tokens"),
)
KEYS: Final[Mapping[str, Shape]] = MappingProxyType({key: shape for shape, keys in _ALLOWED for key in keys.split()})
