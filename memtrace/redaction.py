"""What may leave the process: the allow-list, and the functions that apply it. Nothing else decides.

What is not allowed here by its exact key and the shape of its value does not leave. No shape lets a free string pass.
A string leaves only if it is

* in a closed vocabulary below, or a name the policy registers (`Policy.names`): agents, models, services, blocks;
* a version such as ``1.45.2``, or an address of this machine or in IPv4 digits;
* the name of an exception class or a module that this process has loaded: code, not data;
* an id's keyed digest (`memtrace.identity`), never the id.

Any other string in a place for names becomes ``other``; any other value is dropped; both are told to ``note``. The
functions have no state and do no I/O. With ``payloads`` everything leaves as it is, except ids: those never do.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from memtrace import semconv
from memtrace.identity import IdKey, IdKind
from memtrace.model import Author, Level, Outcome

OTHER: Final = "other"


class Reason(StrEnum):
    """Why something was withheld."""

    KEY = "unknown-key"
    SHAPE = "wrong-shape"
    NAME = "unregistered-name"
    TEXT = "free-text"
    ID = "id-without-key"


Shape = Callable[[Any, "Policy"], Any]
"""What may leave of a value under a policy: the value, ``OTHER``, or ``None`` for nothing."""
Note = Callable[[str, Reason], None]
"""Is told a key, or one of `PLACES`, and why something was withheld there."""
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

# Shapes

_MOST: Final = 2**40  # A count. Seven letters make a greater number.
_LONGEST_LIST: Final = 1024
_VERSION: Final = re.compile(r"\d{1,4}(\.\d{1,4}){1,3}((a|b|rc|\.dev|\.post)\d{1,3})?", re.ASCII)
_STATUS: Final = re.compile(r"\d{1,3}|\d\d[0-9A-Z]\d\d", re.ASCII)
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_IPV4: Final = re.compile(r"\d{1,3}(\.\d{1,3}){3}", re.ASCII)
_SCHEMA: Final = re.compile(r"https://opentelemetry\.io/schemas/\d{1,2}\.\d{1,3}\.\d{1,2}", re.ASCII)


def count(value: Any, _: Policy) -> Any:
    """A whole number that counts something."""
    return int(value) if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST else None


def number(value: Any, _: Policy) -> Any:
    """A finite number of ordinary size, in four digits."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= _MOST:
        return None
    return value if isinstance(value, int) else float(f"{value:.4g}")


def flag(value: Any, _: Policy) -> Any:
    """True or false, also as text."""
    return value if isinstance(value, bool) or value in ("True", "False") else None


def name(value: Any, policy: Policy) -> Any:
    """A registered name, else ``other``."""
    return policy.name(value) if isinstance(value, str) else None


def version(value: Any, policy: Policy) -> Any:
    """Digits and dots, or a registered name."""
    return value if isinstance(value, str) and _VERSION.fullmatch(value) else name(value, policy)


def host(value: Any, policy: Policy) -> Any:
    """An address of this machine or in IPv4 digits, or a registered name."""
    return value if isinstance(value, str) and (value in _LOCAL or _IPV4.fullmatch(value)) else name(value, policy)


def status(value: Any, policy: Policy) -> Any:
    """A status code: of HTTP, of gRPC, or an SQLSTATE."""
    return value if isinstance(value, str) and _STATUS.fullmatch(value) else count(value, policy)


def error_type(value: Any, policy: Policy) -> Any:
    """An exception class that is loaded, a status code, or a registered name."""
    if not isinstance(value, str):
        return None
    return value if _STATUS.fullmatch(value) or _is_exception(value) else name(value, policy)


def words(*vocabulary: str) -> Shape:
    """One of these words (several may be given as one text) or a registered name, else ``other``."""
    allowed = {word: word for several in vocabulary for word in several.split()}

    def shape(value: Any, policy: Policy) -> Any:
        return (allowed.get(value) or policy.name(value)) if isinstance(value, str) else None

    return shape


def many(one: Shape) -> Shape:
    """A list of such values."""

    def shape(value: Any, policy: Policy) -> Any:
        if not isinstance(value, (list, tuple)) or len(value) > _LONGEST_LIST:
            return None
        kept = [one(item, policy) for item in value]
        return None if None in kept else kept

    return shape


def identifier(kind: IdKind) -> Shape:
    """An id: its keyed digest leaves, under the same key."""

    def shape(value: Any, policy: Policy) -> Any:
        if value == "":
            return value
        if policy.key is None or not isinstance(value, (str, int)):
            return None
        return policy.key.digest(kind, str(value), policy.tenant)

    _IDENTIFIERS.add(shape)
    return shape


def digest(value: Any, policy: Policy) -> Any:
    """A digest that this policy's key made."""
    return value if policy.key and isinstance(value, str) and policy.key.made(value) else None


def key_id(value: Any, policy: Policy) -> Any:
    """The name of this policy's key."""
    return policy.key.id if policy.key and value == policy.key.id else None


def known(value: Any, _: Policy) -> Any:
    """A key or place that this module names, else ``other``."""
    return value if isinstance(value, str) and (value in KEYS or value in CONTENT or value in PLACES) else OTHER


def _is_exception(text: str) -> bool:
    module, _, qualified = text.rpartition(".")
    found = getattr(sys.modules.get(module or "builtins"), "__dict__", {}).get(qualified)
    return isinstance(found, type) and issubclass(found, BaseException)


_IDENTIFIERS: Final[set[Shape]] = set()

# Vocabularies

_GENAI: Final = (
    "chat generate_content text_completion embeddings retrieval execute_tool invoke_agent create_agent invoke_workflow"
    " plan"
)
_MEMORY: Final = "read write persist update retrieve forget"
_STANDARD: Final = " ".join(semconv.MEMORY_OPERATIONS)
_BLOCKS: Final = (
    "window facts static few_shot summary vector recall learning persistent_facts agent_facts user_facts plane"
    " persistent_facts.user persistent_facts.global persistent_facts.project persistent_facts.agent"
)
_SQL: Final = (
    "SELECT INSERT UPDATE DELETE BEGIN COMMIT ROLLBACK CREATE ALTER DROP WITH COPY SET SHOW EXPLAIN MERGE PRAGMA"
)
_REDIS: Final = (
    "GET MGET MSET DEL UNLINK EXISTS EXPIRE TTL INCR DECR PING HGET HSET HMGET HMSET HGETALL HDEL LPUSH RPUSH LPOP"
    " RPOP LRANGE LTRIM SADD SREM SMEMBERS ZADD ZREM ZRANGE ZREVRANGE ZRANGEBYSCORE SORT EVAL EVALSHA FCALL SCRIPT"
    " MULTI EXEC SCAN PIPELINE PUBLISH SUBSCRIBE AUTH HELLO CLIENT INFO XADD XREAD XRANGE"
)
_BLOCK_NAMES: Final = frozenset(_BLOCKS.split())
_METHODS: Final = "GET HEAD POST PUT DELETE CONNECT OPTIONS TRACE PATCH QUERY HTTP _OTHER"

SUBJECTS: Final = frozenset(f"{_GENAI} {_SQL} {_REDIS} {_METHODS}".split())
"""First words of span names; what follows one is a name."""
SPAN_NAMES: Final = frozenset([*(f"memory.{operation}" for operation in _MEMORY.split()), *semconv.MEMORY_OPERATIONS])
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

# The allow-list: a shape, and the keys whose values must have it.

_ALLOWED: Final[tuple[tuple[Shape, str], ...]] = (
    # memory
    (words(_MEMORY), "memory.operation"),
    (words(_BLOCKS), "memory.block_name"),
    (words(_BLOCKS, "persistent semantic curated messages"), "memory.block_type"),
    (count, "memory.block_count memory.message_count memory.messages_added memory.rendered_count"),
    (count, "memory.deduped_count memory.count gen_ai.memory.record.count"),
    (words(*Level), "memory.scope"),
    (words("user global project"), "memory.tier"),
    (words("stored discarded superseded deleted erased extracted_facts embedded summarized skipped"), "memory.action"),
    # model calls, agents, tools
    (words(_GENAI, _STANDARD), "gen_ai.operation.name"),
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
    (count, "memtrace.withheld"),
    (words(*Reason), "memtrace.export.reason"),
    (known, "memtrace.export.key"),
    (words("spans logs metrics"), "memtrace.export.signal"),
    (error_type, "error.type exception.type"),
    (flag, "exception.escaped"),
    # stores and servers
    (words("postgresql redis valkey sqlite mysql mariadb mongodb elasticsearch other_sql"), "db.system db.system.name"),
    (words(_SQL, _REDIS), "db.operation db.operation.name"),
    (status, "db.response.status_code"),
    (name, "db.namespace db.name db.collection.name http.route"),
    (count, "db.operation.batch.size db.response.returned_rows db.redis.database_index db.redis.args_length"),
    (count, "db.redis.pipeline_length http.response.status_code http.status_code http.request.body.size"),
    (count, "http.response.body.size http.request.resend_count server.port net.peer.port"),
    (words(_METHODS), "http.request.method http.method"),
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


def _silent(_key: str, _reason: Reason) -> None:
    """For those who do not want to know."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What may leave.

    Attributes:
        names: strings that may leave where a name belongs; never fill it from what users say.
        keys: attribute keys, exact, and the shape of each one's value.
        key: what ids are digested with; without it ids are dropped.
        tenant: keeps equal ids of two tenants apart.
        payloads: everything leaves, except ids.
    """

    names: frozenset[str] = frozenset()
    keys: Mapping[str, Shape] = field(default_factory=lambda: KEYS, repr=False)
    key: IdKey | None = None
    tenant: str = ""
    payloads: bool = False

    def naming(self, *names: str) -> Policy:
        """The same policy with more names."""
        return replace(self, names=self.names.union(names))

    def allowing(self, keys: Mapping[str, Shape]) -> Policy:
        """The same policy with more keys, each with a shape of this module or one's own."""
        return replace(self, keys=MappingProxyType({**self.keys, **keys}))

    def attributes(self, given: Mapping[str, Any] | None, note: Note = _silent) -> dict[str, Any]:
        """What leaves of attributes: of a span, an event, a link, a scope, a resource, a log record, a data point."""
        kept: dict[str, Any] = {}
        for key, value in (given or {}).items():
            shape = self.keys.get(key)
            identifies = shape in _IDENTIFIERS
            if self.payloads and not identifies:
                kept[key] = value
            elif shape is None:
                note(key, Reason.KEY)
            elif (leaving := shape(value, self)) is None:
                note(key, Reason.ID if identifies else Reason.SHAPE)
            else:
                kept[key] = leaving
                if identifies and self.key is not None:
                    kept[semconv.DIGEST_KEY_ID] = self.key.id
                elif leaving == OTHER:
                    note(key, Reason.NAME)
        return kept

    def name(self, text: str) -> str:
        """A registered name, else ``other``."""
        return text if text in self.names else OTHER

    def span_name(self, text: str, note: Note = _silent) -> str:
        """``memory.read.<block>``, ``chat <model>``, ``SELECT <table>`` …; ``other`` for what is not registered."""
        return self._told(text, self._span_name(text), "span name", note)

    def _span_name(self, text: str) -> str:
        if text in SPAN_NAMES or text in SUBJECTS:
            return text
        subject, _, rest = text.partition(" ")
        if rest and subject in SUBJECTS:
            return f"{subject} {self.name(rest)}"
        operation, _, block = text[len("memory.") :].partition(".")
        if text.startswith("memory.") and operation in ("read", "write"):
            return f"memory.{operation}.{block if block in _BLOCK_NAMES else self.name(block)}"
        return self.name(text)

    def event_name(self, text: str, note: Note = _silent) -> str:
        """The name of a span's event or of a log record's."""
        return self._told(text, text if text in EVENT_NAMES else self.name(text), "event name", note)

    def scope_name(self, text: str, note: Note = _silent) -> str:
        """The name of an instrumentation: a module that is loaded, or a registered name."""
        return self._told(text, text if text in sys.modules else self.name(text), "scope name", note)

    def metric_name(self, text: str, note: Note = _silent) -> str | None:
        """The name of a metric; ``None``: it does not leave, since two cannot share the name ``other``."""
        allowed = self.payloads or text in METRICS or text in self.names
        if not allowed:
            note("metric name", Reason.NAME)
        return text if allowed else None

    def version(self, text: str | None, note: Note = _silent) -> str | None:
        """The version of an instrumentation."""
        return self._told(text, version(text, self), "scope version", note) if text else None

    def schema(self, text: str | None, note: Note = _silent) -> str | None:
        """The address of a version of OpenTelemetry's schema."""
        return self._told(text, text if _SCHEMA.fullmatch(text) else "", "schema", note) if text else text

    def one_of(self, vocabulary: frozenset[str], text: str | None, place: str, note: Note = _silent) -> str | None:
        """A unit, a severity: the word if it is known, else nothing."""
        return self._told(text, text if text in vocabulary else "", place, note) if text else text

    def text(self, text: Any, place: str, note: Note = _silent) -> Any:
        """Free text: a description, a body, a status, a trace state. Nothing leaves of it."""
        if self.payloads or not text:
            return text
        note(place, Reason.TEXT)
        return None

    def _told(self, text: str, leaving: str, place: str, note: Note) -> str:
        if self.payloads or text == leaving:
            return text
        note(place, Reason.NAME)
        return leaving
