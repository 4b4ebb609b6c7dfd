"""How a record is written in Redis: the keys of its scope, and its row. `redis_scripts` says what they are for."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat
from typing import Final

from memtrace.model import Level, Record, Scope
from memtrace.stores.redis_scripts import NOBODY
from memtrace.stores.rows import to_records

PREFIX: Final = "memtrace:"
_PARTS: Final = ("rows", "order", "sources", "texts", "replaced", "about")
_FIELDS: Final = 9
"""Fields of a row, with NUL in between."""
_SIGN: Final = 1 << 63
_ALL: Final = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Row:
    """A new row, and what its script needs to know beside it."""

    keys: tuple[str, ...]
    text: str
    by_hand: str
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


def id_text(record_id: int) -> str:
    """A record id as rows and places have it."""
    return f"{record_id:016x}"


def source_digest(source: str) -> str:
    """What stands for a source: 64 hexadecimal digits."""
    return hashlib.sha256(source.encode()).hexdigest()


def new_row(record: Record, record_id: int, created_at: float) -> Row:
    """The row of a record that is to be added."""
    text = "\0".join(
        (
            _time_text(created_at) + id_text(record_id),
            source_digest(record.source),
            hashlib.sha256(record.text.encode()).hexdigest(),
            NOBODY,
            repr(float(record.confidence)),
            record.source,
            record.source_trace_id,
            record.source_span_id,
            record.text,
        )
    )
    return Row(keys_of(record.scope), text, source_digest(""), about(record.scope))


def records_of(scope: Scope, rows: Sequence[bytes]) -> list[Record]:
    """The records that rows of one scope hold."""
    if not rows:
        return []
    fields = b"\0".join(rows).decode().split("\0")
    columns = [fields[n::_FIELDS] for n in range(_FIELDS)]
    places, _, _, superseders, confidences, sources, traces, spans, texts = columns
    values = zip(  # noqa: B905  one may be without end
        texts,
        [int(place[16:], 16) for place in places],
        map(float, confidences),
        sources,
        traces,
        spans,
        _times(places),
        repeat(None) if superseders.count(NOBODY) == len(superseders) else map(_superseder, superseders),
    )
    return to_records(scope, values)


def _superseder(by: str) -> int | None:
    return None if by == NOBODY else int(by, 16)


def _time_text(seconds: float) -> str:
    """A time as 16 hexadecimal digits whose order is that of times, negative ones too, and which tell it exactly."""
    (bits,) = struct.unpack(">Q", struct.pack(">d", seconds + 0.0))  # -0.0 is the same time as 0.0
    return f"{bits ^ (_ALL if bits & _SIGN else _SIGN):016x}"


def _times(places: Sequence[str]) -> tuple[float, ...]:
    bits = [int(place[:16], 16) for place in places]
    packed = struct.pack(f">{len(bits)}Q", *(each ^ (_SIGN if each & _SIGN else _ALL) for each in bits))
    return struct.unpack(f">{len(bits)}d", packed)
