"""What a span may say, and in which form: chat messages, message parts, snippets, records, digests.

Nothing here touches a span. The functions run only for a span that records, and those that return someone's words only
where content may be captured (`opted_in`, or the provider is memtrace's own).
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import isfinite
from typing import Any, Final, TypeVar
from weakref import WeakSet

from opentelemetry.trace import ProxyTracerProvider, TracerProvider

from memtrace import semconv
from memtrace.errors import UsageError
from memtrace.identity import IdKey, IdKind, id_key
from memtrace.model import Author, Level, Message, Record, Scope, ToolCall

CAPTURE_VARIABLE: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
SNIPPETS: Final = 50
"""At most so many snippets a block: fastaiagent's bound."""
SNIPPET_LENGTH: Final = 200

_ON_SPANS: Final = frozenset({"SPAN_ONLY", "SPAN_AND_EVENT"})
_OFF: Final = frozenset({"", "NO_CONTENT", "EVENT_ONLY"})
_TIERS: Final = {Level.AGENT.value: "global", Level.USER.value: "user", Level.PROJECT.value: "project"}
_ID_KINDS: Final[dict[str, IdKind]] = {
    Level.USER.value: "user",
    Level.SESSION.value: "session",
    Level.AGENT.value: "agent",
}
_TEXT_FIELDS: Final = ("text", "content", "memory", "fact")

_log = logging.getLogger("memtrace")
_OWNED: Final[WeakSet[TracerProvider]] = WeakSet()

Attributes = dict[str, Any]
PromptLike = str | Sequence[Message | Mapping[str, Any]]
"""Messages of ours, chat-API dicts, or one string from the user."""
T = TypeVar("T")


def safely(call: Callable[..., T], *arguments: Any) -> T | None:
    """Run a piece of telemetry; what it raises is logged once, without its message, and goes no further."""
    try:
        return call(*arguments)
    except Exception as error:  # noqa: BLE001  telemetry never breaks the application, whatever objects it is shown
        _told(getattr(call, "__qualname__", "telemetry"), type(error).__name__)
        return None


@lru_cache(maxsize=256)
def _told(place: str, kind: str) -> None:
    # The message may quote the application's data.
    _log.warning("a span or metric is incomplete: %s raised %s (said once)", place, kind)


def opted_in() -> bool:
    """Whether the environment lets content onto spans of anyone's provider."""
    return _opted_in(os.environ.get(CAPTURE_VARIABLE, ""))


@lru_cache(maxsize=16)
def _opted_in(value: str) -> bool:
    mode = value.strip().upper()
    if mode not in _ON_SPANS | _OFF:
        _log.warning(
            "%s is none of NO_CONTENT, SPAN_ONLY, EVENT_ONLY, SPAN_AND_EVENT: no content is captured", CAPTURE_VARIABLE
        )
    return mode in _ON_SPANS


def own(provider: TracerProvider) -> None:
    """Mark a tracer provider as memtrace's: content and raw ids may be recorded on its spans.

    Only for a provider whose every processor may see users' words.
    """
    if isinstance(provider, ProxyTracerProvider):
        raise UsageError("no tracer provider is set yet: own(...) needs the provider itself, not the global stand-in")
    _OWNED.add(provider)


def disown(provider: TracerProvider) -> None:
    """Take the mark back: no content and no raw id from now on."""
    _OWNED.discard(provider)


def owned(provider: TracerProvider) -> bool:
    """Whether it was marked as memtrace's."""
    return provider in _OWNED


def identify(attributes: Attributes, name: str, kind: IdKind, values: Sequence[str], *, one: bool = True) -> None:
    """Add the digest of an id, or of several, and the name of the key it was made with."""
    key = id_key() if values else None
    if key is not None:
        attributes[semconv.DIGEST_KEY_ID], digest = _digester(key)
        attributes[name] = digest(kind, values[0]) if one else [digest(kind, value) for value in values]


@lru_cache(maxsize=4)
def _digester(key: IdKey) -> tuple[str, Callable[[IdKind, str], str]]:
    """The key's name and its digests, remembered: the same few ids come with every turn, and an HMAC costs a span."""
    return key.id, lru_cache(maxsize=4096)(key.digest)


def describe_scope(attributes: Attributes, scope: Scope, *, content: bool) -> None:
    """Whose: the level, the digest of the id, and with content the ids themselves."""
    attributes[semconv.MEMORY_SCOPE] = level = str(scope.level)
    if tier := _TIERS.get(level):
        attributes[semconv.MEMORY_TIER] = tier
    if content:
        attributes[semconv.MEMORY_SCOPE_ID] = scope.id
        attributes[semconv.MEMORY_PROJECT_ID] = scope.project
    if scope.id:
        identify(attributes, semconv.OWNER_DIGEST, _ID_KINDS.get(level, "scope"), [scope.id])


def text_of(item: object) -> str:
    """The words of a record, a message or whatever a memory hands out; ``""`` where there are none to be seen."""
    if isinstance(item, str):
        return str.__str__(item)  # A subclass may think differently of itself.
    if isinstance(item, (Record, Message)):
        return item.text
    for name in _TEXT_FIELDS:
        value = item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)
        if isinstance(value, str):
            return value
    return ""


def snippets(items: Sequence[object]) -> str:
    """``memory.snippets``: a JSON list of the first 50 texts, 200 characters each."""
    return json.dumps([text_of(item)[:SNIPPET_LENGTH] for item in items[:SNIPPETS]])


def records(items: Sequence[object], scores: Sequence[float]) -> str:
    """The standard's ``gen_ai.memory.records``: a JSON list of ``{content, id?, score?}``."""
    return json.dumps([_record(item, *scores[place : place + 1]) for place, item in enumerate(items)])


def _record(item: object, *score: float) -> dict[str, Any]:
    entry: dict[str, Any] = {"content": text_of(item)}
    if isinstance(item, Record) and item.id:
        entry["id"] = str(item.id)
    if score:
        entry["score"] = _finite(score[0])
    return entry


def numbers(scores: Sequence[float]) -> str:
    """Scores as a JSON list; what is not finite is ``null``."""
    return json.dumps([_finite(score) for score in scores])


def _finite(score: float) -> float | None:
    return float(score) if isfinite(score) else None


def chat_message(message: Message) -> dict[str, Any]:
    """A message in the form of the chat APIs."""
    entry: dict[str, Any] = {"role": str(message.author), "content": message.text}
    if message.tool_calls:
        entry["tool_calls"] = [_function_call(call) for call in message.tool_calls]
    if message.tool_call_id:
        entry["tool_call_id"] = message.tool_call_id
    return entry


def _function_call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def chat_messages(prompt: object) -> list[dict[str, Any]] | None:
    """A prompt (`PromptLike`, or the objects of a client library) in the form of the chat APIs.

    ``None`` where it cannot be told: no prompt was seen, or going through it would use it up.
    """
    if isinstance(prompt, str):
        return [{"role": str(Author.USER), "content": prompt}]
    return [_as_chat(item) for item in prompt] if isinstance(prompt, Sequence) else None


def _as_chat(item: object) -> dict[str, Any]:
    if isinstance(item, Message):
        return chat_message(item)
    if isinstance(item, Mapping):
        return dict(item)
    if dump := getattr(item, "model_dump", None):
        return dict(dump(exclude_none=True))
    return {"role": getattr(item, "role", ""), "content": text_of(item)}


def parts(chat: Mapping[str, Any]) -> dict[str, Any]:
    """A chat-API message as the standard's ``{role, parts}``. Tool arguments stay the text that was sent."""
    role, content = chat.get("role", ""), chat.get("content")
    if role == Author.TOOL:
        return {"role": role, "parts": [_response_part(chat)]}
    shown = [{"type": "text", "content": content}] if isinstance(content, str) and content else []
    if isinstance(content, Sequence) and not isinstance(content, str):
        shown = [_part(part) for part in content]
    return {"role": role, "parts": shown + [_call_part(call) for call in chat.get("tool_calls") or ()]}


def _part(part: Any) -> dict[str, Any]:
    if isinstance(part, Mapping) and part.get("type") in {"text", "input_text"}:
        return {"type": "text", "content": part.get("text", "")}
    return dict(part)


def _call_part(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function") or {}
    return {
        "type": "tool_call",
        "id": call.get("id"),
        "name": function.get("name"),
        "arguments": function.get("arguments"),
    }


def _response_part(chat: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "tool_call_response", "id": chat.get("tool_call_id"), "response": chat.get("content")}


def prompt(messages: object, system: object) -> Attributes:
    """The recorded prompt: as chat messages (fastaiagent, Sentry), and as parts (the standard).

    System messages among the messages stay in their place; only what the API takes apart from them is ``system``.
    """
    chat = chat_messages(messages)
    if chat is None:
        return {}
    recorded: Attributes = {semconv.INPUT_MESSAGES: json.dumps([parts(message) for message in chat])}
    if system:
        instructions = {"role": str(Author.SYSTEM), "content": system}
        recorded[semconv.SYSTEM_INSTRUCTIONS] = json.dumps(parts(instructions)["parts"])
        chat.insert(0, instructions)
    recorded[semconv.REQUEST_MESSAGES] = json.dumps(chat)
    return recorded


def reply(text: str, tool_calls: Sequence[ToolCall], finish: str) -> str:
    """The standard's ``gen_ai.output.messages`` for one answer."""
    message = parts(chat_message(Message(Author.ASSISTANT, text, tuple(tool_calls))))
    return json.dumps([{**message, "finish_reason": finish} if finish else message])
