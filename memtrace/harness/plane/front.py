"""The HTTP front of the plane that scripts use: it records every request and can answer as a plane in trouble would.

Behind it is the real plane. A front has a thread for each connection and hands on plain bytes, so that what a server
framework would never do (half an answer, a million facts) is one function each, in `memtrace.harness.plane.faults`.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Protocol

_SECRET: Final = frozenset({"x-api-key", "authorization", "cookie"})


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came; header names in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes = field(default=b"", repr=False)

    @property
    def shown(self) -> dict[str, str]:
        """The headers as they may be kept: no key's value."""
        return {name: "(a key)" if name in _SECRET else value for name, value in self.headers.items()}


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


Plane = Callable[[Asked], Answer]


class Fault(Protocol):
    """Answers in the plane's stead; whatever it returns is sent, and with ``None`` it has done all there is."""

    def __call__(self, connection: Connection, asked: Asked, plane: Plane) -> Answer | None:
        """Answer one request."""


class Connection:
    """One client's connection, for faults that say less, or more, than an answer."""

    def __init__(self, plain: socket.socket) -> None:
        self._plain = plain

    def send(self, data: bytes) -> bool:
        """Send; whether the client is still there."""
        with suppress(OSError):
            self._plain.sendall(data)
            return True
        return False


class Front:
    """A server in front of a plane, on a port of its own of this machine."""

    def __init__(self, plane: Plane, seen: Callable[[Asked, int], object]) -> None:
        self._plane = plane
        self._seen = seen
        self._fault: Fault | None = None
        self._server = _Server(("127.0.0.1", 0), self._handler())
        self._serving = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True, name="plane")
        self._serving.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def fault(self, fault: Fault | None) -> None:
        """From now on each request meets this fault, or none."""
        self._fault = fault

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._serving.join()
        self._server.server_close()

    def _handler(self) -> type[_Handler]:
        front = self

        class Handler(_Handler):
            def handle_one(self, asked: Asked) -> None:
                front._handle(self, asked)

            def finish(self) -> None:
                with suppress(OSError, ValueError):
                    super().finish()

        return Handler

    def _handle(self, handler: _Handler, asked: Asked) -> None:
        fault = self._fault
        connection = Connection(handler.connection)
        if fault is None:
            answer: Answer | None = self._plane(asked)
            self._seen(asked, answer.status if answer else 0)
        else:
            at_once = getattr(fault, "status", 0)
            self._seen(asked, at_once)
            answer = fault(connection, asked, self._plane)
        if answer is None:
            handler.close_connection = True
        else:
            handler.reply(answer)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error of ours."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def handle_one(self, asked: Asked) -> None:
        raise NotImplementedError

    def reply(self, answer: Answer) -> None:
        lines = [f"HTTP/1.1 {answer.status} {self.responses.get(answer.status, ('',))[0]}"]
        headers = {name: value for name, value in answer.headers.items() if name.lower() != "content-length"}
        if answer.status not in (204, 304):
            headers["Content-Length"] = str(len(answer.body))
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.wfile.write("\r\n".join([*lines, "", ""]).encode("latin-1") + answer.body)

    def _any(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.handle_one(Asked(self.command, self.path, headers, self.rfile.read(size)))

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _any  # noqa: N815  http.server's names

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  http.server's name
        """The history is the log."""
