"""What becomes of connections, requests and replies by way of a proxy that fails in a chosen way."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Final, Protocol

_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


@dataclass(eq=False, slots=True)
class Link:
    """A client's connection, and the one to the server that belongs to it."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter | None = None
    forgotten: bool = False

    async def send(self, data: bytes) -> None:
        """To the client."""
        self.client.write(data)
        await self.client.drain()

    def forget(self) -> None:
        """The server's side ends, and the client is not told."""
        self.forgotten = True
        if self.server is not None:
            self.server.transport.abort()

    def reset(self) -> None:
        """Both sides end; the client's by a reset."""
        raw = self.client.get_extra_info("socket")
        if raw is not None and not self.client.is_closing():
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.client.transport.abort()
        self.close()

    def close(self) -> None:
        """Both sides end."""
        self.client.close()
        if self.server is not None:
            self.server.close()


class Network(Protocol):
    """What a mode may do to more than one connection."""

    async def pause(self, seconds: float) -> None:
        """Wait so long, or until another mode is chosen."""

    def reset_all(self) -> None:
        """Reset every connection."""


class Mode(Protocol):
    """What becomes of new connections, of requests and of replies."""

    @property
    def holds(self) -> bool:
        """Whether nothing at all passes until another mode is chosen."""

    def admits(self) -> bool:
        """Whether a new connection is let through."""

    def take_request(self) -> bool:
        """Count a request; ``True`` for one to pass on."""

    async def reply(self, network: Network, link: Link, data: bytes) -> bytes:
        """Pass on some of a reply; returns the rest."""


class PassThrough:
    """Everything goes where it was sent."""

    holds: ClassVar[bool] = False

    def admits(self) -> bool:
        """Always."""
        return True

    def take_request(self) -> bool:
        """Always."""
        return True

    async def reply(self, _network: Network, link: Link, data: bytes) -> bytes:
        """All of it."""
        await link.send(data)
        return b""


class BlackHole(PassThrough):
    """Nothing passes while it lasts."""

    holds: ClassVar[bool] = True


@dataclass(slots=True)
class Slow(PassThrough):
    """Each reply waits so long."""

    seconds: float

    async def reply(self, network: Network, link: Link, data: bytes) -> bytes:
        """All of it, later."""
        await network.pause(self.seconds)
        await link.send(data)
        return b""


@dataclass(slots=True)
class Drip(PassThrough):
    """Replies come byte by byte, so far apart."""

    seconds: float

    async def reply(self, network: Network, link: Link, data: bytes) -> bytes:
        """One byte of it, and a pause."""
        await link.send(data[:1])
        await network.pause(self.seconds)
        return data[1:]


@dataclass(slots=True)
class ResetMidReply(PassThrough):
    """Each connection is reset when so many more bytes of replies have passed on it."""

    after: int
    passed: dict[Link, int] = field(default_factory=dict)

    async def reply(self, _network: Network, link: Link, data: bytes) -> bytes:
        """As much as may still pass."""
        left = self.after - self.passed.get(link, 0)
        self.passed[link] = self.after - left + len(data)
        await link.send(data[:left])
        if len(data) >= left:
            link.reset()
        return b""


@dataclass(slots=True)
class CutAfter(PassThrough):
    """So many more requests pass, and no reply to the last of them."""

    left: int
    then: Callable[[], None]
    cut: bool = False

    def take_request(self) -> bool:
        """Until none is left."""
        if self.left == 0:
            self._cut()
            return False
        self.left -= 1
        return True

    async def reply(self, network: Network, link: Link, data: bytes) -> bytes:
        """None to the last request."""
        if self.left:
            return await PassThrough.reply(self, network, link, data)
        self._cut()
        return b""

    def _cut(self) -> None:
        if not self.cut:
            self.cut = True
            self.then()


@dataclass(slots=True)
class Flap(PassThrough):
    """Down after so many replies, up after so many refused connections."""

    up: int
    down: int
    replies: int = 0
    refused: int = 0

    def admits(self) -> bool:
        """While it is up."""
        if self.replies < self.up:
            return True
        self.refused += 1
        if self.refused >= self.down:
            self.replies = self.refused = 0
        return False

    async def reply(self, network: Network, link: Link, data: bytes) -> bytes:
        """All of it, and down with everything where that was the last."""
        await link.send(data)
        self.replies += 1
        if self.replies >= self.up:
            network.reset_all()
        return b""
