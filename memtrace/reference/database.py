"""A SQLite file of the memory's own, beside the facts."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from memtrace.errors import StoreError
from memtrace.stores.sqlite_pool import FileConnections

_PATIENCE: Final = 5.0
"""Seconds to wait for another process's write."""


class Database:
    """One file, for any number of threads and processes, before and after a fork.

    Deleted text is overwritten (``secure_delete``), and `leave_nothing` removes what SQLite still keeps of it. Ids are
    kept as bytes: they are data, and any text is one, lone surrogates included.

    Raises:
        StoreError: the file cannot be opened, or is no database.
    """

    def __init__(self, path: str | Path, schema: str) -> None:
        self.path = Path(path).absolute()
        try:
            self.path.touch(mode=0o600)
        except OSError as error:
            raise StoreError(f"{self.path} cannot be opened: {error.strerror}") from error
        self._connections = FileConnections(
            partial(_connect, self.path), partial(_failure, self.path), patience=_PATIENCE
        )
        with self.transaction() as connection:
            for statement in schema.split(";"):
                connection.execute(statement)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A connection inside a transaction that is kept whole, or not at all where the body raises.

        Raises:
            StoreError: SQLite failed; its own exception is chained.
        """
        with self._connections.lend() as connection:
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                yield connection

    def leave_nothing(self) -> None:
        """Write the file anew and empty its journal: both may hold copies of what was deleted.

        Raises:
            StoreError: another process was using them all the time; the rows are gone all the same.
        """
        with self._connections.lend() as connection:
            connection.execute("VACUUM")
            busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        if busy:
            raise StoreError(f"{self.path} is in use, and its journal may still hold what was deleted: delete it again")

    def close(self) -> None:
        """Let go of connections. Using the file again opens new ones."""
        self._connections.close()


def to_bytes(text: str) -> bytes:
    """Any text as bytes."""
    return text.encode("utf-8", "surrogatepass")


def to_text(raw: bytes) -> str:
    """The text that `to_bytes` was given."""
    return raw.decode("utf-8", "surrogatepass")


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = NORMAL")
        _use_wal(connection)
    except BaseException:  # an interrupt too may not leave it open
        connection.close()
        raise
    return connection


def _failure(path: Path, error: sqlite3.Error) -> StoreError:
    return StoreError(f"{path}: {error}")


def _use_wal(connection: sqlite3.Connection) -> None:
    """A write then waits for no disk, and readers for no writer. SQLite does not wait for its lock here by itself."""
    deadline = time.monotonic() + _PATIENCE
    while connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.005)
