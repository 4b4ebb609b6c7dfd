"""Connections to a Postgres server that are kept open, each used by one thread at a time and by one process only.

`psycopg_pool` is not used: it makes connections in threads of its own, which a forked child does not have, and tells of
a connection that failed only once the patience is over, and not why. Here the thread that needs a connection makes it.
"""

from __future__ import annotations

import os
import select
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, Self, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.pq import ConnStatus, PGconn, PollingStatus, TransactionStatus, abc

from memtrace.errors import MemtraceError, StoreError
from memtrace.stores.places import Place, Places
from memtrace.stores.rows import MORE_CONNECTIONS

T = TypeVar("T")

_EVENTS: Final = {PollingStatus.READING: select.POLLIN, PollingStatus.WRITING: select.POLLOUT}


class Unreached(psycopg.OperationalError):
    """There is no connection: nothing was asked of the server."""


class ServerConnection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that waits for its server until ``deadline`` (of `time.monotonic`) and no longer."""

    deadline = float("inf")
    _pool = None  # psycopg then does not warn of one that a forked child leaves alone

    def __init__(self, pgconn: abc.PGconn) -> None:
        super().__init__(pgconn)
        self._reader = self.cursor(binary=True)
        self._unasked = select.poll()
        self._unasked.register(pgconn.socket, select.POLLIN)

    @classmethod
    def reach(cls, conninfo: str, deadline: float) -> Self:
        """A new connection, made by ``deadline``; `psycopg.connect` would give each of several hosts 2 seconds or more.

        Raises:
            Unreached: it is refused.
            psycopg.errors.ConnectionTimeout: nothing answers.
        """
        pgconn = PGconn.connect_start(conninfo.encode())
        try:
            _finish_connecting(pgconn, deadline)
            pgconn.nonblocking = 1
            connection = cls(pgconn)
        except BaseException:  # an interrupt too may not leave it open
            pgconn.finish()
            raise
        connection.deadline = deadline
        return connection

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        """See `psycopg.Connection.wait`."""
        left = self.deadline - time.monotonic()
        return super().wait(gen, interval, max(0.0, left if timeout is None else min(left, timeout)))

    def rows(self, statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """What a statement answers.

        It takes a fifth less where it is the very string that was asked last: psycopg then knows how to read its rows.
        """
        self._reader.execute(statement, values)
        rows = self._reader.fetchall()
        if (result := self._reader.pgresult) is not None:
            result.clear()  # or this connection would hold all the rows until it is used again
        return rows

    def is_quiet(self) -> bool:
        """Whether nothing has arrived unasked: the end of the connection, or a message that says it is near."""
        return not self._unasked.poll(0)

    def is_reusable(self) -> bool:
        """Whether the last statement is over, whatever came of it."""
        return self.pgconn.transaction_status == TransactionStatus.IDLE


class ServerConnections:
    """At most ``most`` connections of this process; who needs one when all are lent waits for it.

    One that was lost takes the idle ones along, so that after an outage no caller waits for a dead one. What died while
    it was idle is seen before it is lent.

    Args:
        connect: makes one by a deadline.
        failure: what is raised for what psycopg raised where a connection had so long.
        most: how many.
        more_connections: what who finds all in use can do about it.
    """

    def __init__(
        self,
        connect: Callable[[float], ServerConnection],
        failure: Callable[[psycopg.Error, float], MemtraceError],
        *,
        most: int,
        more_connections: str = MORE_CONNECTIONS,
    ) -> None:
        self.connect = connect
        self.failure = failure
        self.places = Places(most)
        self.more_connections = more_connections
        self._idle: list[ServerConnection] = []
        self._era = 0
        weakref.finalize(self, _close_all, self._idle)
        _pools.add(self)

    def lend(self, deadline: float) -> Lease:
        """A connection for one thread until the block ends, which may wait for the server until ``deadline``."""
        return Lease(self, deadline)

    def close(self) -> None:
        """Close what is idle; what is lent is closed as it comes back."""
        self._era += 1
        _close_all(self._idle)

    def start_anew(self) -> None:
        """Forget all that was inherited, neither using nor closing it: this is a forked child."""
        self.places = Places(self.places.count)
        _inherited.extend(self._idle)
        self._idle.clear()

    def idle(self) -> tuple[ServerConnection | None, int]:
        """One that nobody uses, if there is any that works, and in which era it is lent."""
        era = self._era
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None, era
            if connection.is_quiet():
                return connection, era
            connection.close()

    def keep(self, connection: ServerConnection, era: int) -> None:
        """Lend it again; one that was lost, or was lent before all were closed, is closed."""
        reusable = connection.is_reusable()
        if reusable:
            self._idle.append(connection)
        else:
            connection.close()
        if not reusable or era != self._era:
            _close_all(self._idle)


class Lease:
    """A block in which one thread has a connection, which may wait for the server until ``deadline``.

    Raises:
        StoreError: all connections stayed in use.
        MemtraceError: the server failed; see `ServerConnections`.
    """

    __slots__ = ("_connection", "_deadline", "_era", "_place", "_places", "_pool")

    def __init__(self, pool: ServerConnections, deadline: float) -> None:
        self._pool = pool
        self._places = pool.places  # those of now: in a forked child the pool has others
        self._deadline = deadline

    def __enter__(self) -> ServerConnection:
        place = self._places.take(self._deadline - time.monotonic())
        if place is None:
            raise StoreError(
                f"all {self._places.count} connections to the server stayed in use: {self._pool.more_connections}"
            )
        self._place: Place = place
        try:
            connection, self._era = self._pool.idle()
            if connection is None:
                connection = self._pool.connect(self._deadline)
        except BaseException as error:  # an interrupt too may not keep the place
            self._places.give_back(place)
            self._raise_failure(error)
            raise
        connection.deadline = self._deadline
        self._connection = connection
        return connection

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        try:
            if is_outdated(error):
                self._connection.close()  # so that the idle ones, which know the old tables too, go with it
            if error is None or isinstance(error, psycopg.Error | MemtraceError):
                self._pool.keep(self._connection, self._era)
            else:
                self._connection.close()  # whatever else was raised came in the middle of something
        finally:
            self._places.give_back(self._place)
        self._raise_failure(error)

    def _raise_failure(self, error: BaseException | None) -> None:
        if isinstance(error, psycopg.Error):
            raise self._pool.failure(error, self._deadline) from error


def is_outdated(error: BaseException | None) -> bool:
    """Whether a statement was refused since another session has changed the types of a table it was prepared for."""
    return (
        isinstance(error, psycopg.errors.FeatureNotSupported) and error.diag.source_function == "RevalidateCachedQuery"
    )


def answer(db: ServerConnection, question: str, values: Mapping[str, Any] | None = None) -> Any:
    """The one value that the server answers with, ``None`` where there is none."""
    row = db.execute(question, values).fetchone()
    return None if row is None else row[0]


_pools: weakref.WeakSet[ServerConnections] = weakref.WeakSet()
_inherited: list[ServerConnection] = []
"""What a fork left in this child: closing one of these would end the parent's session."""


def _finish_connecting(pgconn: abc.PGconn, deadline: float) -> None:
    """See https://www.postgresql.org/docs/current/libpq-connect.html, `PQconnectPoll`."""
    while pgconn.status != ConnStatus.BAD:
        status = PollingStatus(pgconn.connect_poll())
        if status == PollingStatus.OK:
            return
        if status not in _EVENTS:
            break
        poll = select.poll()
        poll.register(pgconn.socket, _EVENTS[status])
        if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
            raise psycopg.errors.ConnectionTimeout("connection timeout expired")
    raise Unreached(pgconn.error_message.decode(errors="replace"))


def _close_all(connections: list[ServerConnection]) -> None:
    with suppress(IndexError):
        while True:
            connections.pop().close()


def _after_fork_in_child() -> None:
    for pool in list(_pools):
        pool.start_anew()


os.register_at_fork(after_in_child=_after_fork_in_child)
