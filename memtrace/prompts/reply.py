"""What the model answered, as a span records it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from memtrace.model import Author, Message
from memtrace.prompts.flattened import messages_under
from memtrace.prompts.lost import Lost, is_mark
from memtrace.prompts.messages import THOUGHTS, conversation
from memtrace.prompts.readers import DETAILS, opened, scalar
from memtrace.prompts.trees import flat, is_list
from memtrace.semconv import OUTPUT_MESSAGES

Events = Sequence[tuple[str, Mapping[str, Any]]]

_ATTRIBUTES: Final = (
    OUTPUT_MESSAGES,  # OpenTelemetry 1.37 on
    "gen_ai.response.content",  # FastAIAgent
    "gen_ai.response.text",  # Sentry
    "ai.response.text",  # Vercel AI SDK
    "response_data",  # Logfire
    "final_result",  # pydantic-ai's runs
)
_CALLS_ALONE: Final = "gen_ai.response.tool_calls"  # FastAIAgent, where the answer has no text
_PREFIXES: Final = ("llm.output_messages.", "gen_ai.completion.")  # OpenInference, OpenLLMetry before 0.5x


def read_reply(attributes: Mapping[str, Any], *, events: Events = ()) -> str | None:
    """The text of the recorded answer, without the model's thoughts; ``None``: none is recorded.

    It is ``""`` where the model only called tools. Several choices are one a line. What was cut is as it was cut.
    """
    known = {key: value for key, value in attributes.items() if isinstance(key, str)}
    happened = [(name, fields or {}) for name, fields in events]
    return next((text for read in _READERS if (text := _text(list(read(known, happened)))) is not None), None)


def _attributes(attributes: Mapping[str, Any], _: Events) -> Iterator[Any]:
    key = next((key for key in _ATTRIBUTES if key in attributes), None)
    if key:
        tree = opened(attributes[key], key, None, plain=True)[0]
        tree = tree.get("message", tree) if isinstance(tree, Mapping) else tree
        said = tree.get("content") if isinstance(tree, Mapping) else None
        yield said if isinstance(said, str) else tree
    elif _CALLS_ALONE in attributes:
        yield ""


def _details(_: Mapping[str, Any], events: Events) -> Iterator[Any]:
    for name, fields in events:
        if name == DETAILS and OUTPUT_MESSAGES in fields:
            yield opened(fields[OUTPUT_MESSAGES], OUTPUT_MESSAGES, None)[0]


def _choices(_: Mapping[str, Any], events: Events) -> Iterator[Any]:
    """``gen_ai.choice``: the message is an object, or a text (Strands: content blocks as JSON)."""
    for name, fields in events:
        if name == "gen_ai.choice":
            content = fields.get("message", fields.get("content"))
            yield content if isinstance(content, Mapping) else {"content": scalar(content, name)[0]}


def _flattened(attributes: Mapping[str, Any], _: Events) -> Iterator[Any]:
    for prefix in _PREFIXES:
        yield from (item for item in messages_under(attributes, prefix) if not isinstance(item, Lost))


_READERS: Final[tuple[Callable[[Mapping[str, Any], Events], Iterator[Any]], ...]] = (
    _attributes,
    _details,
    _choices,
    _flattened,
)


def _text(trees: list[Any]) -> str | None:
    """The texts of the messages; not those of tools, which a run's output may hold too."""
    found = [item for tree in trees for each in flat(tree) for item in conversation(_aloud(each))]
    said = [item.text for item in found if isinstance(item, Message) and item.author is not Author.TOOL]
    if not said or any(is_mark(text) for text in said):
        return None
    return "\n".join(text for text in said if text)


def _aloud(raw: Any) -> Any:
    """A message without the parts in which the model thinks."""
    if not isinstance(raw, Mapping):
        return raw
    lists: dict[str, Any] = {key: raw[key] for key in ("parts", "content", "contents") if is_list(raw.get(key))}
    return {**raw, **{key: [part for part in parts if not _is_thought(part)] for key, parts in lists.items()}}


def _is_thought(part: Any) -> bool:
    kind = part.get("type") if isinstance(part, Mapping) else None
    return isinstance(kind, str) and kind in THOUGHTS
