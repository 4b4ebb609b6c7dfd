"""Facts in a SQLite file."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, cast

from memtrace.errors import UsageError
from memtrace.model import Record, Scope
from memtrace.stores.rows import (
    ACTIVE_COLUMNS,
    COLUMNS,
    LARGEST_ID,
    digest,
    holds_something,
    is_storable,
    require_count,
    require_level,
    require_record,
    require_scope,
    to_active_records,
    to_records,
)
from memtrace.stores.sqlite_file import MEMORY, connect, failure
from memtrace.stores.sqlite_pool import Connections, FileConnections, Lease, MemoryConnection

_HERE: Final = "project_id = ? AND scope = ? AND scope_id = ?"
_ACTIVE: Final = f"{_HERE} AND superseded_by IS NULL"
_SUPERSEDED: Final = f"{_HERE} AND superseded_by IS NOT NULL"
_NEWEST_FIRST: Final = "ORDER BY created_at DESC, id DESC"


def _select(where: str, columns: str = COLUMNS) -> str:
    return f"SELECT {columns} FROM learned_memory WHERE {where}"  # noqa: S608  constants of this module alone


_WITH_ID: Final = _select(f"{_HERE} AND id = ?")
_SAME: Final = _select(f"{_ACTIVE} AND fact_sha256 = ?")
_NEWEST: Final = _select(f"{_ACTIVE} {_NEWEST_FIRST} LIMIT ?", ACTIVE_COLUMNS)
_NEWEST_OF_SOURCE: Final = _select(f"{_ACTIVE} AND source = ? {_NEWEST_FIRST} LIMIT ?", ACTIVE_COLUMNS)
_BEYOND: Final = _select(f"{_ACTIVE} AND source = ? {_NEWEST_FIRST} LIMIT -1 OFFSET ?")
_REPLACED: Final = _select(f"{_HERE} AND superseded_by = ?")
_HISTORY: Final = f"{_select(_ACTIVE)} UNION ALL {_select(_SUPERSEDED)} {_NEWEST_FIRST}"
_EVERYONE: Final = _select(
    f"project_id = ? AND scope = ? AND superseded_by IS NULL {_NEWEST_FIRST}", f"scope_id, {COLUMNS}"
)
_INSERT: Final = """
    INSERT INTO learned_memory (
        project_id, scope, scope_id, fact, fact_sha256, confidence, source, source_trace_id, source_span_id, created_at
    ) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_TAKE_OVER: Final = """
    UPDATE learned_memory SET source = ?, confidence = ?, source_trace_id = ?, source_span_id = ? WHERE id = ?
"""
_SUPERSEDE: Final = "UPDATE learned_memory SET superseded_by = ? WHERE id = ?"
_DELETE: Final = "DELETE FROM learned_memory WHERE id = ?"
_DELETE_ACTIVE: Final = f"DELETE FROM learned_memory WHERE {_ACTIVE}"  # noqa: S608  constants of this module alone
_DELETE_SUPERSEDED: Final = f"DELETE FROM learned_memory WHERE {_SUPERSEDED}"  # noqa: S608  likewise


class SqliteStore:
    """A `FactStore` in one file, for any number of threads and processes on one machine; or in memory, for one process.

    Readers never wait. A write waits up to ``timeout`` seconds for the writer before it. ``delete`` writes the whole
    file anew, about a second for 150 MB, because SQLite can otherwise leave copies of a deleted text in unused parts
    of its pages; and it empties the journal, for which it waits up to ``timeout`` for readers of an older state. Where
    one stays longer, later writes try again, and so does closing the last connection.

    Do not open the file by other means than SQLite in a process that has a store on it: closing it again drops the
    process's locks. A new file is readable and writable for its owner only.

    Args:
        path: the file, made where there is none; ``":memory:"`` keeps facts until `close`.
        durable: a write that returned survives a power failure too, not only the death of the process; each write then
            waits for the disk.
        timeout: seconds.

    Raises:
        UsageError: ``path`` is no path.
        StoreError: the file cannot be opened, or holds something else.
    """

    def __init__(self, path: str | os.PathLike[str], *, durable: bool = False, timeout: float = 5.0) -> None:
        self._path = _absolute(os.fspath(path))
        self._timeout = timeout
        opening = partial(connect, self._path, patience=timeout, durable=durable)
        failing = partial(failure, self._path)
        self._connections: Connections = (
            MemoryConnection(opening, failing)
            if self._path == MEMORY
            else FileConnections(opening, failing, patience=timeout)
        )
        self._rewrite_owed = self._journal_owed = False
        with self._reading():
            pass

    def __repr__(self) -> str:
        return f"SqliteStore({self._path!r})"

    def add(self, record: Record) -> Record:
        """See `FactStore.add`."""
        require_record(record)
        with self._writing() as db:
            return _put(db, record)

    def get(self, scope: Scope, record_id: int) -> Record | None:
        """See `FactStore.get`."""
        if not holds_something(scope):
            return None
        with self._reading() as db:
            return next(iter(_with_id(db, scope, record_id)), None)

    def newest(self, scope: Scope, limit: int | None = 50, *, source: str | None = None) -> list[Record]:
        """See `FactStore.newest`. The time it takes depends on how many it returns, not on how many are stored."""
        require_count("limit", limit)
        if not (holds_something(scope) and is_storable(source or "")):
            return []
        count = -1 if limit is None else min(limit, LARGEST_ID)
        with self._reading() as db:
            if source is None:
                rows = db.execute(_NEWEST, (*_key(scope), count)).fetchall()
            else:
                rows = db.execute(_NEWEST_OF_SOURCE, (*_key(scope), source, count)).fetchall()
        return to_active_records(scope, rows)

    def history(self, scope: Scope) -> list[Record]:
        """See `FactStore.history`."""
        if not holds_something(scope):
            return []
        with self._reading() as db:
            rows = db.execute(_HISTORY, (*_key(scope), *_key(scope))).fetchall()
        return to_records(scope, rows)

    def everyone(self, level: str, project: str = "") -> list[Record]:
        """See `FactStore.everyone`."""
        known = require_level(level)
        if not is_storable(project):
            return []
        with self._reading() as db:
            rows = db.execute(_EVERYONE, (project, known.value)).fetchall()
        return [to_records(Scope(known, scope_id, project), [row])[0] for scope_id, *row in rows]

    def supersede(self, scope: Scope, record_id: int, new: Record) -> Record:
        """See `FactStore.supersede`."""
        require_record(new)
        if new.scope != scope:
            raise UsageError("a record is superseded by one of its own scope: give both the same")
        with self._writing() as db:
            old = next(iter(_with_id(db, scope, record_id)), None)
            if old is None or old.superseded_by is not None:
                raise UsageError(f"record {record_id} is no active record of this scope: name one that it has")
            if old.text == new.text:
                return old
            kept = _put(db, new)
            db.execute(_SUPERSEDE, (kept.id, old.id))
            return kept

    def delete(self, scope: Scope, record_id: int | None = None) -> int:
        """See `FactStore.delete`.

        Raises:
            StoreError: also where the records went and the file could not be written anew; deleting again tries again.
        """
        require_scope(scope)
        with self._writing() as db:
            if record_id is None:
                count = sum(db.execute(each, _key(scope)).rowcount for each in (_DELETE_ACTIVE, _DELETE_SUPERSEDED))
            else:
                count = len(_remove(db, scope, _with_id(db, scope, record_id)))
            # Before it is done, so that who is interrupted next and deletes again leaves nothing.
            self._rewrite_owed = self._rewrite_owed or count > 0
        if count or self._rewrite_owed:
            self._leave_nothing()
        return count

    def prune(self, scope: Scope, source: str, keep: int) -> list[Record]:
        """See `FactStore.prune`."""
        require_scope(scope)
        require_count("keep", keep)
        if not is_storable(source):
            return []
        with self._writing() as db:
            rows = db.execute(_BEYOND, (*_key(scope), source, min(keep, LARGEST_ID))).fetchall()
            return _remove(db, scope, to_records(scope, rows))

    def vectors(self) -> None:
        """None: each process that searches has an index of its own."""

    def close(self) -> None:
        """See `FactStore.close`."""
        self._connections.close()

    def _reading(self) -> Lease:
        return self._connections.lend()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._reading() as db:
            db.execute("BEGIN IMMEDIATE")
            yield db
            db.execute("COMMIT")
            # The write is done; what an earlier one left to do is tried in passing.
            if self._journal_owed:
                self._journal_owed = not _emptied_journal(db, wait=0, usually=self._timeout)

    def _leave_nothing(self) -> None:
        self._rewrite_owed = self._journal_owed = True
        try:
            with self._reading() as db:
                db.execute("VACUUM")
                self._rewrite_owed = False
                self._journal_owed = not _emptied_journal(db, wait=self._timeout, usually=self._timeout)
        except BaseException:  # another thread may have said meanwhile that it is done, of what it deleted itself
            self._rewrite_owed = self._journal_owed = True
            raise


def _absolute(path: str) -> str:
    """The same file from wherever the process goes later; never what SQLite would take for a URI."""
    if path == MEMORY:
        return path
    if not path or "\0" in path:
        raise UsageError(f"{path!r} is no path: name a file, such as memory.db")
    return str(Path(path).absolute())


def _key(scope: Scope) -> tuple[str, str, str]:
    return scope.project, str(scope.level), scope.id


def _with_id(db: sqlite3.Connection, scope: Scope, record_id: int) -> list[Record]:
    """The record of this id, if there is one."""
    if not 0 < record_id <= LARGEST_ID:
        return []
    return to_records(scope, db.execute(_WITH_ID, (*_key(scope), record_id)).fetchall())


def _put(db: sqlite3.Connection, new: Record) -> Record:
    """The active record with the new one's text, added where there is none."""
    same = to_records(new.scope, db.execute(_SAME, (*_key(new.scope), digest(new.text))))
    if not same:
        return _insert(db, new)
    found = same[0]
    if new.source or not found.source:
        return found
    written = (new.source, new.confidence, new.source_trace_id, new.source_span_id)
    db.execute(_TAKE_OVER, (*written, found.id))
    return replace(new, id=found.id, created_at=found.created_at, superseded_by=None)


def _insert(db: sqlite3.Connection, new: Record) -> Record:
    created_at = new.created_at or time.time()
    values = (
        *_key(new.scope),
        new.text,
        digest(new.text),
        new.confidence,
        new.source,
        new.source_trace_id,
        new.source_span_id,
        created_at,
    )
    added = cast("int", db.execute(_INSERT, values).lastrowid)
    return replace(new, id=added, created_at=created_at, superseded_by=None)


def _remove(db: sqlite3.Connection, scope: Scope, records: list[Record]) -> list[Record]:
    """Delete records and all that they superseded; what went."""
    gone = list(records)
    for record in gone:  # which grows as it is walked: what the replaced ones had replaced goes too
        gone += to_records(scope, db.execute(_REPLACED, (*_key(scope), record.id)))
    db.executemany(_DELETE, ((record.id,) for record in gone))
    return gone


def _emptied_journal(db: sqlite3.Connection, *, wait: float, usually: float) -> bool:
    """Move all of the write-ahead log into the file and cut it to nothing; ``False`` where that has to wait."""
    db.execute(f"PRAGMA busy_timeout = {round(wait * 1000)}")
    try:
        busy: int = db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
    except sqlite3.OperationalError:
        return False
    finally:
        db.execute(f"PRAGMA busy_timeout = {round(usually * 1000)}")
    return not busy
