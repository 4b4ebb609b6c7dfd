"""What an answer of the plane says: facts, that they are unchanged, or why there are none."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Final

from memtrace.plane.fetching import Answer
from memtrace.plane.states import Failure, Status, pause_asked

_SPACE: Final = re.compile(r"\s+")
_OK, _UNCHANGED = 200, 304
_STATUS: Final = {401: Status.UNAUTHORIZED, 403: Status.UNAUTHORIZED, 429: Status.LIMITED}
_OF_AGENT: Final = frozenset({400, 403, 404, 422})
"""Statuses that say something of what was asked for, not of the plane."""


def facts_of(answer: Answer, *, limit: int, asked_if_changed: bool, clock: Callable[[], float]) -> list[str] | None:
    """The facts of an answer, at most so many; ``None``: those that are known are still right.

    Raises:
        Failure: it is no such answer.
    """
    if answer.status == _UNCHANGED and asked_if_changed:
        return None
    if answer.status != _OK:
        raise Failure(
            _STATUS.get(answer.status, Status.FAILED), f"HTTP {answer.status}",
            pause=pause_asked(answer.headers, clock), of_agent=answer.status in _OF_AGENT,
        )  # fmt: skip
    return _contents(answer.body)[:limit]


def unique(facts: list[str]) -> tuple[tuple[str, ...], int]:
    """Each fact once, as it first came, whatever its case and spaces; and how many were left out."""
    kept = {_SPACE.sub(" ", fact).strip().casefold(): fact for fact in reversed(facts)}
    return tuple(reversed(kept.values())), len(facts) - len(kept)


def _contents(body: bytes) -> list[str]:
    try:
        facts = json.loads(body)["facts"]
        contents = [fact["content"] for fact in facts] if isinstance(facts, list) else None
    except (ValueError, TypeError, KeyError, RecursionError):
        contents = None
    if contents is None or not all(isinstance(content, str) for content in contents):
        raise Failure(Status.MALFORMED, "an answer that is no list of facts")
    return [content for content in contents if content.strip()]
