"""Messages that are spread over one attribute a field, as ``llm.input_messages.0.message.role``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from memtrace.prompts.lost import Lost

_INDEX: Final = re.compile(r"[0-9]{1,9}")


def messages_under(
    attributes: Mapping[str, Any], prefix: str, *, roles: bool = True
) -> Iterator[dict[str, Any] | Lost]:
    """The messages whose fields' keys start with the prefix, each as one mapping, in order; and what is missing.

    ``roles``: each must have one. It is written first, so it is what a full span drops first.
    """
    tree, where = _grown(attributes, prefix), prefix.rstrip(".")
    for item in _rows(tree, where):
        if isinstance(item, Lost):
            yield item
        else:
            fields = _fields(item)
            if roles and "role" not in fields:
                yield Lost(f"evicted: an item of {where} has no role")
            yield from _listed(fields, where)


def _fields(item: Any) -> dict[str, Any]:
    """A message's fields, out of the wrapper that OpenInference puts around each."""
    fields = item if isinstance(item, dict) else {"content": item}
    return next((fields[key] for key in ("message", "prompt") if isinstance(fields.get(key), dict)), fields)


def _listed(fields: dict[str, Any], where: str) -> Iterator[dict[str, Any] | Lost]:
    """The fields, with the lists in them as lists."""
    whole: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, dict) and value and all(_INDEX.fullmatch(key) for key in value):
            rows = list(_rows(value, f"{where}.{name}"))
            whole[name] = [row for row in rows if not isinstance(row, Lost)]
            yield from (row for row in rows if isinstance(row, Lost))
        else:
            whole[name] = value
    yield whole


def _rows(tree: Mapping[str, Any], where: str) -> Iterator[Any]:
    """The items of a list in the order of their indexes, and what is missing up to the last."""
    indexed = {int(key): item for key, item in tree.items() if _INDEX.fullmatch(key)}
    count = max(indexed, default=-1) + 1
    if missing := count - len(indexed):
        yield Lost(f"evicted: {missing} of the {count} items of {where} are missing")
    if len(indexed) < len(tree):
        yield Lost(f"unreadable: not every key of {where} has an index of its own")
    for index in sorted(indexed):
        yield indexed[index]


def _grown(attributes: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The tree that the flattened keys make; a key that is both a field and a field's beginning keeps both."""
    root: dict[str, Any] = {}
    for key, value in attributes.items():
        if not key.startswith(prefix):
            continue
        *path, leaf = key.removeprefix(prefix).split(".")
        node = root
        for step in path:
            node = _branch(node, step)
        if isinstance(node.get(leaf), dict):
            node[leaf][""] = value
        else:
            node[leaf] = value
    return root


def _branch(node: dict[str, Any], step: str) -> dict[str, Any]:
    child = node.get(step)
    if not isinstance(child, dict):
        child = node[step] = {"": child} if step in node else {}
    return child
