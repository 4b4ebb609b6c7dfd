"""How a record is written in Redis: the keys of its scope, and its row. `redis_scripts` says what they are for."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from memtrace.model import Level, Record, Scope
from memtrace.stores.rows import Draft, digest

PREFIX: Final = "memtrace:"
_PARTS: Final = ("active", "sources", "texts", "marks", "superseded", "replaced", "about")
_HEAD: Final = struct.Struct(">8xQddQI")
"""How a row begins: time in the order of bytes, id, time, confidence, what superseded it, where its text begins."""
_SIGN: Final = 1 << 63
_ALL: Final = (1 << 64) - 1

BY_HAND: Final = digest("")
"""The digest of the source of what is added by hand."""


@dataclass(frozen=True, slots=True)
class Row:
    """A new row, and what its script needs to know beside it."""

    keys: tuple[str, ...]
    data: bytes
    mark: bytes
    about: str


@lru_cache(maxsize=4096)
def keys_of(scope: Scope) -> tuple[str, ...]:
    """The keys of a scope, in the order of the scripts; one hash tag for all, which no other scope has."""
    tag = hashlib.sha256(about(scope).encode()).hexdigest()
    return tuple(f"{PREFIX}{{{tag}}}:{part}" for part in _PARTS)


def about(scope: Scope) -> str:
    """What a scope is; no part of it holds NUL."""
    return "\0".join((str(scope.level), scope.project, scope.id))


def scope_of(words: bytes) -> Scope:
    """The scope that `about` told of."""
    level, project, scope_id = words.decode().split("\0")
    return Scope(Level(level), scope_id, project)


def id_bytes(record_id: int) -> bytes:
    """A record id as rows and marks have it."""
    return record_id.to_bytes(8)


def new_row(record: Record, record_id: int, created_at: float) -> Row:
    """The row of a record that is to be added."""
    time = time_bytes(created_at)
    names = f"{record.source}\0{record.source_trace_id}\0{record.source_span_id}".encode()
    head = _HEAD.pack(record_id, created_at, record.confidence, 0, _HEAD.size + len(names))
    return Row(
        keys_of(record.scope),
        time + head[len(time) :] + names + record.text.encode(),
        time + digest(record.source) + digest(record.text),
        about(record.scope),
    )


def records_of(scope: Scope, rows: Sequence[bytes]) -> list[Record]:
    """The records that rows of one scope hold."""
    if not rows:
        return []
    made = []
    read, size = _HEAD.unpack_from, _HEAD.size
    for row in rows:
        draft = Draft()
        draft.scope = scope
        draft.id, draft.created_at, draft.confidence, by, begin = read(row)
        draft.superseded_by = by or None
        draft.source, draft.source_trace_id, draft.source_span_id = row[size:begin].decode().split("\0")
        draft.text = row[begin:].decode()
        draft.__class__ = Record
        made.append(draft)
    return made


def time_bytes(seconds: float) -> bytes:
    """A time as 8 bytes whose order is that of times, negative ones too."""
    (bits,) = struct.unpack(">Q", struct.pack(">d", seconds))
    return int(bits ^ (_ALL if bits & _SIGN else _SIGN)).to_bytes(8)
