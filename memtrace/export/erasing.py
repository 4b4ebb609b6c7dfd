"""Erase a user from a record: every trace that names them, and every line that nobody can read.

A trace may lie in several files, and be named in one of them only. So the ids of the traces to erase are written down
before the first span goes, in a file that goes last: whatever cuts an erasure short, the next one finishes it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from memtrace.errors import UsageError
from memtrace.export.record import recorded
from memtrace.export.record_files import BEGUN, files_of, locked, read, replace, synced, written
from memtrace.export.record_lines import dumped, parsed, scopes_of, spans_of
from memtrace.identity import IdKind, id_key

_KINDS: Final[tuple[IdKind, ...]] = ("user", "scope", "session", "conversation")


def erase(directory: str | Path, user: str) -> int:
    """Remove from a record every trace in which a span names this user, by id or digest; how many spans went.

    Lines that cannot be read go too, since nobody can tell whom they name; they are not counted. A span that a running
    process has not written yet is not in the record: erase again when it is. An erasure that was cut short, whoever's,
    is finished first, and what goes with it is counted.

    Raises:
        UsageError: there is no record or no user; or a file could not be read or rewritten, in which case some spans
            of this user may remain until somebody erases again.
    """
    place = Path(directory).expanduser()
    if not user:
        raise UsageError("name a user: an empty id is nobody's")
    try:
        if not place.is_dir():
            raise UsageError(f"{place} is no directory, so no record")
        with locked(place):
            names = _names(user)
            named = {_trace(span) for span in recorded(place) if not names.isdisjoint(_strings(span))}
            with _noted(place / BEGUN, named) as traces:
                return sum(_without(traces, file) for file in files_of(place))
    except OSError as error:
        raise UsageError(
            f"not all of {user!r} was erased from {place}: {error.strerror}; mend that, and erase again"
        ) from error


@contextmanager
def _noted(note: Path, traces: set[str]) -> Iterator[set[str]]:
    """These traces, and those that an erasure which was cut short had begun with; noted until all of them are gone."""
    begun = _begun(note)
    if traces - begun:
        written(note, [json.dumps(sorted(traces | begun)).encode()], owner=note.parent.stat())
    yield traces | begun
    if traces or begun:
        synced(note.parent)
        note.unlink()


def _begun(note: Path) -> set[str]:
    try:
        return {str(trace) for trace in json.loads(read(note) or b"[]")}
    except (ValueError, TypeError):
        raise UsageError(
            f"{note}, which an erasure left, cannot be read: remove it, and erase those users again"
        ) from None


def _trace(span: dict[str, Any]) -> str:
    return str(span.get("traceId"))


def _names(user: str) -> set[str]:
    """A user's id, and its digests, where the key to them outlives a process."""
    key = id_key() if os.environ.keys() & {"MEMTRACE_ID_KEY", "MEMTRACE_ID_KEY_FILE"} else None
    return {user} | ({key.digest(kind, user) for kind in _KINDS} if key else set())


def _strings(thing: Any) -> Iterator[str]:
    """Every string in a JSON value."""
    if isinstance(thing, str):
        yield thing
    elif isinstance(thing, dict):
        for value in thing.values():
            yield from _strings(value)
    elif isinstance(thing, list):
        for value in thing:
            yield from _strings(value)


def _without(traces: set[str], file: Path) -> int:
    """Leave these traces out of a file, and lines that cannot be read; how many spans went."""
    kept, gone, unreadable = [], 0, False
    for line in file.read_bytes().splitlines():
        batch = parsed(line)
        before = _count(batch)
        for scope in scopes_of(batch):
            scope["spans"] = [span for span in scope.get("spans", []) if _trace(span) not in traces]
        left = _count(batch)
        gone += before - left
        unreadable |= not before
        if left:
            kept.append(dumped(batch))
    if gone or unreadable:
        replace(file, kept)
    return gone


def _count(batch: dict[str, Any]) -> int:
    return sum(1 for _ in spans_of(batch))
