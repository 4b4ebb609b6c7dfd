"""Where the plane's tables are: SQLite or Postgres, spoken to in the SQL that both understand."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from memtrace.errors import StoreError, UsageError
from memtrace.stores.location import reads_like_a_url
from memtrace.stores.sqlite_file import failure, is_a_memorys
from memtrace.stores.sqlite_pool import FileConnections

Row = tuple[Any, ...]
Values = Sequence[object]

_POSTGRES: Final = ("postgresql://", "postgres://")
_PLANES: Final = int.from_bytes(b"mtpl")
"""Marks a file as a plane's (``PRAGMA application_id``). Files of earlier planes have none, and are told by a table."""


class Run(Protocol):
    """Runs one statement, with ``?`` for each value; its rows, if it has any."""

    def __call__(self, statement: str, values: Values = ()) -> list[Row]:
        """Run it."""


class Database(Protocol):
    """Rows, read one statement at a time and written in transactions; for any number of threads and processes."""

    serial: str
    """The type of a key that counts up."""
    append_only: tuple[str, ...]
    """Statements that make the table ``plane_audit`` refuse updates and deletes."""
    local: bool
    """A read takes microseconds and waits for nobody, so that an event loop may do it itself."""

    def read(self, statement: str, values: Values = ()) -> list[Row]:
        """The rows of one statement."""

    def transaction(self) -> AbstractContextManager[Run]:
        """A transaction that is on the disk once the block has ended, and did not happen if the block raised."""

    def close(self) -> None:
        """Close all connections."""


def open_database(location: str, *, timeout: float = 5.0) -> Database:
    """The database at a path or a ``postgresql://`` URL.

    Raises:
        UsageError: the location is neither, or the Postgres driver is not installed.
        StoreError: it cannot be opened.
    """
    if location.lower().startswith(_POSTGRES):
        from memtrace.service.postgres import PostgresDatabase

        return PostgresDatabase(location, timeout=timeout)
    if reads_like_a_url(location) or not location or "\0" in location:
        raise UsageError("--store: give the path of a file, such as plane.db, or postgresql://user@host/name")
    return SqliteDatabase(location, timeout=timeout)


class SqliteDatabase:
    """One file. Readers never wait; a write waits for the writer before it, and for the disk.

    Args:
        path: the file, made where there is none, for its owner only.
        timeout: seconds that a write waits for another process's.

    Raises:
        StoreError: it cannot be opened, or holds something else.
    """

    serial = "INTEGER PRIMARY KEY AUTOINCREMENT"
    append_only: tuple[str, ...] = tuple(
        f"CREATE TRIGGER plane_audit_no_{verb.lower()} BEFORE {verb} ON plane_audit"
        " BEGIN SELECT RAISE(ABORT, 'the audit trail is only ever added to'); END"
        for verb in ("UPDATE", "DELETE")
    )
    local = True

    def __init__(self, path: str, *, timeout: float = 5.0) -> None:
        self._path = str(Path(path).absolute())
        self._timeout = timeout
        self._connections = FileConnections(self._connect, partial(failure, self._path), patience=timeout)
        self._writing = threading.Lock()
        self._closed = False
        with suppress(OSError):  # SQLite then says what is wrong with the path
            Path(self._path).touch(mode=0o600, exist_ok=False)
        if self.read("PRAGMA application_id") == [(0,)]:
            with self.transaction() as run:
                run(f"PRAGMA application_id = {_PLANES}")

    def read(self, statement: str, values: Values = ()) -> list[Row]:
        """See `Database.read`."""
        with self._connections.lend() as connection:
            return connection.execute(statement, values).fetchall()

    @contextmanager
    def transaction(self) -> Iterator[Run]:
        """See `Database.transaction`."""
        with self._writing, self._connections.lend() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield lambda statement, values=(): connection.execute(statement, values).fetchall()
            except BaseException:  # an interrupt too may not leave it half done
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def close(self) -> None:
        """See `Database.close`."""
        self._closed = True
        self._connections.close()

    def _connect(self) -> sqlite3.Connection:
        if self._closed:
            raise StoreError(f"{self._path} was closed")
        connection = sqlite3.connect(self._path, timeout=self._timeout, isolation_level=None, check_same_thread=False)
        try:
            _require_ours(connection, self._path)
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
            # Waits for the disk at every commit: what was acknowledged outlives the process, and the machine's power.
            connection.execute("PRAGMA synchronous = FULL")
        except BaseException:  # an interrupt too may not leave it open
            connection.close()
            raise
        return connection


def _require_ours(connection: sqlite3.Connection, path: str) -> None:
    """Raise `StoreError` for a file of others; it has not been written to."""
    application, version, tables, ours = connection.execute(
        "SELECT application_id, user_version, count(name), count(name) FILTER (WHERE name = 'plane_meta')"
        " FROM pragma_application_id, pragma_user_version LEFT JOIN sqlite_master ON true"
    ).fetchone()
    if ours or application == _PLANES or not (application or version or tables):
        return
    whose = "holds a memory's own facts" if is_a_memorys(application) else "is another application's database"
    raise StoreError(f"{path} {whose}: name a file that the plane may have to itself, such as plane.db")
