"""Recorded messages of any dialect as `Message`: chat APIs', the standard's parts, frameworks' content blocks.

What has no text of its own (a picture's address, a part of an unknown kind) is shown as its JSON: it was sent too.
A role that is not known counts as the user's, whose words a memory keeps, so that nothing is excused; its text stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any, Final

from memtrace.model import Author, Message, ToolCall
from memtrace.prompts.lost import Lost
from memtrace.prompts.trees import dumped, flat, is_list

Found = Message | Lost

AUTHORS: Final = {
    "system": Author.SYSTEM,
    "developer": Author.SYSTEM,
    "user": Author.USER,
    "human": Author.USER,
    "assistant": Author.ASSISTANT,
    "ai": Author.ASSISTANT,
    "model": Author.ASSISTANT,
    "reasoning": Author.ASSISTANT,
    "tool": Author.TOOL,
    "function": Author.TOOL,
}
"""Roles, and the types that some dialects have instead. Any other role: the user."""

THOUGHTS: Final = frozenset({"reasoning", "thinking", "text_reasoning"})

_CALLS: Final = frozenset(
    {"tool_call", "function_call", "tool-call", "tool_use", "server_tool_call", "custom_tool_call"}
)
_RESULTS: Final = frozenset(
    {
        "tool_call_response", "function_call_output", "tool-result", "tool_result", "server_tool_call_response",
        "custom_tool_call_output",
    }
)  # fmt: skip
_TEXTS: Final = THOUGHTS | {None, "text", "input_text", "output_text", "summary_text", "refusal", "compaction"}

_WRAPPED_CALL: Final = ("toolUse", "tool_call", "function_call", "functionCall")
_WRAPPED_RESULT: Final = ("toolResult", "function_response", "functionResponse")
_CALL_ID: Final = ("tool_call_id", "call_id", "toolUseId", "tool_use_id", "toolCallId", "id")
_ARGUMENTS: Final = ("arguments", "args", "input", "server_tool_call")
_RESULT: Final = ("response", "result", "output", "content", "server_tool_call_response")
_TEXT: Final = ("content", "text", "refusal")
_LABELS: Final = frozenset(
    {
        "role", "type", "id", "name", "index", "status", "object", "finish_reason", "modality", "mime_type",
        "media_type", "visible", "builtin", *_CALL_ID,
    }
)  # fmt: skip

_CONTENT: Final = ("parts", "content", "contents", "text", "refusal")
_SYSTEM: Final = ("system", "instructions", "system_instruction", "systemInstruction", "system_prompt")
_BODY: Final = ("messages", "contents", "input", "prompt")


def conversation(tree: Any) -> Iterator[Found]:
    """The messages in a tree: a list of them, a request body that holds such a list, or one message alone."""
    for item in flat(tree):
        if _is_body(item):
            yield from _body(item)
        else:
            yield from message(item)


def message(raw: Any, role: str = "user") -> Iterator[Found]:
    """One recorded message. It becomes more than one where its parts have more than one author."""
    if isinstance(raw, str):
        yield Message(author_of(role), raw)
        return
    if not isinstance(raw, Mapping):
        yield Lost("unreadable: a message is neither a text nor an object")
        return
    fields = _unwrapped(raw, ("message", "kwargs", "data"))
    author = author_of(fields.get("role") or _role_of_type(fields) or role)
    pieces = list(_pieces(fields, author))
    if not pieces and not any(_is_hidden(part) for part in flat(fields.get("parts", ()))):
        yield Lost("redacted: a message without its content")
    yield from _joined(_with_id(pieces, fields))


def author_of(role: Any) -> Author:
    """Who wrote a message with this role."""
    return AUTHORS.get(role.strip().lower(), Author.USER) if isinstance(role, str) else Author.USER


def _is_body(item: Any) -> bool:
    if not isinstance(item, Mapping) or "role" in item or _is_call_or_result(item):
        return False
    return _has(item, _BODY)


def _body(body: Mapping[str, Any]) -> Iterator[Found]:
    """A request: its system text, wherever the API puts it, then its messages."""
    config = body.get("config")
    for place in (body, config if isinstance(config, Mapping) else {}):
        for key in _SYSTEM:
            if text := place.get(key):
                yield from message({"parts": list(flat(_inner_parts(text))), "role": "system"})
    for key in _BODY:
        for item in flat(body.get(key) or ()):
            yield from message(item)


def _inner_parts(value: Any) -> Any:
    return value["parts"] if isinstance(value, Mapping) and "parts" in value else value


def _pieces(fields: Mapping[str, Any], author: Author) -> Iterator[Found]:
    """Everything that a message says, each part of it as a message of its own."""
    if "role" not in fields and _is_call_or_result(fields):
        yield from _part(fields, author)
        return
    yield from _contents(fields, author)
    calls = fields.get("tool_calls") or fields.get("function_call") or ()
    for call in calls if is_list(calls) else (calls,):
        yield from _call(call, author)
    known = {*_CONTENT, *_LABELS, "tool_calls", "function_call"}
    if rest := {key: value for key, value in fields.items() if key not in known and _says_something(value)}:
        yield Message(author, dumped(rest))


def _contents(fields: Mapping[str, Any], author: Author) -> Iterator[Found]:
    """What stands under the keys for content; once, where a dialect says the same under two."""
    before: list[list[Found]] = []
    for key in _CONTENT:
        value = fields.get(key)
        if value is None or (value == "None" and fields.get("tool_calls")):  # Sentry writes a null as text
            continue
        parts = value if is_list(value) else (value,)
        pieces: list[Found] = [piece for part in parts for piece in _part(part, author)]
        pieces = pieces if parts else [Message(author, "")]
        if pieces not in before:
            yield from pieces
        before.append(pieces)


def _part(part: Any, author: Author) -> Iterator[Found]:
    """One part of a message's content."""
    if part is None:
        yield Lost("redacted: a part without its content")
        return
    if not isinstance(part, Mapping):
        yield Message(author, part if isinstance(part, str) else dumped(part))
        return
    fields = _unwrapped(part, ("message_content",))
    kind = fields.get("type")
    kind = kind if isinstance(kind, str) else None
    if _is_hidden(fields):
        return
    if kind in _CALLS or _has(fields, _WRAPPED_CALL):
        yield from _call(fields, author)
    elif kind in _RESULTS or _has(fields, _WRAPPED_RESULT):
        yield from _result(fields)
    elif kind in _TEXTS and (text := _first(fields, _TEXT, of=str)) is not None:
        yield Message(author, text)
    elif any(value is not None for key, value in fields.items() if key not in _LABELS):
        yield Message(author, dumped(fields))
    else:
        yield Lost("redacted: a part without its content")


def _call(raw: Any, author: Author) -> Iterator[Found]:
    """A tool call, in a list of calls or among the parts."""
    if not isinstance(raw, Mapping):
        yield Lost("unreadable: a tool call is no object")
        return
    fields = _unwrapped(raw, (*_WRAPPED_CALL, "function"))
    call = ToolCall(_word(fields, _CALL_ID), _word(fields, ("name", "toolName")))
    if not _has(fields, _ARGUMENTS):
        yield Lost("redacted: a tool call without its arguments")
    elif (arguments := _first(fields, _ARGUMENTS)) is not None:
        call = replace(call, arguments=arguments if isinstance(arguments, str) else dumped(arguments))
    yield Message(author, "", tool_calls=(call,))


def _result(raw: Mapping[str, Any]) -> Iterator[Found]:
    """A tool's result. It is the tool's whatever the message's role says: pydantic-ai files it under the user."""
    fields = _unwrapped(raw, _WRAPPED_RESULT)
    if not _has(fields, _RESULT):
        yield Lost("redacted: a tool result without its content")
        return
    yield Message(Author.TOOL, _text(_first(fields, _RESULT)), tool_call_id=_word(fields, _CALL_ID))


def _text(value: Any) -> str:
    """A tool's result as the text that the model read; texts in a list one a line."""
    if value is None or isinstance(value, str):
        return value or ""
    if is_list(value) and value and all(isinstance(item, Mapping) and _first(item, _TEXT, of=str) for item in value):
        return "\n".join(_first(item, _TEXT, of=str) for item in value)
    return dumped(value)


def _joined(pieces: Iterable[Found]) -> Iterator[Found]:
    """One message for the neighbours that one author wrote."""
    found = list(pieces)
    yield from (piece for piece in found if isinstance(piece, Lost))
    said = [piece for piece in found if isinstance(piece, Message)]
    for (author, call_id), run in groupby(said, key=lambda piece: (piece.author, piece.tool_call_id)):
        together = list(run)
        text = "\n".join(piece.text for piece in together if not piece.tool_calls)
        yield Message(author, text, tuple(call for piece in together for call in piece.tool_calls), call_id)


def _with_id(pieces: list[Found], fields: Mapping[str, Any]) -> Iterator[Found]:
    """A tool's message names the call it answers beside its content."""
    call_id = _word(fields, _CALL_ID)
    for piece in pieces:
        if isinstance(piece, Message) and piece.author is Author.TOOL and not piece.tool_call_id:
            yield replace(piece, tool_call_id=call_id)
        else:
            yield piece


def _is_hidden(part: Any) -> bool:
    """Whether the part is in the history and is not shown to the model any more, as pydantic-ai says it."""
    return isinstance(part, Mapping) and part.get("visible") is False


def _is_call_or_result(fields: Mapping[str, Any]) -> bool:
    kind = fields.get("type")
    return isinstance(kind, str) and kind in _CALLS | _RESULTS


def _role_of_type(fields: Mapping[str, Any]) -> str | None:
    """The author of an item that has a type instead of a role: OpenAI's responses, LangChain."""
    kind = fields.get("type")
    if not isinstance(kind, str):
        return None
    return "assistant" if kind in _CALLS else kind if kind in AUTHORS else None


def _unwrapped(fields: Mapping[str, Any], wrappers: Iterable[str]) -> Mapping[str, Any]:
    """The fields, with those of an object that wraps them among them."""
    for key in wrappers:
        inner = fields.get(key)
        if isinstance(inner, Mapping):
            fields = {**{name: value for name, value in fields.items() if name != key}, **inner}
    return fields


def _first(fields: Mapping[str, Any], keys: Iterable[str], *, of: type = object) -> Any:
    return next((fields[key] for key in keys if isinstance(fields.get(key), of) and key in fields), None)


def _has(fields: Mapping[str, Any], keys: Iterable[str]) -> bool:
    return any(key in fields for key in keys)


def _word(fields: Mapping[str, Any], keys: Iterable[str]) -> str:
    return str(_first(fields, keys, of=str) or "")


def _says_something(value: Any) -> bool:
    return bool(value) and (isinstance(value, (str, bytes, Mapping)) or is_list(value))
