"""Schemas on a Postgres server."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any, Final

import psycopg

from memtrace.harness.services import fresh, start_postgres
from memtrace.stores.postgres import PostgresStore
from memtrace.stores.rows import digest

from .backend import Call, Filled, LeftOut, check
from .facts import records, text
from .peer import require_fits, require_sdk

_NEWEST: Final = """
    SELECT fact, id, confidence, source, source_trace_id, source_span_id, created_at FROM learned_memory
    WHERE scope_sha256 = %s AND superseded_by IS NULL
    ORDER BY created_at DESC, id DESC LIMIT 50
"""
_COLUMNS: Final = (
    "project_id, scope, scope_id, scope_sha256, fact, fact_sha256,"
    " confidence, source, source_trace_id, source_span_id, created_at"
)
_PGVECTOR: Final = "SELECT default_version FROM pg_available_extensions WHERE name = 'vector'"
_PEER_COLUMNS: Final = "project_id, scope, scope_id, fact, confidence, source, source_trace_id, created_at"


class Postgres:
    """See `Backend`."""

    name = "postgres"

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._server = stack.enter_context(start_postgres())
        connection = self._connection(self._server.url)
        version = connection.info.parameter_status("server_version")
        pgvector = connection.execute(_PGVECTOR).fetchone()
        self.about = {
            "server": f"PostgreSQL {version}",
            "driver": f"psycopg {psycopg.__version__} ({psycopg.pq.__impl__})",
            "search": f"pgvector {pgvector[0]}" if pgvector else "an index in the process",
            "provider": self._server.provider,
        }

    def round_trip(self) -> Call:
        """See `Backend.round_trip`."""
        connection = self._connection(self._server.url)
        return lambda: connection.execute("SELECT 1", binary=True).fetchall()

    def filled(self, count: int, size: int) -> Filled:
        """See `Backend.filled`."""
        url = fresh(self._server)
        store = PostgresStore(url)
        self._stack.callback(store.close)
        store.add(next(records(0, 1, size)))
        connection = self._connection(url)
        row = connection.execute("SELECT scope_sha256 FROM learned_memory").fetchone()
        assert row is not None
        place: bytes = row[0]
        rows = (
            (
                "",
                "user",
                "alice",
                place,
                each.text,
                digest(each.text),
                each.confidence,
                each.source,
                each.source_trace_id,
                each.source_span_id,
                each.created_at,
            )
            for each in records(1, count, size)
        )
        _copy(connection, _COLUMNS, rows)
        return check(Filled(store, lambda: connection.execute(_NEWEST, [place], binary=True).fetchall()), count, size)

    def peer(self, count: int, size: int) -> Any:
        """See `Backend.peer`."""
        sdk = require_sdk()
        require_fits(count, size)
        url = fresh(self._server)
        store = sdk.make_fact_store(url)
        self._stack.callback(store.close)
        try:
            store.add(sdk.Fact("user", "bob", text(0, size)))
        except psycopg.Error as error:
            raise LeftOut(f"it refuses facts of this length: {str(error).splitlines()[0]}") from error
        store.delete("user", "bob")
        rows = (
            ("", "user", "alice", each.text, 0.6, each.source, each.source_trace_id, each.created_at)
            for each in records(0, count, size)
        )
        _copy(self._connection(url), _PEER_COLUMNS, rows)
        return store

    def _connection(self, url: str) -> psycopg.Connection[tuple[Any, ...]]:
        return self._stack.enter_context(psycopg.connect(url, autocommit=True, prepare_threshold=0))


def _copy(connection: psycopg.Connection[Any], columns: str, rows: Iterable[tuple[Any, ...]]) -> None:
    with connection.cursor() as cursor, cursor.copy(f"COPY learned_memory ({columns}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)
    connection.execute("VACUUM ANALYZE learned_memory")  # as autovacuum does after so many rows
