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
    import psycopg

    from memtrace.stores.postgres_pool import Lease, ServerConnection

_MOST_CONNECTIONS: Final = 10
_REMEDIES: Final = {
    "42501": "does not permit this: grant the user CREATE on the schema, and all on the tables plane_*",
    "42P01": "has lost a table of the plane's: restore it from a backup",
    "53300": "has no connection left: raise max_connections there, or try again when it is less busy",
    "57014": "did not finish in time: try again when it is less busy",
}
"""By SQLSTATE, where the plane has others than a fact store."""
_WAIT: Final = "try again when the plane is less busy"


class PostgresDatabase:
    """A database of a Postgres server.

    Args:
        url: ``postgresql://user:password@host:port/name``.
        timeout: seconds that a read or a transaction may take, with the connection it needs.

    Raises:
        UsageError: it is no such URL, or the driver is not installed.
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
            from memtrace.stores.postgres_server import checked
        except ImportError as missing:
            raise UsageError(
                f"{hide_password(url)} needs psycopg 3: pip install 'memtrace-otel[postgres]'"
                f" ({str(missing).partition(chr(10))[0]})"
            ) from None
        self._url = checked(url)
        self._timeout = timeout
        self._connections = ServerConnections(
            self._connect, self._failure, most=_MOST_CONNECTIONS, more_connections=_WAIT
        )
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

    def _failure(self, error: psycopg.Error, deadline: float) -> StoreError:
        from memtrace.stores.postgres_server import REMEDIES, failure

        return failure(self._url, error, deadline, remedies={**REMEDIES, **_REMEDIES}, more_time="")

    def _lent(self) -> Lease:
        return self._connections.lend(time.monotonic() + self._timeout)


def _run(connection: ServerConnection, statement: str, values: Values) -> list[Row]:
    cursor = connection.execute(statement.replace("?", "%s").encode(), values)
    return cursor.fetchall() if cursor.description else []
