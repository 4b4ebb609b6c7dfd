"""One GET within one deadline: connecting, every byte of the answer, and looking up the name too.

A timeout of each socket operation is no bound: an answer that drips one byte a second never exceeds it. Here each
operation gets what is left of the deadline. Looking up a name cannot be told to stop, so the whole of it runs in a
thread that is left behind when the time is up. Redirects are answers, proxies of the environment are not used, and
nothing compressed is asked for.
"""

from __future__ import annotations

import contextvars
import os
import ssl
import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

import httpcore

from memtrace.plane.states import Failure, Status

_KEPT_ALIVE: Final = 4.0
"""Seconds that an idle connection is used again: less than servers keep theirs, uvicorn's five the shortest."""

_deadline: ContextVar[float] = ContextVar("deadline of a read")


@dataclass(frozen=True, slots=True)
class Answer:
    """What the plane answered; header names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Fetching:
    """GETs of one server, over connections that are kept. Safe over threads and forks."""

    def __init__(self, *, timeout: float, max_body: int, tls: bool) -> None:
        self._tls = tls
        self._timeout = timeout
        self._max_body = max_body
        self._pool: httpcore.ConnectionPool | None = None
        self._pid = 0
        self._lock = threading.Lock()

    def get(self, url: str, headers: Mapping[str, str]) -> Answer:
        """The answer of a server.

        Raises:
            Failure: there was none in time, or it is too large.
        """
        future: Future[Answer] = Future()
        context = contextvars.copy_context()
        until = time.monotonic() + self._timeout
        work = threading.Thread(
            target=context.run, args=(self._answer, future, until, url, headers), daemon=True, name="plane read"
        )
        work.start()
        try:
            return future.result(self._timeout)
        except TimeoutError:
            raise Failure(Status.TIMEOUT, f"no whole answer within {self._timeout:g} s") from None

    def close(self) -> None:
        """Let go of the connections; the next read makes new ones."""
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None and self._pid == os.getpid():
            pool.close()

    def forked(self) -> None:
        """In a forked child: the parent's connections and lock are the parent's."""
        self._lock = threading.Lock()
        self._pool = None

    def _answer(self, future: Future[Answer], until: float, url: str, headers: Mapping[str, str]) -> None:
        _deadline.set(until)
        try:
            future.set_result(self._fetch(url, headers))
        except Failure as failure:
            future.set_exception(failure)
        except httpcore.TimeoutException:
            future.set_exception(Failure(Status.TIMEOUT, f"no whole answer within {self._timeout:g} s"))
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.UnsupportedProtocol, OSError) as error:
            future.set_exception(Failure(Status.UNREACHABLE, type(error).__name__))
        except BaseException as error:  # noqa: BLE001  whatever it is, the one who waits must see it
            future.set_exception(error)

    def _fetch(self, url: str, headers: Mapping[str, str]) -> Answer:
        with self._connections().stream("GET", url, headers=list(headers.items())) as response:
            told = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in response.headers}
            parts, size = [], 0
            for part in response.iter_stream():
                size += len(part)
                if size > self._max_body:
                    raise Failure(Status.MALFORMED, f"an answer of more than {self._max_body:,} bytes")
                parts.append(part)
            return Answer(response.status, told, b"".join(parts))

    def _connections(self) -> httpcore.ConnectionPool:
        with self._lock:
            if self._pool is None or self._pid != os.getpid():
                self._pid = os.getpid()
                self._pool = httpcore.ConnectionPool(
                    network_backend=_WithinDeadline(), keepalive_expiry=_KEPT_ALIVE, max_keepalive_connections=2,
                    ssl_context=ssl.create_default_context() if self._tls else None,
                )  # fmt: skip
            return self._pool


class _WithinDeadline(httpcore.NetworkBackend):
    """Connections whose every operation ends by the deadline of the read it is part of."""

    def __init__(self) -> None:
        self._plain = httpcore.SyncBackend()

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:  # fmt: skip
        left = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._plain.connect_tcp(host, port, left, local_address, socket_options))


class _Stream(httpcore.NetworkStream):
    def __init__(self, plain: httpcore.NetworkStream) -> None:
        self._plain = plain

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._plain.read(max_bytes, _left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._plain.write(buffer, _left(timeout, httpcore.WriteTimeout))

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._plain.start_tls(ssl_context, server_hostname, left))

    def get_extra_info(self, info: str) -> Any:
        return self._plain.get_extra_info(info)

    def close(self) -> None:
        self._plain.close()


def _left(timeout: float | None, late: type[httpcore.TimeoutException]) -> float:
    left = _deadline.get() - time.monotonic()
    if left <= 0:
        raise late
    return left if timeout is None else min(timeout, left)
