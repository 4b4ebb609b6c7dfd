"""One reader for each way a prompt is recorded: what it finds on a span, and what it finds missing.

A reader yields nothing where the span has no such record.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from memtrace.prompts.flattened import messages_under
from memtrace.prompts.lost import Lost, flaws, is_mark
from memtrace.prompts.messages import Found, conversation, message
from memtrace.prompts.trees import flat, is_list, parsed, salvaged
from memtrace.semconv import INPUT_MESSAGES, REQUEST_MESSAGES, SYSTEM_INSTRUCTIONS

DETAILS: Final = "gen_ai.client.inference.operation.details"
"""OpenTelemetry's event that carries the attributes of content: a span event or a log record."""

_MESSAGE_EVENT: Final = re.compile(r"gen_ai\.(\w+)\.message")
_MESSAGE_FIELDS: Final = ("content", "role", "tool_calls", "id", "name")
_EVENT_CONTENT: Final = "gen_ai.event.content"

# Content blocks as JSON where only a text fits (Strands, older OpenLLMetry). Whatever else is said is its own text.
_BLOCKS: Final = re.compile(
    r'\s*\[\s*\{\s*"(type|text|toolUse|toolResult|image|document|reasoningContent|cachePoint)"\s*:'
)
_LEGACY_KEY: Final = re.compile(r"gen_ai\.prompt\.[0-9]+\.")
_COMPLETION_KEY: Final = re.compile(r"(gen_ai\.prompt\.[0-9]+\.)user")

_ORIGINAL_LENGTHS: Final = (
    "gen_ai.request.messages.original_length",
    "gen_ai.input.messages.original_length",
    "sentry.sdk_meta.gen_ai.input.messages.original_length",
)
_SENTRY_CUTS_AT: Final = 19_000


@dataclass(frozen=True, slots=True)
class Span:
    """What a reader looks at: a span's attributes and events, and what its limits did to it."""

    attributes: Mapping[str, Any]
    events: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    dropped_events: int = 0
    limit: int | None = None


Reader = Callable[[Span], Iterator[Found]]


def standard(span: Span) -> Iterator[Found]:
    """The standard's attributes. The system's instructions come first, wherever in the messages they were sent."""
    yield from _standard_in([span.attributes], _details_of(span), span.limit)
    yield from _shortened(span.attributes, INPUT_MESSAGES)


def details(span: Span) -> Iterator[Found]:
    """The same in events. Strands writes one event for the instructions and another for the messages."""
    yield from _standard_in(_details_of(span), [span.attributes], span.limit)


def instructions(span: Span) -> Iterator[Found]:
    """The system's instructions alone."""
    yield from _instructions_in(span.attributes, span.limit)


def request_messages(span: Span) -> Iterator[Found]:
    """Messages as a chat API takes them. Sentry keeps the system's instructions apart."""
    if REQUEST_MESSAGES not in span.attributes:
        return
    if INPUT_MESSAGES not in span.attributes and SYSTEM_INSTRUCTIONS in span.attributes:
        yield from _instructions_in(span.attributes, span.limit)
    yield from messages_in(span.attributes, REQUEST_MESSAGES, span.limit)
    yield from _shortened(span.attributes, REQUEST_MESSAGES)


def message_events(span: Span) -> Iterator[Found]:
    """One event a message, its author in the event's name; some emitters put its fields into one attribute as JSON."""
    for name, fields in span.events:
        if not (match := _MESSAGE_EVENT.fullmatch(name)):
            continue
        if _EVENT_CONTENT in fields:
            tree, lost = opened(fields[_EVENT_CONTENT], _EVENT_CONTENT, span.limit, plain=True)
            yield from lost
            for item in flat(tree):
                yield from message(item, match[1])
        else:
            body = {key: fields[key] for key in _MESSAGE_FIELDS if key in fields}
            yield from _scalar_message({"role": match[1], **body}, name, span.limit)


def openinference(span: Span) -> Iterator[Found]:
    """Flattened messages."""
    yield from _flattened(span.attributes, "llm.input_messages.", span.limit)


def completion_prompts(span: Span) -> Iterator[Found]:
    """Flattened prompts of a completion model, which have no author."""
    yield from _flattened(span.attributes, "llm.prompts.", span.limit, roles=False)


def openllmetry(span: Span) -> Iterator[Found]:
    """Flattened messages, their content perhaps as JSON. Other keys begin alike, as a template's name does."""
    own: dict[str, Any] = {}
    for key, value in span.attributes.items():
        if match := _COMPLETION_KEY.fullmatch(key):
            own |= {f"{match[1]}role": "user", f"{match[1]}content": value}
        elif _LEGACY_KEY.match(key):
            own[key] = value
    yield from _flattened(own, "gen_ai.prompt.", span.limit)


def all_messages(span: Span) -> Iterator[Found]:
    """A run's history, of which the last answer was not sent any more."""
    key = "pydantic_ai.all_messages"
    if key not in span.attributes:
        return
    yield from _instructions_in(span.attributes, span.limit)
    tree, lost = opened(span.attributes[key], key, span.limit)
    yield from lost
    items = list(flat(tree))
    yield from conversation(items[:-1] if items and _is_answer(items[-1]) else items)


def attribute(key: str) -> Reader:
    """The reader of one attribute that holds a request, its messages, or a text."""

    def read(span: Span) -> Iterator[Found]:
        if key in span.attributes:
            yield from messages_in(span.attributes, key, span.limit, plain=True)

    return read


def event(name: str, key: str) -> Reader:
    """The reader of one attribute of the events of that name."""

    def read(span: Span) -> Iterator[Found]:
        for each, fields in span.events:
            if each == name and key in fields:
                yield from messages_in(fields, key, span.limit, plain=True)

    return read


def messages_in(
    fields: Mapping[str, Any], key: str, limit: int | None = None, *, plain: bool = False
) -> Iterator[Found]:
    """The messages that one field holds."""
    tree, lost = opened(fields[key], key, limit, plain=plain)
    found = [*lost, *conversation(tree)]
    yield from found or [Lost(f"redacted: {key} holds no message")]


def opened(value: Any, where: str, limit: int | None, *, plain: bool = False) -> tuple[Any, list[Lost]]:
    """A recorded value as a tree, and what its form tells to be missing.

    ``plain``: a text that does not look like JSON stands for itself.
    """
    lost = list(flaws(value, where, limit))
    tree = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    if isinstance(tree, str):
        text = tree.strip()
        if is_mark(text):
            return [], lost
        if plain and text and not text.startswith(("[", "{")):
            return tree, lost
        try:
            tree = parsed(text)
        except ValueError:
            return salvaged(text), [*lost, Lost(f"unreadable: {where} is no JSON, or is cut off")]
        lost += [flaw for flaw in flaws(tree, where) if flaw not in lost]
    if not isinstance(tree, (str, Mapping)) and not is_list(tree):
        return [], [*lost, Lost(f"unreadable: {where} holds neither a text nor messages")]
    return tree, lost


def scalar(value: Any, where: str) -> tuple[Any, list[Lost]]:
    """A field that can only be a text, opened where it holds content blocks as JSON."""
    if not isinstance(value, str) or not _BLOCKS.match(value):
        return value, []
    try:
        return parsed(value), []
    except ValueError:
        return salvaged(value.strip()), [Lost(f"unreadable: {where} is no JSON, or is cut off")]


def _details_of(span: Span) -> list[Mapping[str, Any]]:
    return [fields for name, fields in span.events if name == DETAILS]


def _standard_in(
    own: Sequence[Mapping[str, Any]], other: Sequence[Mapping[str, Any]], limit: int | None
) -> Iterator[Found]:
    """The messages of one place, with the instructions of the same place, or else of the other."""
    keys = {key for fields in own for key in fields}
    if not keys & {INPUT_MESSAGES, f"{INPUT_MESSAGES}_ref", f"{SYSTEM_INSTRUCTIONS}_ref"}:
        return
    found: list[Found] = []
    for fields in own if SYSTEM_INSTRUCTIONS in keys else other:
        found += _instructions_in(fields, limit)
    for fields in own:
        found += messages_in(fields, INPUT_MESSAGES, limit) if INPUT_MESSAGES in fields else ()
    for key in (SYSTEM_INSTRUCTIONS, INPUT_MESSAGES):
        if f"{key}_ref" in keys and key not in keys:
            found.append(Lost(f"by reference: only {key}_ref is recorded"))
    yield from found


def _instructions_in(fields: Mapping[str, Any], limit: int | None) -> Iterator[Found]:
    if SYSTEM_INSTRUCTIONS not in fields:
        return
    tree, lost = opened(fields[SYSTEM_INSTRUCTIONS], SYSTEM_INSTRUCTIONS, limit, plain=True)
    yield from lost
    if parts := list(flat(tree)):
        yield from message({"role": "system", "parts": parts})


def _flattened(attributes: Mapping[str, Any], prefix: str, limit: int | None, *, roles: bool = True) -> Iterator[Found]:
    for item in messages_under(attributes, prefix, roles=roles):
        if isinstance(item, Lost):
            yield item
        else:
            yield from _scalar_message(item, prefix.rstrip("."), limit)


def _scalar_message(fields: Mapping[str, Any], where: str, limit: int | None) -> Iterator[Found]:
    """A message whose fields were recorded as texts."""
    yield from flaws(fields, where, limit)
    content, lost = scalar(fields.get("content"), where)
    calls = fields.get("tool_calls")
    if isinstance(calls, str):
        calls, unread = opened(calls, where, None)
        lost += unread
        if unread:  # what could be salvaged is text
            content, calls = [*flat([content or ""]), *flat(calls)], ()
    yield from lost
    yield from message({**fields, "content": content, "tool_calls": calls})


def _shortened(attributes: Mapping[str, Any], key: str) -> Iterator[Found]:
    """What Sentry's SDKs leave out of the messages before they record them.

    JavaScript: it says how many there were. Python: where it does not stream its spans, it records the last message
    alone, and says so nowhere on the span.
    """
    original = next((attributes[name] for name in _ORIGINAL_LENGTHS if name in attributes), None)
    mute = "thread.id" in attributes and not any(name.startswith("sentry.") for name in attributes)
    if key not in attributes or (original is None and not mute):
        return
    count = len(list(flat(opened(attributes[key], key, None)[0])))
    if original is not None and (str(original) != str(count) or len(str(attributes[key])) > _SENTRY_CUTS_AT):
        yield Lost(f"truncated: {key} was shortened from {original} messages")
    if mute and count == 1 and key == REQUEST_MESSAGES:
        yield Lost(f"truncated: {key} may be the last message alone, as Sentry records it")


def _is_answer(item: Any) -> bool:
    return isinstance(item, Mapping) and item.get("role") == "assistant"
