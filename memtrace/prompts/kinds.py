"""Which span is a model call, and which a memory operation, whoever wrote it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from memtrace.semconv import (
    CREATE_MEMORY,
    DELETE_MEMORY,
    INFERENCE_OPERATIONS,
    INPUT_MESSAGES,
    MEMORY_OPERATION,
    MEMORY_OPERATIONS,
    OPERATION_NAME,
    REQUEST_MESSAGES,
    REQUEST_MODEL,
    SEARCH_MEMORY,
    UPDATE_MEMORY,
    UPSERT_MEMORY,
)

_INFERENCE: Final = INFERENCE_OPERATIONS | {"responses"}  # Sentry's, for OpenAI's responses
_KINDS: Final = {
    "openinference.span.kind": frozenset({"LLM"}),
    "langfuse.observation.type": frozenset({"generation"}),
    "mlflow.spanType": frozenset({"LLM", "CHAT_MODEL", '"LLM"', '"CHAT_MODEL"'}),
    "llm.request.type": frozenset({"chat", "completion"}),  # OpenLLMetry
}
"""Attributes that tell a span's kind, and what they say of a model call."""
_NAMES: Final = re.compile(
    r"(chat|generate_content|text_completion|responses)( .*)?|call_llm|llm\..+|ai\..+\.do(Generate|Stream)"
)
_OTHER_NAMES: Final = re.compile(r"(invoke_agent|execute_tool|create_agent|invoke_workflow|agent|tool)\b.*", re.DOTALL)
_PROMPT_KEYS: Final = re.compile(r"llm\.input_messages\.|llm\.prompts\.|gen_ai\.prompt\.[0-9]+\.")

_VERBS: Final = {
    SEARCH_MEMORY: ("search", "get", "list", "history", "read", "retrieve", "query", "recall"),
    UPSERT_MEMORY: ("add", "write", "persist", "extract", "append", "put"),
    CREATE_MEMORY: ("create",),
    UPDATE_MEMORY: ("update",),
    DELETE_MEMORY: ("delete", "forget"),
}
_OPERATION_OF: Final = {verb: operation for operation, verbs in _VERBS.items() for verb in verbs}

# Of span names and of operation names alike: mem0 through loongsuite and OpenLIT, Strands, FastAIAgent, memorysync.
_MEMORY_NAME: Final = re.compile(
    r"(?:memory_operation |memory |memory\.|memorysync\.)(?:batch_|bulk_)?([a-z]+).*", re.DOTALL
)
_AGENTCORE: Final = {
    "CreateEvent": UPSERT_MEMORY,
    "GetEvent": SEARCH_MEMORY,
    "ListEvents": SEARCH_MEMORY,
    "DeleteEvent": DELETE_MEMORY,
    "RetrieveMemoryRecords": SEARCH_MEMORY,
    "CreateMemory": "create_memory_store",
    "DeleteMemory": "delete_memory_store",
}
"""Spans of the service itself; such a name alone says little, so they count only where ``memory.id`` is there too."""


def is_model_call(name: str, attributes: Mapping[str, Any]) -> bool:
    """Whether the span is one call of a model: not a run of an agent, an embedding, a tool or a memory operation."""
    if is_memory_operation(name, attributes):
        return False
    operation = _word(attributes, OPERATION_NAME)
    if operation:
        return operation in _INFERENCE
    for key, calls in _KINDS.items():
        if kind := _word(attributes, key):
            return kind in calls
    if _NAMES.fullmatch(name):
        return True
    return not _OTHER_NAMES.fullmatch(name) and _has_prompt(attributes)


def is_memory_operation(name: str, attributes: Mapping[str, Any]) -> bool:
    """Whether the span is an operation on a memory."""
    return memory_operation(name, attributes) is not None


def memory_operation(name: str, attributes: Mapping[str, Any]) -> str | None:
    """What OpenTelemetry calls the span's memory operation; ``None``: it is none, or one that has no name there.

    There is no operation for reading by id or listing, which count as ``search_memory``, nor for putting memory into
    a prompt (Strands' and pydantic-ai's ``memory.inject``).
    """
    operation = _word(attributes, OPERATION_NAME)
    if operation in MEMORY_OPERATIONS:
        return operation
    if operation in _INFERENCE:
        return None
    if "memory.id" in attributes and (known := _AGENTCORE.get(name.rpartition(".")[2])):
        return known
    verbs = (_word(attributes, "gen_ai.memory.operation"), _word(attributes, MEMORY_OPERATION))
    candidates = [operation, name, *(f"memory.{verb}" for verb in verbs if verb)]
    found = (_MEMORY_NAME.fullmatch(candidate) for candidate in candidates)
    return next((known for match in found if match and (known := _OPERATION_OF.get(match[1]))), None)


def _has_prompt(attributes: Mapping[str, Any]) -> bool:
    """Whether the span holds what only a model call's does: its kind may have been dropped for want of room."""
    if REQUEST_MESSAGES in attributes or (INPUT_MESSAGES in attributes and REQUEST_MODEL in attributes):
        return True
    return any(isinstance(key, str) and _PROMPT_KEYS.match(key) for key in attributes)


def _word(attributes: Mapping[str, Any], key: str) -> str:
    value = attributes.get(key)
    return value if isinstance(value, str) else ""
