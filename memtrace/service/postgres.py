"""The plane's tables in Postgres."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from memtrace.errors import StoreError, UsageError
from memtrace.service.database import Row, Run, Values
from memtrace.stores.location import hide_password

if TYPE_CHECKING:
    import psycopg


class PostgresDatabase:
    """A database of a Postgres server.

    Args:
        url: ``postgresql://user:password@host:port/name``.
        timeout: seconds that opening a connection, or waiting for one of the pool's, may take.

    Raises:
        UsageError: the driver is not installed.
        StoreError: the server cannot be reached.
    """

    serial = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
    append_only: tuple[str, ...] = (
        "CREATE RULE plane_audit_no_update AS ON UPDATE TO plane_audit DO INSTEAD NOTHING",
        "CREATE RULE plane_audit_no_delete AS ON DELETE TO plane_audit DO INSTEAD NOTHING",
    )
    local = False

    def __init__(self, url: str, *, timeout: float = 5.0) -> None:
        try:
            import psycopg
            from psycopg_pool import ConnectionPool, PoolTimeout
        except ImportError:
            raise UsageError("a Postgres URL needs psycopg: pip install 'memtrace-otel[postgres]'") from None
        self._shown = hide_password(url)
        self._failures = (psycopg.Error, PoolTimeout)
        options: dict[str, Any] = {
            "autocommit": True,
            "prepare_threshold": 0,
            "connect_timeout": max(2, round(timeout)),  # libpq knows no less
        }
        self._pool: ConnectionPool[psycopg.Connection[Row]] = ConnectionPool(
            url, min_size=1, max_size=10, timeout=timeout, kwargs=options, open=False
        )
        with self._told():
            # The pool would try for the whole of its time, in the background, and say less.
            psycopg.connect(url, **options).close()
        self._pool.open()

    def read(self, statement: str, values: Values = ()) -> list[Row]:
        """See `Database.read`."""
        with self._told(), self._pool.connection() as connection:
            return _run(connection, statement, values)

    @contextmanager
    def transaction(self) -> Iterator[Run]:
        """See `Database.transaction`."""
        with self._told(), self._pool.connection() as connection, connection.transaction():
            # A server that was told to lose its last commits must not lose an approval.
            connection.execute("SET LOCAL synchronous_commit = on")
            yield lambda statement, values=(): _run(connection, statement, values)

    def close(self) -> None:
        """See `Database.close`."""
        self._pool.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except self._failures as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise StoreError(f"{self._shown} failed: {reason}") from error


def _run(connection: psycopg.Connection[Row], statement: str, values: Values) -> list[Row]:
    cursor = connection.execute(statement.replace("?", "%s").encode(), values)
    return cursor.fetchall() if cursor.description else []
