"""Recorded values as trees: JSON opened as far as it can be, trees flattened, their texts collected.

Every walk here keeps its own stack: a span can nest deeper than Python recurses.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

_DECODER: Final = json.JSONDecoder(strict=False)
_GAP: Final = re.compile(r"[\s,]*")
_STRING: Final = re.compile(r'"((?:[^"\\]|\\.)*)(?:"(\s*:)?|\\?\Z)', re.DOTALL)
_HALF_ESCAPE: Final = re.compile(r"\\u[0-9a-fA-F]{0,3}\Z")
_ROLE: Final = re.compile(r'"role"\s*:\s*"(\w+)"')
_NOT_TEXT: Final = frozenset({"role", "type", "id", "finish_reason"})


def is_list(value: Any) -> bool:
    """Whether the value is a list: spans in memory hold tuples, their JSON lists."""
    return isinstance(value, (list, tuple))


def parsed(text: str) -> Any:
    """The text as JSON.

    Raises:
        ValueError: it is not JSON, or nests too deep to be read as such.
    """
    try:
        return _DECODER.decode(text)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def dumped(value: Any) -> str:
    """The value as JSON in which a search for plain text finds text."""
    try:
        return json.dumps(value, ensure_ascii=False, default=_plain)
    except (TypeError, ValueError, RecursionError):
        return "\n".join(strings(value))


def strings(value: Any) -> Iterator[str]:
    """Every text in a tree, in order; of bytes what can be decoded."""
    for leaf in leaves(value):
        if isinstance(leaf, str):
            yield leaf
        elif isinstance(leaf, bytes):
            yield leaf.decode("utf-8", "replace")


def leaves(value: Any) -> Iterator[Any]:
    """Everything in a tree that is neither a list nor a mapping, in order."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, Mapping):
            waiting.extend(reversed(list(item.values())))
        elif is_list(item):
            waiting.extend(reversed(item))
        else:
            yield item


def flat(value: Any) -> Iterator[Any]:
    """What is in a list, in the lists in it, and so on; of anything else itself."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if is_list(item):
            waiting.extend(reversed(item))
        else:
            yield item


def salvaged(text: str) -> list[Any]:
    """What can be read of JSON that is cut off: the messages that are whole, then the texts of the rest as one more."""
    found: list[Any] = []
    at = _after_gap(text, 1) if text.startswith("[") else 0
    while at and at < len(text):
        try:
            item, end = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        found.append(item)
        at = _after_gap(text, end)
    rest = text[at:] if found else text
    if said := "\n".join(_texts(rest)) or ("" if found else rest):
        role = _ROLE.search(rest)
        found.append({"role": role[1] if role else "user", "content": said})
    return found


def _texts(rest: str) -> Iterator[str]:
    """The strings of a piece of JSON that say something: not the keys, nor the roles and types."""
    key = ""
    for match in _STRING.finditer(rest):
        if match[2] is not None:
            key = match[1]
        elif key not in _NOT_TEXT:
            yield _unescaped(match[1])


def _unescaped(text: str) -> str:
    for candidate in (text, _HALF_ESCAPE.sub("", text)):
        try:
            return str(_DECODER.decode(f'"{candidate}"'))
        except ValueError:
            continue
    return text


def _after_gap(text: str, at: int) -> int:
    gap = _GAP.match(text, at)
    return gap.end() if gap else at


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return dict(value) if isinstance(value, Mapping) else str(type(value).__name__)
