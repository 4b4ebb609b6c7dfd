"""Reaching a Redis server: what its URL says, the limits of a connection, and what its failures mean."""

from __future__ import annotations

import re
import socket
import threading
import time
import warnings
from functools import partial
from typing import Any, Final, cast
from urllib.parse import parse_qs, urlsplit

import redis
from redis.backoff import NoBackoff
from redis.connection import parse_url
from redis.exceptions import (
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    InvalidResponse,
    MasterDownError,
    MaxConnectionsError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
)
from redis.exceptions import ConnectionError as Lost
from redis.exceptions import TimeoutError as TooLate
from redis.retry import Retry

from memtrace.errors import StoreError, UsageError
from memtrace.stores.location import hide_password
from memtrace.stores.redis_cluster import Cluster
from memtrace.stores.redis_fast import Pool, Server
from memtrace.stores.redis_pool import Client
from memtrace.stores.redis_rows import PREFIX
from memtrace.stores.redis_scripts import LOST
from memtrace.stores.rows import MAYBE_DONE, MORE_CONNECTIONS, MORE_TIME

_FORM: Final = (
    "redis://user:password@host:6379/0, with % codes for special characters (%40 for @), rediss:// for TLS,"
    " or unix:///path/to/socket?db=0"
)
_READ_SIZE: Final = 1 << 19
"""Bytes taken at once, so that fifty long facts are not many small steps."""
_SCHEMA: Final = f"{PREFIX}schema"
_VERSION: Final = 1
_OPTIONS: Final = frozenset(
    {
        "db", "username", "password", "protocol",
        "ssl_ca_certs", "ssl_ca_path", "ssl_cert_reqs", "ssl_certfile", "ssl_keyfile",
    }
)  # fmt: skip
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
    (
        (),
        rf"^{LOST}\b",
        "has lost some of a scope's keys: stop what evicts or deletes them, then restore a backup or delete the scope",
    ),
    ((), "NOREPLICAS", "has too few replicas to take writes: bring one up, or lower min-replicas-to-write there"),
    ((), r"\bBUSY\b", "is busy with a long script: try again when that is done"),
    ((), "WRONGTYPE|not an integer|would overflow", "holds other data under memtrace's keys: name another database"),
    ((), "max number of clients", "has no connection left: raise maxclients there"),
    ((MaxConnectionsError,), "Too many connections", f"is busy with all connections: {MORE_CONNECTIONS}"),
    (
        (),
        "certificate verify failed",
        "has a certificate that is not trusted: check the host's name, and name its authority with ?ssl_ca_certs=FILE",
    ),
)
"""By what redis-py raises, or where it raises the same for everything, by what the server said."""
_TLS: Final = {
    "rediss": ", and whether that server speaks TLS (redis:// is without)",
    "redis": ", and whether that server wants TLS (rediss://)",
}
"""What else may be the matter with one that listens and never gave a proper answer, by the URL's scheme."""
_TLS_ALERT: Final = r'Protocol error, got "\x15"'
"""What redis-py says of a server that answers a plain question as TLS does."""
_UNREACHED: Final = " connecting to "
"""What redis-py says where there was no connection, and so nothing was asked of the server."""


class _Now(threading.local):
    ends: float = float("inf")


_now = _Now()


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
    if not {"2", "3"}.issuperset(options.get("protocol", [])):
        raise UsageError(f"{hide_password(url)} names a protocol that there is not: give protocol=2 or protocol=3")
    return url


def connect(url: str, *, timeout: float, connections: int) -> Client:
    """The server at a URL, found to hold nothing of a newer version.

    Raises:
        StoreError: it does.
        redis.RedisError: Redis failed.
    """
    settings: dict[str, Any] = {
        "socket_timeout": timeout,
        "socket_connect_timeout": timeout,
        "socket_read_size": _READ_SIZE,
        "protocol": _parts(url).get("protocol", 2),
    }
    client = Client(partial(_of_server, url, settings), connections=connections)
    try:
        about = _about(client)
        if about.get("cluster_enabled"):
            client.close()
            cluster = partial(Cluster.from_url, url, **settings, retry=Retry(NoBackoff(), 1))
            client = Client(cluster, connections=connections)
        _require_version(client, url)
    except BaseException:  # an interrupt too may not leave it open
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


class Attempt:
    """A block in which this thread waits for servers until a time, and redis-py's errors become ours.

    Raises:
        StoreError: Redis failed.
    """

    __slots__ = ("_before", "_ends", "_opening", "_seconds", "_url")

    def __init__(self, url: str, *, seconds: float, opening: bool = False) -> None:
        self._url = url
        self._opening = opening
        self._seconds = seconds

    def __enter__(self) -> None:
        self._before = _now.ends
        self._ends = _now.ends = time.monotonic() + self._seconds

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        _now.ends = self._before
        if isinstance(error, RedisError):
            raise _failure(self._url, error, deadline=self._ends, opening=self._opening) from error


def _failure(url: str, error: RedisError, *, deadline: float, opening: bool) -> StoreError:
    """What Redis's error means for someone who knows only the URL."""
    said = " ".join(str(error).split())
    place = hide_password(url)
    for kinds, words, remedy in _REMEDIES:
        if isinstance(error, kinds) or re.search(words, said):
            return StoreError(f"{place} {remedy}")
    if opening and isinstance(error, InvalidResponse):
        return StoreError(f"{place} is no Redis server{_of_other_kind(said)}")
    perhaps = "" if opening or _UNREACHED in said else f"; {MAYBE_DONE}"
    heard = opening and (_UNREACHED not in said or "SSL" in said or isinstance(error, TooLate))
    network = "the network" + (_TLS.get(urlsplit(url).scheme, "") if heard else "")
    if isinstance(error, TooLate) or (isinstance(error, Lost) and time.monotonic() >= deadline):
        return StoreError(f"{place} did not answer in time: check the host and {network}{MORE_TIME}{perhaps}")
    if isinstance(error, Lost):
        return StoreError(f"{place} cannot be reached: check the host, the port and {network} ({said}){perhaps}")
    return StoreError(f"{place} failed: {said}")


def _of_other_kind(said: str) -> str:
    """What answers there instead, and what to do."""
    if said.startswith(_TLS_ALERT):
        return " without TLS: give rediss:// to speak TLS with it"
    return f": something else listens there, so check the port ({said})"


class _Socket(socket.socket):
    """One whose reads and writes end by the end of this thread's `Attempt`, however little arrives at a time."""

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
        left = _now.ends - time.monotonic()
        if usual is None or left >= usual * 0.9:
            return False
        if left <= 0:
            raise TimeoutError("timed out")
        self.settimeout(left)
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


def _of_server(url: str, settings: dict[str, Any]) -> redis.Redis:
    given = {**_parts(url), **settings}
    given["connection_class"] = _KINDS[urlsplit(url).scheme]
    return Server.from_pool(Pool(retry=Retry(NoBackoff(), 0), **given))


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
