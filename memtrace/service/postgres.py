"""The plane's tables in Postgres."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from memtrace.errors import StoreError, UsageError
from memtrace.service.database import Row, Run, Values
from memtrace.stores.location import hide_password

if TYPE_CHECKING:
    from memtrace.stores.postgres_pool import Lease, ServerConnection

_MOST_CONNECTIONS: Final = 10


class PostgresDatabase:
    """A database of a Postgres server.

    Args:
        url: ``postgresql://user:password@host:port/name``.
        timeout: seconds that a read or a transaction may take, with the connection it needs.

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
            from memtrace.stores.postgres_pool import ServerConnections
        except ImportError:
            raise UsageError("a Postgres URL needs psycopg: pip install 'memtrace-otel[postgres]'") from None
        self._url = url
        self._timeout = timeout
        self._connections = ServerConnections(self._connect, self._failure, most=_MOST_CONNECTIONS)
        with self._lent():
            pass  # a server that cannot be reached is told now

    def read(self, statement: str, values: Values = ()) -> list[Row]:
        """See `Database.read`."""
        with self._lent() as connection:
            return _run(connection, statement, values)

    @contextmanager
    def transaction(self) -> Iterator[Run]:
        """See `Database.transaction`."""
        with self._lent() as connection, connection.transaction():
            # A server that was told to lose its last commits must not lose an approval.
            connection.execute("SET LOCAL synchronous_commit = on")
            yield lambda statement, values=(): _run(connection, statement, values)

    def close(self) -> None:
        """See `Database.close`."""
        self._connections.close()

    def _connect(self, deadline: float) -> ServerConnection:
        from memtrace.stores.postgres_pool import ServerConnection

        connection = ServerConnection.reach(self._url, deadline)
        connection.autocommit = True
        connection.prepare_threshold = 0
        return connection

    def _failure(self, error: Exception, _deadline: float) -> StoreError:
        reason = " ".join(str(error).split()) or type(error).__name__
        return StoreError(f"{hide_password(self._url)} failed: {reason}")

    def _lent(self) -> Lease:
        return self._connections.lend(time.monotonic() + self._timeout)


def _run(connection: ServerConnection, statement: str, values: Values) -> list[Row]:
    cursor = connection.execute(statement.replace("?", "%s").encode(), values)
    return cursor.fetchall() if cursor.description else []
