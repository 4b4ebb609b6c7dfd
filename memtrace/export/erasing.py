"""Erase a user from a record: every trace that names them, and every line that nobody can read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from memtrace.errors import UsageError
from memtrace.export.record import recorded
from memtrace.export.record_files import files_of, locked, replace
from memtrace.export.record_lines import dumped, parsed, scopes_of, spans_of
from memtrace.identity import IdKind, id_key

_KINDS: Final[tuple[IdKind, ...]] = ("user", "scope", "session", "conversation")


def erase(directory: str | Path, user: str) -> int:
    """Remove from a record every trace in which a span names this user, by id or digest; how many spans went.

    Lines that cannot be read go too, since nobody can tell whom they name; they are not counted. A span that a running
    process has not written yet is not in the record: erase again when it is.

    Raises:
        UsageError: there is no record or no user; or a file could not be read or rewritten, in which case some spans
            of this user may remain.
    """
    place = Path(directory).expanduser()
    if not user:
        raise UsageError("name a user: an empty id is nobody's")
    try:
        if not place.is_dir():
            raise UsageError(f"{place} is no directory, so no record")
        with locked(place):
            names = _names(user)
            traces = {span.get("traceId") for span in recorded(place) if not names.isdisjoint(_strings(span))}
            return sum(_without(traces, file) for file in files_of(place))
    except OSError as error:
        raise UsageError(
            f"not all of {user!r} was erased from {place}: {error.strerror}; mend that, and erase again"
        ) from error


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


def _without(traces: set[Any], file: Path) -> int:
    """Leave these traces out of a file, and lines that cannot be read; how many spans went."""
    kept, gone, unreadable = [], 0, False
    for line in file.read_bytes().splitlines():
        batch = parsed(line)
        before = _count(batch)
        for scope in scopes_of(batch):
            scope["spans"] = [span for span in scope.get("spans", []) if span.get("traceId") not in traces]
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
