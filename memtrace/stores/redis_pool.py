"""Connections to a Redis server: no two processes share one, and no more are in use at once than are allowed."""

from __future__ import annotations

import hashlib
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from redis.exceptions import MaxConnectionsError, NoScriptError

from memtrace.stores.places import Place, Places


class Client:
    """A server, or a cluster of them, whose connections no two processes share.

    A forked child makes new ones: redis-py would wait there for a lock that a thread of the parent may have held.
    """

    def __init__(self, make: Callable[[], Any], *, connections: int) -> None:
        self._make = make
        self.places = Places(connections)
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

    def lease(self, seconds: float) -> Lease:
        """One of the connections, for one thread until the block ends; the thread waits up to ``seconds`` for it."""
        return Lease(self.places, seconds)

    def close(self) -> None:
        """Close connections; the next use opens new ones."""
        for server in self._made:
            server.close()

    def start_anew(self) -> None:
        """Forget all that was inherited, neither using nor closing it: this is a forked child."""
        self._making = threading.Lock()
        self.places = Places(self.places.count)
        _inherited.extend(self._made)
        self._made = []


class Lease:
    """A block in which a thread uses one connection of so many.

    Of redis-py's pools the one that waits for a connection costs too much of a short read; the other does not wait.

    Raises:
        MaxConnectionsError: all stayed in use for so long.
    """

    __slots__ = ("_place", "_places", "_seconds")

    def __init__(self, places: Places, seconds: float) -> None:
        self._places = places
        self._seconds = seconds

    def __enter__(self) -> None:
        place = self._places.take(self._seconds)
        if place is None:
            raise MaxConnectionsError(f"all {self._places.count} stayed in use")
        self._place: Place = place

    def __exit__(self, *_: object) -> None:
        self._places.give_back(self._place)


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
