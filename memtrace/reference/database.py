"""A SQLite file of the memory's own, beside the facts."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from memtrace.errors import StoreError

_PATIENCE = 5.0
"""Seconds to wait for another process's write."""


class Database:
    """One file, one connection an operation: threads, forks and other processes need no care.

    Deleted text is overwritten (``secure_delete``), and no journal outlives its transaction. Ids are kept as bytes:
    they are data, and any text is one, lone surrogates included.
    """

    def __init__(self, path: str | Path, schema: str) -> None:
        self.path = Path(path)
        try:
            self.path.touch(mode=0o600)
        except OSError as error:
            raise StoreError(f"{self.path} cannot be opened: {error.strerror}") from error
        with self.transaction() as connection:
            for statement in schema.split(";"):
                connection.execute(statement)

    def leave_nothing(self) -> None:
        """Write the file anew: SQLite leaves copies of what was deleted in unused parts of its pages.

        Raises:
            StoreError: it could not be, while another process used the file say; the rows are gone all the same.
        """
        with self._connection() as connection:
            connection.execute("VACUUM")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A connection inside a transaction that is kept whole, or not at all where the body raises.

        Raises:
            StoreError: SQLite failed; its own exception is chained.
        """
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                yield connection

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, timeout=_PATIENCE, isolation_level=None)) as connection:
                connection.execute("PRAGMA secure_delete = ON")
                connection.execute("PRAGMA foreign_keys = ON")
                yield connection
        except sqlite3.Error as error:
            raise StoreError(f"{self.path}: {error}") from error


def to_bytes(text: str) -> bytes:
    """Any text as bytes."""
    return text.encode("utf-8", "surrogatepass")


def to_text(raw: bytes) -> str:
    """The text that `to_bytes` was given."""
    return raw.decode("utf-8", "surrogatepass")
