"""Reaching a Redis server: what its URL says, the limits of a connection, and what its failures mean."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import Any, Final, cast
from urllib.parse import parse_qs, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.connection import parse_url
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    MasterDownError,
    MaxConnectionsError,
    NoPermissionError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
)
from redis.exceptions import ConnectionError as Lost
from redis.exceptions import TimeoutError as TooLate
from redis.retry import Retry

from memtrace.errors import StoreError, UsageError
from memtrace.stores.location import hide_password
from memtrace.stores.redis_rows import PREFIX

_FORM: Final = (
    "redis://user:password@host:6379/0, with % codes for special characters (%40 for @), rediss:// for TLS,"
    " or unix:///path/to/socket?db=0"
)
_READ_SIZE: Final = 1 << 19
"""Bytes taken at once, so that fifty long facts are not many small steps."""
_SCHEMA: Final = f"{PREFIX}schema"
_VERSION: Final = 1
_OPTIONS: Final = frozenset(
    {"db", "username", "password", "ssl_ca_certs", "ssl_ca_path", "ssl_cert_reqs", "ssl_certfile", "ssl_keyfile"}
)
"""What may follow the ``?`` of a URL."""

_REMEDIES: Final[tuple[tuple[tuple[type[Exception], ...], str, str], ...]] = (
    ((AuthenticationError,), "NOAUTH|WRONGPASS|Authentication required", "refused the password: check it"),
    ((NoPermissionError,), "NOPERM", "does not permit this: grant the user +@all on ~memtrace:*"),
    ((ReadOnlyError,), "READONLY", "is a read-only replica: name the primary server"),
    ((OutOfMemoryError,), r"\bOOM\b", "has no memory left: raise maxmemory, or delete something"),
    ((), "MISCONF", "cannot save to its disk and so takes no writes: free some space on it and try again"),
    ((BusyLoadingError,), "LOADING", "is not ready yet: try again when it has loaded its data"),
    ((), "DB index|invalid DB", "has no such database: give a lower number, or raise `databases` there"),
    (
        (ClusterDownError, MasterDownError),
        "CLUSTERDOWN|MASTERDOWN",
        "is a cluster that is not whole: try again when all of its nodes are up",
    ),
    ((), "WRONGTYPE", "holds other data under memtrace's keys: name another database"),
    ((), "max number of clients", "has no connection left: raise maxclients there"),
    ((MaxConnectionsError,), "Too many connections", "is busy with all connections: allow more with connections="),
)
"""By what redis-py raises, or where it raises the same for everything, by what the server said."""

_now = threading.local()


class Client:
    """A server, or a cluster of them, whose connections no two processes share.

    A forked child makes new ones: redis-py would wait there for a lock that a thread of the parent may have held.
    """

    def __init__(self, make: Callable[[], redis.Redis | RedisCluster], *, connections: int) -> None:
        self._make = make
        self._connections = connections
        self._free = threading.Semaphore(connections)
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

    @contextmanager
    def lent(self, seconds: float) -> Iterator[None]:
        """One of the connections, for one thread until the block ends.

        redis-py's pool that waits for one takes a tenth of a short read; its other pool does not wait.

        Raises:
            MaxConnectionsError: all stayed in use for so long.
        """
        free = self._free
        if not free.acquire(timeout=seconds):
            raise MaxConnectionsError(f"all {self._connections} stayed in use")
        try:
            yield
        finally:
            free.release()

    def close(self) -> None:
        """Close connections; the next use opens new ones."""
        for server in self._made:
            server.close()

    def start_anew(self) -> None:
        """Forget all that was inherited, neither using nor closing it: this is a forked child."""
        self._making = threading.Lock()
        self._free = threading.Semaphore(self._connections)
        _inherited.extend(self._made)
        self._made = []


_clients: weakref.WeakSet[Client] = weakref.WeakSet()
_inherited: list[Any] = []
"""What a fork left in this child: closing one of these could end what the parent is doing."""


def _after_fork_in_child() -> None:
    for client in list(_clients):
        client.start_anew()


os.register_at_fork(after_in_child=_after_fork_in_child)


def checked(url: str) -> str:
    """The URL, as redis-py takes it.

    Raises:
        UsageError: it is no URL of a Redis server.
    """
    scheme, colon, rest = url.partition(":")
    url = f"{scheme.lower()}{colon}{rest}"
    try:
        parts = urlsplit(url)
        _ = _parts(url), parts.port
        options = parse_qs(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        raise UsageError(f"{hide_password(url)} is no Redis URL: give {_FORM}") from None
    if unknown := sorted(options.keys() - _OPTIONS):
        raise UsageError(f"{hide_password(url)} has an option {unknown[0]!r}: there are {', '.join(sorted(_OPTIONS))}")
    database = parts.path.strip("/") if scheme.lower() != "unix" else ""
    wanted = [database, *options.get("db", [])]
    whole = parts.path.strip("/") if scheme.lower() == "unix" else parts.hostname
    if not whole or not all(re.fullmatch(r"[0-9]{0,9}", number) for number in wanted) or parts.fragment:
        raise UsageError(f"{hide_password(url)} is no Redis URL: give {_FORM}")
    return url


def connect(url: str, *, timeout: float, connections: int) -> Client:
    """The server at a URL, found to hold nothing of a newer version.

    Raises:
        StoreError: it does.
        redis.RedisError: Redis failed.
    """
    limits: dict[str, Any] = {"socket_timeout": timeout, "socket_connect_timeout": timeout, "protocol": 2}
    limits["socket_read_size"] = _READ_SIZE
    client = Client(partial(_of_server, url, limits, connections), connections=connections)
    try:
        about = _about(client)
        if about.get("cluster_enabled"):
            client.close()
            cluster = partial(RedisCluster.from_url, url, **limits, retry=Retry(NoBackoff(), 1))
            client = Client(cluster, connections=connections)
        _require_version(client, url)
    except BaseException:
        client.close()
        raise
    if about.get("maxmemory") and about.get("maxmemory_policy") != "noeviction":
        warnings.warn(
            f"{hide_password(url)} evicts keys when its memory is full ({about['maxmemory_policy']}), and facts with "
            "them: set maxmemory-policy noeviction",
            UserWarning,
            stacklevel=4,
        )
    return client


def _about(client: Client) -> dict[str, Any]:
    """What the server tells of itself; nothing to a user who may not ask."""
    try:
        return {name: value for part in ("memory", "cluster") for name, value in client.server.info(part).items()}
    except NoPermissionError:
        return {}


@contextmanager
def deadline(seconds: float) -> Iterator[float]:
    """Until when, of `time.monotonic`, this thread may wait for servers in the block."""
    before = getattr(_now, "ends", float("inf"))
    _now.ends = time.monotonic() + seconds
    try:
        yield _now.ends
    finally:
        _now.ends = before


def failure(url: str, error: RedisError, *, deadline: float) -> StoreError:
    """What Redis's error means for someone who knows only the URL."""
    said = " ".join(str(error).split())
    place = hide_password(url)
    for kinds, words, remedy in _REMEDIES:
        if isinstance(error, kinds) or re.search(words, said):
            return StoreError(f"{place} {remedy}")
    if isinstance(error, TooLate) or (isinstance(error, Lost) and time.monotonic() >= deadline):
        return StoreError(
            f"{place} did not answer in time: check the host and the network, or raise timeout=;"
            " a write that was under way may be done or not"
        )
    if isinstance(error, Lost):
        return StoreError(f"{place} cannot be reached: check the host, the port and the network ({said})")
    return StoreError(f"{place} failed: {said}")


class _Socket(socket.socket):
    """One whose reads and writes end by this thread's `deadline`, however little arrives at a time."""

    def recv_into(self, *args: Any) -> int:
        usual = self.gettimeout()
        if not self._shortened(usual):
            return super().recv_into(*args)
        try:
            return super().recv_into(*args)
        finally:
            self.settimeout(usual)

    def sendall(self, *args: Any) -> None:
        usual = self.gettimeout()
        shortened = self._shortened(usual)
        try:
            super().sendall(*args)
        finally:
            if shortened:
                self.settimeout(usual)

    def _shortened(self, usual: float | None) -> bool:
        """Whether the time left was so much less than the usual that it is the timeout now."""
        left = getattr(_now, "ends", float("inf")) - time.monotonic()
        if usual is None or left >= usual * 0.9:
            return False
        self.settimeout(max(left, 0.001))
        return True


def _timed(found: socket.socket) -> socket.socket:
    timeout = found.gettimeout()
    timed = _Socket(fileno=found.detach())
    timed.settimeout(timeout)
    return timed


class _OverTcp(redis.Connection):
    def _connect(self) -> socket.socket:
        return _timed(super()._connect())  # type: ignore[no-untyped-call]  # redis-py's own


class _OverSocketFile(redis.UnixDomainSocketConnection):
    def _connect(self) -> socket.socket:
        return _timed(super()._connect())  # type: ignore[no-untyped-call]  # redis-py's own


_KINDS: Final = {"redis": _OverTcp, "unix": _OverSocketFile, "rediss": redis.SSLConnection}


def _of_server(url: str, limits: dict[str, Any], connections: int) -> redis.Redis:
    given = {**_parts(url), **limits}
    given["connection_class"] = _KINDS[urlsplit(url).scheme]
    pool = redis.ConnectionPool(max_connections=connections, retry=Retry(NoBackoff(), 0), **given)
    return redis.Redis(connection_pool=pool)


def _parts(url: str) -> dict[str, Any]:
    return cast("dict[str, Any]", parse_url(url))  # type: ignore[no-untyped-call]  # redis-py's own


def _require_version(client: Client, url: str) -> None:
    """Mark the database as ours; of several processes that open a new one at once, all write the same."""
    found = client.server.get(_SCHEMA)
    if found is None:
        client.server.setnx(_SCHEMA, _VERSION)
        found = client.server.get(_SCHEMA)
    version = int(found) if found is not None and found.isdigit() else None
    if version is None:
        raise StoreError(f"{hide_password(url)} holds other data under {_SCHEMA}: name another database")
    if version > _VERSION:
        raise StoreError(
            f"{hide_password(url)} was written by a newer memtrace (schema {version}, this one knows {_VERSION}):"
            " upgrade memtrace"
        )


@lru_cache(maxsize=32)
def _digest(script: str) -> str:
    return hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
