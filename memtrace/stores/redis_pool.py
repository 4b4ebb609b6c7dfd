"""Connections to a Redis server: that no two processes share one, and that asking takes little more than the server."""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from queue import Empty, SimpleQueue
from typing import Any

import hiredis
import redis
from redis.exceptions import MaxConnectionsError, NoScriptError


class Client:
    """A server, or a cluster of them, whose connections no two processes share.

    A forked child makes new ones: redis-py would wait there for a lock that a thread of the parent may have held.
    """

    def __init__(self, make: Callable[[], Any], *, connections: int) -> None:
        self._make = make
        self._connections = connections
        self._free = _places(connections)
        self._made: list[Any] = []
        self._making = threading.Lock()
        _clients.add(self)

    @property
    def server(self) -> Any:
        """redis-py's client of it."""
        if not self._made:
            with self._making:
                self._made = self._made or [self._make()]
        return self._made[0]

    def run(self, script: str, keys: Sequence[str], values: Sequence[Any]) -> Any:
        """The result of a script, which the server may have forgotten since it was last sent."""
        server = self.server
        try:
            return server.evalsha(_digest(script), len(keys), *keys, *values)
        except NoScriptError:
            return server.eval(script, len(keys), *keys, *values)

    def lent(self, seconds: float) -> Lent:
        """One of the connections, for one thread until the block ends."""
        return Lent(self._free, seconds, self._connections)

    def close(self) -> None:
        """Close connections; the next use opens new ones."""
        for server in self._made:
            server.close()

    def start_anew(self) -> None:
        """Forget all that was inherited, neither using nor closing it: this is a forked child."""
        self._making = threading.Lock()
        self._free = _places(self._connections)
        _inherited.extend(self._made)
        self._made = []


class Lent:
    """A block in which a thread uses one connection of so many.

    redis-py's pool that waits for one takes a tenth of a short read; its other pool does not wait.

    Raises:
        MaxConnectionsError: all stayed in use for so long.
    """

    __slots__ = ("_connections", "_free", "_seconds")

    def __init__(self, free: SimpleQueue[None], seconds: float, connections: int) -> None:
        self._free = free
        self._seconds = seconds
        self._connections = connections

    def __enter__(self) -> None:
        try:
            self._free.get(timeout=self._seconds)
        except Empty:
            raise MaxConnectionsError(f"all {self._connections} stayed in use") from None

    def __exit__(self, *_: object) -> None:
        self._free.put(None)


def _places(count: int) -> SimpleQueue[None]:
    """A semaphore; Python's own takes ten times as long."""
    places: SimpleQueue[None] = SimpleQueue()
    for _ in range(count):
        places.put(None)
    return places


class Server(redis.Redis):
    """redis-py's client without its measurements, retries and checks of each command, which are of one word here.

    That takes longer than the server needs to find the newest fifty.
    """

    def execute_command(self, *words: Any, **options: Any) -> Any:
        """See `redis.Redis.execute_command`."""
        pool = self.connection_pool
        connection: Any = pool.get_connection()
        try:
            connection.send_packed_command([hiredis.pack_command(words)])
            return self.parse_response(connection, words[0], **options)  # type: ignore[no-untyped-call]  # redis-py's own
        except redis.ResponseError:
            raise
        except BaseException:
            connection.disconnect()  # what it may still say is no answer to the next
            raise
        finally:
            pool.release(connection)


class Pool(redis.ConnectionPool):
    """Connections that `Client` counts; redis-py's pool does much more with each."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._idle: list[Any] = []

    def get_connection(self, *_args: Any, **_options: Any) -> Any:
        """One that works as far as can be told without asking the server, or that connects when it is used."""
        try:
            connection = self._idle.pop()
        except IndexError:
            return self.connection_class(**self.connection_kwargs)
        if connection.is_connected and _has_ended(connection):
            connection.disconnect()
        return connection

    def release(self, connection: Any) -> None:
        """Keep it for the next."""
        self._idle.append(connection)

    def disconnect(self, inuse_connections: bool = True) -> None:  # noqa: ARG002
        """Close those that nobody uses."""
        with suppress(IndexError):
            while True:
                self._idle.pop().disconnect()


def _has_ended(connection: Any) -> bool:
    """Whether something came that is no answer, or its end."""
    try:
        return bool(connection.can_read())
    except redis.RedisError:
        return True


_clients: weakref.WeakSet[Client] = weakref.WeakSet()
_inherited: list[Any] = []
"""What a fork left in this child: closing one of these could end what the parent is doing."""


def _after_fork_in_child() -> None:
    for client in list(_clients):
        client.start_anew()


os.register_at_fork(after_in_child=_after_fork_in_child)


@lru_cache(maxsize=32)
def _digest(script: str) -> str:
    return hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
