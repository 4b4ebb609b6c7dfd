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
import weakref
from collections.abc import Callable
from typing import Protocol

from memtrace.errors import StoreError

Connect = Callable[[], sqlite3.Connection]
Failure = Callable[[sqlite3.Error], StoreError]


class Connections(Protocol):
    """Where a store gets its connections from."""

    failure: Failure
    """What is raised for what SQLite raised."""

    def lend(self) -> Lease:
        """A connection for one thread until the block ends."""

    def take(self) -> tuple[sqlite3.Connection, int]:
        """One that nobody else has until it is given back, and in which era it is taken."""

    def give_back(self, connection: sqlite3.Connection, era: int) -> None:
        """End what `take` began; a transaction that is still open is rolled back."""

    def close(self) -> None:
        """Close what is open, which ends the era; what is lent is closed as it comes back."""


class Lease:
    """A block in which one thread has a connection; a transaction that is still open at its end is rolled back.

    Raises:
        StoreError: SQLite failed.
    """

    __slots__ = ("_connection", "_connections", "_era")

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def __enter__(self) -> sqlite3.Connection:
        try:
            self._connection, self._era = self._connections.take()
        except sqlite3.Error as error:
            raise self._connections.failure(error) from error
        return self._connection

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._connections.give_back(self._connection, self._era)
        if isinstance(error, sqlite3.Error):
            raise self._connections.failure(error) from error


class FileConnections:
    """As many connections to a file as there are threads that use it at once."""

    def __init__(self, connect: Connect, failure: Failure, *, patience: float) -> None:
        self.failure = failure
        self._connect = connect
        self._patience = patience
        self._idle: list[sqlite3.Connection] = []
        self._lent = 0
        self._era = 0
        self._holding = False
        self._changed = threading.Condition()
        weakref.finalize(self, _close_all, self._idle)
        with _forking:
            _pools.add(self)

    def lend(self) -> Lease:
        """See `Connections.lend`."""
        return Lease(self)

    def take(self) -> tuple[sqlite3.Connection, int]:
        """See `Connections.take`."""
        with self._changed:
            while self._holding:
                self._changed.wait()
            self._lent += 1
            era = self._era
            if self._idle:
                return self._idle.pop(), era
        try:
            return self._connect(), era
        except BaseException:  # an interrupt too may not keep a fork waiting
            self._count_back()
            raise

    def give_back(self, connection: sqlite3.Connection, era: int) -> None:
        """See `Connections.give_back`."""
        with self._changed:
            try:
                if era == self._era and not connection.in_transaction:
                    self._idle.append(connection)
                else:
                    connection.close()
            finally:
                self._count_back()

    def close(self) -> None:
        """See `Connections.close`."""
        with self._changed:
            self._era += 1
            _close_all(self._idle)

    def hold(self) -> None:
        """Lend nothing until `resume`, wait for what is lent, and close it all: a fork is about to happen."""
        with self._changed:
            self._holding = True
            self._changed.wait_for(lambda: self._lent == 0, self._patience)
            self.close()

    def resume(self) -> None:
        """Lend again: the fork is over, and this is the parent."""
        with self._changed:
            self._holding = False
            self._changed.notify_all()

    def start_anew(self) -> None:
        """Forget all that was inherited: the fork is over, and this is the child."""
        self._changed = threading.Condition()
        self._holding = False
        self._lent = 0
        _inherited.extend(self._idle)
        self._idle.clear()

    def _count_back(self) -> None:
        with self._changed:
            self._lent -= 1
            self._changed.notify_all()


class MemoryConnection:
    """The one connection of a database in memory: threads take turns, and a forked child has none."""

    def __init__(self, connect: Connect, failure: Failure) -> None:
        self.failure = failure
        self._connect = connect
        self._process = os.getpid()
        self._turn = threading.Lock()
        self._open: list[sqlite3.Connection] = []
        weakref.finalize(self, _close_all, self._open)

    def lend(self) -> Lease:
        """See `Connections.lend`."""
        return Lease(self)

    def take(self) -> tuple[sqlite3.Connection, int]:
        """See `Connections.take`; who comes while another has it waits."""
        if os.getpid() != self._process:
            raise StoreError(":memory: lives in the process that opened it: name a file to share facts with a fork")
        self._turn.acquire()
        try:
            if not self._open:
                self._open.append(self._connect())
            return self._open[0], 0
        except BaseException:
            self._turn.release()
            raise

    def give_back(self, connection: sqlite3.Connection, era: int) -> None:  # noqa: ARG002  it never ends while lent
        """See `Connections.give_back`."""
        try:
            if connection.in_transaction:
                connection.rollback()
        finally:
            self._turn.release()

    def close(self) -> None:
        """See `Connections.close`; everything stored is gone."""
        with self._turn:
            _close_all(self._open)


_pools: weakref.WeakSet[FileConnections] = weakref.WeakSet()
_held: list[FileConnections] = []
_inherited: list[sqlite3.Connection] = []
"""What a fork that skipped the hook below left in this child: not to be used, nor closed while the process runs."""
_forking = threading.Lock()


def _close_all(connections: list[sqlite3.Connection]) -> None:
    while connections:
        connections.pop().close()


def _before_fork() -> None:
    _forking.acquire()
    _held.extend(_pools)
    for pool in _held:
        pool.hold()


def _after_fork_in_parent() -> None:
    for pool in _held:
        pool.resume()
    _held.clear()
    _forking.release()


def _after_fork_in_child() -> None:
    global _forking
    _forking = threading.Lock()
    _held.clear()
    for pool in _pools:
        pool.start_anew()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
