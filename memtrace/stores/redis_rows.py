"""How a record is written in Redis: the keys of its scope, and its row, of which `redis_scripts` tells the parts."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple

from memtrace.model import Level, Record, Scope
from memtrace.stores.rows import Draft, digest

PREFIX: Final = "memtrace:"
_HEAD: Final = struct.Struct(">8xQddQI")
"""How a row begins: time in the order of bytes, id, time, confidence, what superseded it, where its text begins."""
_SIGN: Final = 1 << 63
_ALL: Final = (1 << 64) - 1

BY_HAND: Final = digest("")
"""The digest of the source of what is added by hand."""


class Keys(NamedTuple):
    """The keys of a scope, in the order in which every script gets them.

    Attributes:
        active: a sorted set of the active rows, all with score 0, so that it is in the order of their bytes, and the
            newest are one plain command.
        sources: likewise, of source digest and place, for the newest of one source.
        texts: a hash, digest of an active row's text to its id.
        marks: a hash, id of an active row to what else is known of it.
        superseded: a hash, id to row.
        replaced: a hash, id to the ids of those it superseded, one after the other.
        about: what the scope is, for maintenance.
    """

    active: str
    sources: str
    texts: str
    marks: str
    superseded: str
    replaced: str
    about: str


@dataclass(frozen=True, slots=True)
class Row:
    """A new row, and what its script needs to know beside it."""

    keys: Keys
    data: bytes
    mark: bytes
    about: str

    @property
    def place(self) -> bytes:
        """Where it is among the scope's rows: its time and its id."""
        return self.data[:16]

    @property
    def source(self) -> bytes:
        """The digest of its source."""
        return self.mark[8:40]

    @property
    def text_digest(self) -> bytes:
        """The digest of its text."""
        return self.mark[40:]


@lru_cache(maxsize=4096)
def keys_of(scope: Scope) -> Keys:
    """The keys of a scope; one hash tag for all, so that a Redis Cluster can take them, which no other scope has."""
    tag = hashlib.sha256(about(scope).encode()).hexdigest()
    return Keys(*(f"{PREFIX}{{{tag}}}:{part}" for part in Keys._fields))


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
