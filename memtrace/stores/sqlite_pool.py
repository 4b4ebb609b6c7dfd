"""Connections that are kept open, each used by one thread at a time and by one process only.

SQLite's file locks belong to the process, and a fork copies its bookkeeping of them without the locks: a child that
opens the same file while an inherited connection exists works unlocked, and its writes can be lost
(sqlite.org/howtocorrupt.html, section 2.6). So every connection to a file is closed just before a fork, and opened
again on either side when it is needed.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

from memtrace.errors import MemtraceError, StoreError
from memtrace.stores.places import Place, Places
from memtrace.stores.rows import A_DAY

Connect = Callable[[], sqlite3.Connection]
Failure = Callable[[sqlite3.Error], StoreError]

_A_MOMENT: Final = 0.0005
"""Seconds between two looks whether all that is lent has come back."""


class Connections(Protocol):
    """Where a store gets its connections from."""

    failure: Failure
    """What is raised for what SQLite raised."""

    def lend(self) -> Lease:
        """A connection for one thread until the block ends."""

    def take(self, lease: Lease) -> sqlite3.Connection:
        """One that only this lease has, until it is given back or the lease is gone."""

    def give_back(self, lease: Lease, *, whole: bool) -> None:
        """End what `take` began; a transaction that is still open is rolled back.

        Not ``whole`` is what was interrupted, maybe in the middle of a statement.
        """

    def close(self) -> None:
        """Close what is open, which ends the era; what is lent is closed as it comes back."""


class Lease:
    """A block in which one thread has a connection; a transaction that is still open at its end is rolled back.

    An interrupt can come at any point, in here too, and then nothing is counted back. So what is lent is what a lease
    holds that is still there: no number tells of it, and no lock is held from one method to another.

    Raises:
        StoreError: SQLite failed.
    """

    __slots__ = ("__weakref__", "_connections", "connection", "era", "place")

    connection: sqlite3.Connection
    era: int
    place: Place

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def __enter__(self) -> sqlite3.Connection:
        try:
            return self._connections.take(self)
        except sqlite3.Error as error:
            raise self._connections.failure(error) from error

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        whole = error is None or isinstance(error, sqlite3.Error | MemtraceError)
        self._connections.give_back(self, whole=whole)
        if isinstance(error, sqlite3.Error):
            raise self._connections.failure(error) from error


class FileConnections:
    """As many connections to a file as there are threads that use it at once."""

    def __init__(self, connect: Connect, failure: Failure, *, patience: float) -> None:
        self.failure = failure
        self._connect = connect
        self._patience = patience
        self._idle: list[sqlite3.Connection] = []
        self._leases: dict[int, weakref.ref[Lease]] = {}
        self._era = 0
        weakref.finalize(self, _close_all, self._idle)
        with _forking:
            _pools.add(self)

    def lend(self) -> Lease:
        """See `Connections.lend`."""
        return Lease(self)

    def take(self, lease: Lease) -> sqlite3.Connection:
        """See `Connections.take`; who comes while a fork is under way waits for its end."""
        self._count(lease)
        lease.era = self._era
        try:
            lease.connection = self._idle.pop()
        except IndexError:
            lease.connection = self._opened(lease)
        return lease.connection

    def give_back(self, lease: Lease, *, whole: bool) -> None:
        """See `Connections.give_back`."""
        connection = lease.connection
        try:
            if id(lease) not in self._leases:  # it was taken before a fork, and this is the child
                _inherited.append(connection)
            elif whole and not connection.in_transaction:
                self._idle.append(connection)
            else:
                connection.close()
            if lease.era != self._era:
                _close_all(self._idle)
        finally:
            self._leases.pop(id(lease), None)

    def close(self) -> None:
        """See `Connections.close`."""
        closing = self.lend()  # so that no fork comes in the middle
        self._count(closing)
        try:
            self._close_idle()
        finally:
            self._leases.pop(id(closing), None)

    def lent(self) -> int:
        """How many are lent now."""
        return sum(lease() is not None for lease in self._leases.copy().values())

    def hold(self) -> None:
        """Wait for what is lent, and close it all: a fork is about to happen, and until then nothing is lent."""
        deadline = time.monotonic() + self._patience
        while self.lent() and time.monotonic() < deadline:
            time.sleep(_A_MOMENT)
        self._close_idle()

    def start_anew(self) -> None:
        """Forget all that was inherited: the fork is over, and this is the child."""
        self._leases.clear()
        _inherited.extend(self._idle)
        self._idle.clear()

    def _count(self, lease: Lease) -> None:
        # First it is counted, then it looks; a fork first says that it comes, then counts.
        self._leases[id(lease)] = weakref.ref(lease)
        while _forking.locked():
            self._leases.pop(id(lease), None)
            with _forking:
                self._leases[id(lease)] = weakref.ref(lease)

    def _close_idle(self) -> None:
        self._era += 1
        _close_all(self._idle)

    def _opened(self, lease: Lease) -> sqlite3.Connection:
        try:
            return self._connect()
        except BaseException:  # an interrupt too may not keep a fork waiting
            self._leases.pop(id(lease), None)
            raise


class MemoryConnection:
    """The one connection of a database in memory: threads take turns, and a forked child has none."""

    def __init__(self, connect: Connect, failure: Failure) -> None:
        self.failure = failure
        self._connect = connect
        self._process = os.getpid()
        self._turns = Places(1)
        self._open: list[sqlite3.Connection] = []
        weakref.finalize(self, _close_all, self._open)

    def lend(self) -> Lease:
        """See `Connections.lend`."""
        return Lease(self)

    def take(self, lease: Lease) -> sqlite3.Connection:
        """See `Connections.take`; who comes while another has it waits."""
        if os.getpid() != self._process:
            raise StoreError(":memory: lives in the process that opened it: name a file to share facts with a fork")
        lease.place = self._turn()
        try:
            if not self._open:
                self._open.append(self._connect())
            lease.connection = self._open[0]
            self._roll_back()  # what one began that was interrupted as it gave the connection back
        except BaseException:  # an interrupt too may not keep the others waiting
            self._turns.give_back(lease.place)
            raise
        return lease.connection

    def give_back(self, lease: Lease, *, whole: bool) -> None:  # noqa: ARG002  there is no other to take its place
        """See `Connections.give_back`."""
        try:
            self._roll_back()
        finally:
            self._turns.give_back(lease.place)

    def close(self) -> None:
        """See `Connections.close`; everything stored is gone."""
        turn = self._turn()
        try:
            _close_all(self._open)
        finally:
            self._turns.give_back(turn)

    def _turn(self) -> Place:
        while True:
            place = self._turns.take(A_DAY)
            if place is not None:
                return place

    def _roll_back(self) -> None:
        for connection in self._open:
            if connection.in_transaction:
                connection.rollback()


_pools: weakref.WeakSet[FileConnections] = weakref.WeakSet()
_inherited: list[sqlite3.Connection] = []
"""What a fork that skipped the hooks below left in this child: not to be used, nor closed while the process runs."""
_forking = threading.Lock()
"""Locked while a fork is under way, or a pool is added."""


def _close_all(connections: list[sqlite3.Connection]) -> None:
    with suppress(IndexError):
        while True:
            connections.pop().close()


def _before_fork() -> None:
    for pool in list(_pools):
        pool.hold()


def _after_fork_in_child() -> None:
    for pool in list(_pools):
        pool.start_anew()


# What is registered last comes first before a fork. No interrupt can come in before what the lock's own methods do.
os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
os.register_at_fork(
    before=_forking.acquire,
    after_in_parent=_forking.release,
    after_in_child=_forking._at_fork_reinit,  # type: ignore[attr-defined]  # noqa: SLF001  as the standard library does
)
