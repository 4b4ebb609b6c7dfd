"""A proxy before any server that lets a test do to the connection what networks do.

It counts bytes, replies and connections rather than seconds wherever it can, so that what it does is chosen, not hoped
for. Each call has taken effect when it returns.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Coroutine
from threading import Thread
from typing import Any, Final, Self
from urllib.parse import parse_qs, urlsplit, urlunsplit

from memtrace.errors import UsageError
from memtrace.harness.faults.modes import (
    BlackHole,
    CutAfter,
    Drip,
    Flap,
    Link,
    Mode,
    PassThrough,
    ResetMidReply,
    Slow,
)
from memtrace.harness.services.ports import free_port

_LOOPBACK: Final = "127.0.0.1"
_CHUNK: Final = 65536
_DEFAULT_PORTS: Final = {"postgres": 5432, "postgresql": 5432, "redis": 6379, "http": 80}


class FaultProxy:
    """A TCP proxy on loopback, in a thread of its own. Use as a context manager; at first it passes everything on.

    Args:
        target: where the server is: ``host:port``, the path of a Unix socket, or the server's URL.
    """

    def __init__(self, target: str) -> None:
        self.host = _LOOPBACK
        self.port = 0
        self.requests = 0
        """How many pieces of what clients sent have been passed on."""
        self._target = _address(target)
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, name="memtrace-fault-proxy", daemon=True)
        self._links: set[Link] = set()
        self._mode: Mode = PassThrough()
        self._changed = asyncio.Event()
        self._listener: asyncio.Server | None = None
        self._held: socket.socket | None = None

    def __enter__(self) -> Self:
        self._held = _bound(0)
        self.port = self._held.getsockname()[1]
        self._thread.start()
        self._do(self._listen())
        return self

    def __exit__(self, *_error: object) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def url(self, of: str) -> str:
        """The same URL by way of the proxy; one of a Unix socket becomes ``redis://127.0.0.1:PORT/N``."""
        parts = urlsplit(of)
        login, at, _ = parts.netloc.rpartition("@")
        netloc = f"{login}{at}{self.host}:{self.port}"
        if parts.scheme != "unix":
            return urlunsplit(parts._replace(netloc=netloc))
        return f"redis://{netloc}/{parse_qs(parts.query).get('db', ['0'])[0]}"

    def pass_through(self) -> None:
        """Pass everything on, also what a black hole held back."""
        self._do(self._set(PassThrough()))

    def refuse(self) -> None:
        """Refuse new connections, and reset the open ones: the server is down."""
        self._do(self._refuse())

    def black_hole(self) -> None:
        """Accept connections and bytes, and pass none on, to nobody: the network is cut."""
        self._do(self._set(BlackHole()))

    def slow(self, seconds: float) -> None:
        """Hold back each reply so long."""
        self._do(self._set(Slow(seconds)))

    def reset_mid_reply(self, after_bytes: int = 1) -> None:
        """Reset each connection when so many more bytes of replies have passed on it."""
        self._do(self._set(ResetMidReply(after_bytes)))

    def half_open(self) -> None:
        """Make the server forget the open connections and tell nobody: they stay silent for ever; new ones pass."""
        self._do(self._set(PassThrough(), forget=True))

    def drip(self, bytes_per_second: float) -> None:
        """Pass on replies byte by byte."""
        self._do(self._set(Drip(1 / bytes_per_second)))

    def flap(self, *, up: int = 1, down: int = 1) -> None:
        """Go down after every ``up`` replies, which resets all connections, and up after ``down`` refused ones."""
        self._do(self._set(Flap(up, down)))

    def cut_after(self, requests: int, then: Callable[[], None]) -> None:
        """Pass on so many more requests, and nothing else: no reply to the last of them, and none that come later.

        ``then`` is called, once, as the server has answered that one, or the client has sent another.
        """
        self._do(self._set(CutAfter(requests, then)))

    def reset(self) -> None:
        """Reset the connections that are open, once; new ones fare as before."""
        self._do(self._reset())

    @property
    def connections(self) -> int:
        """How many clients are connected now."""
        return len(self._links)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _set(self, mode: Mode, *, forget: bool = False) -> None:
        for link in self._links if forget else ():
            link.forget()
        self._mode = mode
        self._changed.set()
        self._changed = asyncio.Event()
        await self._listen()

    async def _refuse(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
            # Bound, and not listening: it refuses, and nobody else can take the port.
            self._held = _bound(self.port)
        self.reset_all()

    async def _listen(self) -> None:
        if self._listener is None and self._held is not None:
            self._listener = await asyncio.start_server(self._serve, sock=self._held)
            self._held = None

    async def _reset(self) -> None:
        self.reset_all()

    def reset_all(self) -> None:
        """See `Network`."""
        for link in list(self._links):
            link.reset()

    async def _end(self) -> None:
        await self._refuse()
        if self._held is not None:
            self._held.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link(writer)
        self._links.add(link)
        try:
            if self._mode.admits():
                await self._join(link, reader)
            else:
                link.reset()
        except (OSError, asyncio.CancelledError):
            link.reset()  # a side that broke off is what this is for, and a task is cancelled at the end alone
        finally:
            self._links.discard(link)
            link.close()

    async def _join(self, link: Link, reader: asyncio.StreamReader) -> None:
        await self._while_cut()
        if link.client.is_closing():
            return  # it was reset while it was cut off
        answers, link.server = await self._connect()
        replies = asyncio.create_task(self._pass_replies(link, answers))
        try:
            await self._pass_requests(link, reader)
        finally:
            replies.cancel()
            await asyncio.gather(replies, return_exceptions=True)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._target, str):
            return await asyncio.open_unix_connection(self._target)
        return await asyncio.open_connection(*self._target)

    async def _pass_requests(self, link: Link, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(_CHUNK):
            await self._while_cut()
            if link.server is not None and not link.forgotten and self._mode.take_request():
                self.requests += 1
                link.server.write(data)
                await link.server.drain()

    async def _pass_replies(self, link: Link, answers: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while data := await answers.read(_CHUNK):
                while data and not link.forgotten:
                    await self._while_cut()
                    data = await self._mode.reply(self, link, data)
        if not link.forgotten:
            link.close()

    async def _while_cut(self) -> None:
        while self._mode.holds:
            await self._changed.wait()

    async def pause(self, seconds: float) -> None:
        """See `Network`."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)


def _address(target: str) -> str | tuple[str, int]:
    """A Unix socket's path, or a host and a port."""
    parts = urlsplit(target if "://" in target or target.startswith("/") else f"tcp://{target}")
    if parts.scheme in ("", "unix"):
        return parts.path
    port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
    if not parts.hostname or port is None:
        raise UsageError(f"{target!r} names no server: give host:port, the path of a Unix socket, or a URL")
    return parts.hostname, port


def _bound(port: int) -> socket.socket:
    """A socket bound to a port (0: one that systems do not hand out by themselves)."""
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((_LOOPBACK, port or free_port()))
    return bound
