"""SQLite files in a folder."""

from __future__ import annotations

import platform
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from memtrace.model import Record
from memtrace.stores.rows import digest
from memtrace.stores.sqlite import SqliteStore

from .backend import Call, Filled, check
from .facts import records
from .peer import require_fits, require_sdk

_NEWEST: Final = """
    SELECT fact, id, confidence, source, source_trace_id, source_span_id, created_at FROM learned_memory
    WHERE project_id = '' AND scope = 'user' AND scope_id = 'alice' AND superseded_by IS NULL
    ORDER BY created_at DESC, id DESC LIMIT 50
"""
_FILL: Final = """
    INSERT INTO learned_memory (
        project_id, scope, scope_id, fact, fact_sha256, confidence, source, source_trace_id, source_span_id, created_at
    ) VALUES ('', 'user', 'alice', ?, ?, ?, ?, ?, ?, ?)
"""
_FILL_PEER: Final = """
    INSERT INTO learned_memory (project_id, scope, scope_id, fact, confidence, source, source_trace_id, created_at)
    VALUES ('', 'user', 'alice', ?, ?, ?, ?, ?)
"""


class Sqlite:
    """See `Backend`."""

    name = "sqlite"

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._folder = Path(stack.enter_context(TemporaryDirectory(prefix="memtrace-benchmark-")))
        self.about = {"server": f"SQLite {sqlite3.sqlite_version}", "driver": f"sqlite3 of {platform.python_version()}"}

    def round_trip(self) -> Call:
        """See `Backend.round_trip`."""
        connection = self._stack.enter_context(closing(sqlite3.connect(self._folder / "nothing.db")))
        return lambda: connection.execute("SELECT 1").fetchall()

    def filled(self, count: int, size: int) -> Filled:
        """See `Backend.filled`."""
        file = self._folder / f"{count}-{size}.db"
        store = SqliteStore(file)
        self._stack.callback(store.close)
        _fill(file, _FILL, (_row(record) for record in records(0, count, size)))
        connection = self._stack.enter_context(closing(sqlite3.connect(file)))
        return check(Filled(store, lambda: connection.execute(_NEWEST).fetchall()), count, size)

    def peer(self, count: int, size: int) -> Any:
        """See `Backend.peer`."""
        sdk = require_sdk()
        require_fits(count, size)
        file = self._folder / f"peer-{count}-{size}.db"
        store = sdk.MemoryStore(str(file))
        rows = (
            (each.text, 0.6, each.source, each.source_trace_id, each.created_at) for each in records(0, count, size)
        )
        _fill(file, _FILL_PEER, rows)
        return store


def _row(each: Record) -> tuple[Any, ...]:
    about = (each.confidence, each.source, each.source_trace_id, each.source_span_id, each.created_at)
    return (each.text, digest(each.text), *about)


def _fill(file: Path, statement: str, rows: Iterator[tuple[Any, ...]]) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.executemany(statement, rows)
