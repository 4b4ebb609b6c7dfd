"""The tiny memory on a SQLite file, which can fail: a turn then goes on with what was last read, and says so."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from typing import Any, ClassVar

from opentelemetry.trace import Span, Status, StatusCode

from memtrace.broken.tiny import Key, Row, TinyMemory


class TinySqlite(TinyMemory):
    """The correct one. It keeps a journal that readers wait for, and all its rows in one."""

    capabilities: ClassVar[frozenset[str]] = TinyMemory.capabilities | {"memory-spans"}
    timeout: ClassVar[float] = 0.4

    def __post_init__(self) -> None:
        """The table is made, and nothing has been read yet."""
        super().__post_init__()
        self.known: dict[Key, list[Row]] = {}
        with self.database() as db:
            db.execute("CREATE TABLE IF NOT EXISTS facts (rows TEXT)")

    @property
    def declares(self) -> dict[str, Any]:
        """How long a turn may take besides."""
        return {**super().declares, "deadline": 4 * self.timeout}

    @contextmanager
    def database(self) -> Iterator[sqlite3.Connection]:
        """A connection, for one transaction."""
        path = self.env.store_url.removeprefix("sqlite:///")
        with closing(sqlite3.connect(path, timeout=self.timeout)) as db, db:
            yield db

    def stored(self) -> list[Row]:
        """What the file holds."""
        with self.database() as db:
            found = db.execute("SELECT rows FROM facts").fetchone()
        return [Row(**{**row, "key": tuple(row["key"])}) for row in json.loads(found[0])] if found else []

    def rows(self) -> list[Row]:
        """What the file holds."""
        return self.stored()

    def rows_of(self, key: Key) -> list[Row]:
        """A key's active rows, or those that were last read."""
        with self.tracer.start_as_current_span("memory.read") as span:
            try:
                self.known[key] = super().rows_of(key)
            except sqlite3.Error as error:
                self.failed(span, error)
                return self.served(key)
        return self.known[key]

    def failed(self, span: Span, error: sqlite3.Error) -> None:
        """The read's span says so."""
        span.set_status(Status(StatusCode.ERROR))
        span.set_attribute("error.type", type(error).__name__)

    def served(self, key: Key) -> list[Row]:
        """What a turn gets while the file fails."""
        return self.known.get(key, [])

    def change(self, how: Any) -> None:
        """Replace all rows in one transaction."""
        with self.tracer.start_as_current_span("memory.write"), self.lock, self.one_writer():
            rows = [asdict(row) for row in how(self.stored())]
            with self.database() as db:
                db.execute("DELETE FROM facts")
                db.execute("INSERT INTO facts VALUES (?)", (json.dumps(rows),))
