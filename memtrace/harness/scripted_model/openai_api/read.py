"""Reading a request body: what is there, of the type the API asks for, or one line that says where it is not."""

from __future__ import annotations

import json
from typing import Any, Final, TypeVar

from memtrace.errors import UsageError
from memtrace.model import Author

T = TypeVar("T")

_KINDS: Final = {str: "text", list: "a list", dict: "an object", type(None): "nothing"}
_AUTHORS: Final = {
    "system": Author.SYSTEM,
    "developer": Author.SYSTEM,
    "user": Author.USER,
    "assistant": Author.ASSISTANT,
    "tool": Author.TOOL,
}


def required(value: Any, kind: type[T], where: str) -> T:
    """The value.

    Raises:
        UsageError: it is of another kind.
    """
    if isinstance(value, kind):
        return value
    raise UsageError(f"{where} must be {_kind(kind)}, not {_kind(type(value))}")


def author_of(role: Any, where: str) -> Author:
    """Who wrote a message with this role; developer is the newer name of system."""
    author = _AUTHORS.get(required(role, str, where))
    if author is None:
        raise UsageError(f"{where} is {role!r}; known: {', '.join(_AUTHORS)}")
    return author


def text_of(content: Any, where: str) -> str:
    """All of a message's content as text: parts one a line, those without a text as their JSON."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list):
        return "\n".join(_part(part, f"{where}[{place}]") for place, part in enumerate(content))
    raise UsageError(f"{where} must be text or a list of parts, not {_kind(type(content))}")


def dump(value: Any) -> str:
    """The value as JSON that a search for plain text finds text in."""
    return json.dumps(value, ensure_ascii=False)


def _part(raw: Any, where: str) -> str:
    part = required(raw, dict, where)
    for name in ("text", "refusal"):
        if isinstance(part.get(name), str):
            return str(part[name])
    # An image's address or a file's name reached the model too: nothing that did may be missing from the record.
    return dump(part)


def _kind(kind: type) -> str:
    return _KINDS.get(kind, kind.__name__)
