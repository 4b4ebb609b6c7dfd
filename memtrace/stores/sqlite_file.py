"""Opening a SQLite file as a fact store: its settings, its schema by version, and what its failures mean."""

from __future__ import annotations

import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from memtrace.errors import StoreError

MEMORY: Final = ":memory:"

_APPLICATION: Final = int.from_bytes(b"memt")
"""Marks a file as ours (``PRAGMA application_id``), so that another application's database is left alone."""

_STEPS: Final = (
    (
        """
        CREATE TABLE learned_memory (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            scope TEXT NOT NULL,
            scope_id TEXT NOT NULL,
            project_id TEXT NOT NULL,
            fact TEXT NOT NULL,
            fact_sha256 BLOB NOT NULL,
            confidence REAL NOT NULL,
            source TEXT NOT NULL,
            source_trace_id TEXT NOT NULL,
            source_span_id TEXT NOT NULL,
            created_at REAL NOT NULL,
            superseded_by INTEGER
        )
        """,
        # An index ends in the row id, so that walking one of these two backwards is newest first, ties included.
        """
        CREATE INDEX learned_memory_newest ON learned_memory
            (project_id, scope, scope_id, created_at) WHERE superseded_by IS NULL
        """,
        """
        CREATE INDEX learned_memory_newest_of_source ON learned_memory
            (project_id, scope, scope_id, source, created_at) WHERE superseded_by IS NULL
        """,
        """
        CREATE UNIQUE INDEX learned_memory_once ON learned_memory
            (project_id, scope, scope_id, fact_sha256) WHERE superseded_by IS NULL
        """,
        """
        CREATE INDEX learned_memory_superseded ON learned_memory
            (project_id, scope, scope_id, superseded_by) WHERE superseded_by IS NOT NULL
        """,
    ),
)
"""The statements that lead from one version of the schema to the next. The version is how many were taken."""

_TELLING: Final = frozenset({"scope_id", "fact_sha256", "superseded_by"})
"""Columns that tell our table from another application's of the same name."""
_UNMARKED: Final = (
    "has lost the marks of a memory's file, as one that was made from a dump has: name another file, or if memtrace"
    f" wrote its tables, mark it with PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {len(_STEPS)};"
)

_PAGE_SIZE: Final = 8192
"""Bytes of a page in a new file: 50 facts of 8 kB are read an eighth faster than from SQLite's usual pages of 4096."""

_SYNCHRONOUS: Final = {False: "NORMAL", True: "FULL"}
"""When to wait for the disk: at checkpoints, or at every commit."""

_REMEDIES: Final = {
    sqlite3.SQLITE_NOTADB: "is no SQLite database: name another file, or if it was one, restore it from a backup",
    sqlite3.SQLITE_READONLY: "is read-only: make the file and its folder writable",
    sqlite3.SQLITE_FULL: "has no room left: free some space on its disk and try again",
    sqlite3.SQLITE_BUSY: "stayed locked by another writer: try again when that one is done",
    sqlite3.SQLITE_CORRUPT: "is damaged: restore it from a backup",
    sqlite3.SQLITE_IOERR: "could not be read or written: check its disk",
}


def connect(path: str, *, patience: float, durable: bool) -> sqlite3.Connection:
    """A connection to the file, which is made, or brought to the schema of today, where that is needed.

    Raises:
        StoreError: the file is not ours, or of a newer version.
        sqlite3.Error: SQLite failed.
    """
    if path != MEMORY:
        _make_private(path)
    connection = sqlite3.connect(path, timeout=patience, isolation_level=None, check_same_thread=False)
    try:
        connection.execute(f"PRAGMA page_size = {_PAGE_SIZE}")
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute(f"PRAGMA synchronous = {_SYNCHRONOUS[durable]}")
        connection.execute(f"PRAGMA fullfsync = {durable}")
        _update_schema(connection, path)
        _use_wal(connection, patience)
    except BaseException:  # an interrupt too may not leave it open
        connection.close()
        raise
    return connection


def is_a_memorys(application_id: int) -> bool:
    """Whether a file with this mark is a fact store's."""
    return application_id == _APPLICATION


def failure(path: str, error: sqlite3.Error) -> StoreError:
    """What SQLite's error means for someone who knows only the file's name."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code == sqlite3.SQLITE_CANTOPEN:
        return StoreError(f"{path} {_why_not_opened(Path(path))}")
    return StoreError(f"{path} {_REMEDIES.get(code, f'failed: {error}')}")


def _why_not_opened(path: Path) -> str:
    with suppress(OSError):  # a name that is too long is asked about in vain
        if path.is_dir():
            return "is a folder: name a file in it"
        there = next(folder for folder in path.parents if folder.exists())
        if not there.is_dir():
            return f"cannot be opened: {there} is a file and no folder, so name another place"
        if not path.parent.is_dir():
            return f"cannot be opened: make the folder {path.parent} first"
    return "cannot be opened: make the file and its folder readable and writable"


def _make_private(path: str) -> None:
    # Only ever a new file: opening and closing one that SQLite has open would drop this process's locks on it.
    with suppress(OSError):  # SQLite then says what is wrong with the path
        Path(path).touch(mode=0o600, exist_ok=False)


def _update_schema(connection: sqlite3.Connection, path: str) -> None:
    if _version(connection, path) == len(_STEPS):
        return
    connection.execute("BEGIN IMMEDIATE")
    # Asked again: another process may have been faster.
    for step in _STEPS[_version(connection, path) :]:
        for statement in step:
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {len(_STEPS)}")
    connection.execute("COMMIT")


def _version(connection: sqlite3.Connection, path: str) -> int:
    """How many steps the file's schema has taken; one statement, so that no other process can come in between."""
    application, version, tables = connection.execute(
        "SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master)"
        " FROM pragma_application_id, pragma_user_version"
    ).fetchone()
    if application != _APPLICATION and (application or version or tables):
        raise StoreError(f"{path} {_whose(connection, application, version)}")
    if tables and not version:
        raise StoreError(f"{path} {_UNMARKED}")
    if version > len(_STEPS):
        raise StoreError(
            f"{path} was written by a newer memtrace (schema {version}, this one knows {len(_STEPS)}): upgrade memtrace"
        )
    return int(version)


def _whose(connection: sqlite3.Connection, application: int, version: int) -> str:
    """What is said of a file that is not marked as ours."""
    columns = {name for (name,) in connection.execute("SELECT name FROM pragma_table_info('learned_memory')")}
    if columns >= _TELLING and not application and version <= len(_STEPS):
        return _UNMARKED
    return "is another application's database: name a file that memtrace may have to itself"


def _use_wal(connection: sqlite3.Connection, patience: float) -> None:
    """Readers and a writer at the same time, from now on.

    SQLite does not wait for its lock here as it does elsewhere, so that several first connections at once would fail.
    """
    deadline = time.monotonic() + patience
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.005)
        else:
            return
