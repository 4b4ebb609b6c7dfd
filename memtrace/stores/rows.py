"""What every backend shares: what a store refuses, and how a row becomes a record."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import fields, make_dataclass, replace
from typing import Any, Final

from memtrace.errors import UsageError
from memtrace.model import Level, Record, Scope

ACTIVE_COLUMNS: Final = "fact, id, confidence, source, source_trace_id, source_span_id, created_at"
"""The columns of ``learned_memory`` that say something of an active fact, in the order of `Record`'s fields."""

COLUMNS: Final = f"{ACTIVE_COLUMNS}, superseded_by"
"""Those of any fact."""

LARGEST_ID: Final = 2**63 - 1

A_DAY: Final = 86_400.0

MAYBE_DONE: Final = "a write that was under way may be done or not, and adding the same fact again is safe"
"""What has to be said where a server was asked and its answer is missing."""

MORE_TIME: Final = ", or raise timeout= (of Memory: store_timeout=)"
MORE_CONNECTIONS: Final = "allow more with connections= (of a store; Memory takes one as its location)"

# A frozen dataclass sets its fields through object.__setattr__, so that making 50 records costs as much as reading
# their rows. An unfrozen twin with the same slots is filled five times as fast, and then turned into a Record.
Draft: Any = make_dataclass("Draft", [field.name for field in fields(Record)], slots=True, init=False)
"""A record that is not done: once it is filled, its class becomes `Record`."""


def to_active_records(scope: Scope, rows: Iterable[Sequence[Any]]) -> list[Record]:
    """The records of one scope that rows of `ACTIVE_COLUMNS` hold."""
    made = []
    for row in rows:
        draft = Draft()
        draft.scope = scope
        (
            draft.text,
            draft.id,
            draft.confidence,
            draft.source,
            draft.source_trace_id,
            draft.source_span_id,
            draft.created_at,
        ) = row
        draft.superseded_by = None
        draft.__class__ = Record
        made.append(draft)
    return made


def to_records(scope: Scope, rows: Iterable[Sequence[Any]]) -> list[Record]:
    """The records of one scope that rows of `COLUMNS` hold."""
    return [replace(to_active_records(scope, [row])[0], superseded_by=by) for *row, by in rows]


def digest(text: str) -> bytes:
    """What the uniqueness of a fact rests on: 32 bytes, however long the text."""
    return hashlib.sha256(text.encode()).digest()


def is_storable(text: str) -> bool:
    """Whether every backend can hold this text: no NUL and no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def holds_something(scope: Scope) -> bool:
    """Whether anything can be filed under this scope at all."""
    return scope.id != "" and is_storable(scope.id) and is_storable(scope.project)


def require_scope(scope: Scope) -> None:
    """Refuse to write where nothing can be filed.

    Raises:
        UsageError: the id is empty, or the id or the project is no storable text.
    """
    if not scope.id:
        raise UsageError(f"a scope at level {scope.level} needs an id: an empty one names nobody")
    if not holds_something(scope):
        raise UsageError("an id or a project holds NUL or a lone surrogate, which no store keeps: remove it")


def require_record(record: Record) -> None:
    """Refuse a record that not every backend could hold.

    Raises:
        UsageError: a text or a number of it is not storable.
    """
    require_scope(record.scope)
    texts = (record.text, record.source, record.source_trace_id, record.source_span_id)
    if not all(map(is_storable, texts)):
        raise UsageError("a fact holds NUL or a lone surrogate, which no store keeps: remove it")
    if not (math.isfinite(record.confidence) and math.isfinite(record.created_at)):
        raise UsageError("a fact's confidence and created_at must be finite numbers")


def require_count(name: str, count: int | None) -> None:
    """Refuse a negative number of records.

    Raises:
        UsageError: it is negative.
    """
    if count is not None and count < 0:
        raise UsageError(f"{name}={count}: give a number of records, 0 for none")


def require_limits(*, timeout: float, connections: int) -> None:
    """Refuse limits under which nothing could be done.

    Raises:
        UsageError: ``timeout`` is not above 0 and at most a day, or ``connections`` is below 1.
    """
    if not 0 < timeout <= A_DAY or connections < 1:
        raise UsageError(
            f"timeout={timeout}, connections={connections}: timeout must be above 0 and at most 86,400 seconds,"
            " connections at least 1"
        )


def require_level(level: str) -> Level:
    """The level of this name.

    Raises:
        UsageError: there is none.
    """
    try:
        return Level(level)
    except ValueError:
        raise UsageError(f"level={level!r}: give one of {', '.join(Level)}") from None
