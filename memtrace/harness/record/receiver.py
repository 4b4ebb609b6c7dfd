"""OTLP receivers that keep what came, byte for byte: over HTTP, and over gRPC for who has grpcio.

A body is kept as it was before compression, which would hide words that did leave.
"""

from __future__ import annotations

import gzip
import itertools
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from types import TracebackType
from typing import Any, Final, Self

SIGNALS: Final = ("traces", "logs", "metrics")
MOST_BYTES: Final = 64 * 2**20
"""A request that is longer is refused."""

_UNPACK: Final[dict[str, Callable[[bytes], bytes]]] = {"gzip": gzip.decompress, "deflate": zlib.decompress}


def unpacked(body: bytes, encoding: str) -> bytes:
    """A body as it was before compression."""
    return _UNPACK.get(encoding, bytes)(body)


@dataclass(frozen=True, slots=True)
class Received:
    """One export request: ``traces``, ``logs`` or ``metrics``, its body, and its headers by names in small letters."""

    signal: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict, compare=False)


@dataclass(slots=True)
class Inbox:
    """What one address received, in order. ``status`` is what requests to it are answered with."""

    requests: list[Received] = field(default_factory=list)
    status: int = 200
    on_request: Callable[[Received], None] | None = None

    def put(self, signal: str, body: bytes, *, headers: Iterable[tuple[str, Any]]) -> None:
        """Keep a request."""
        received = Received(signal, body, {name.lower(): str(value) for name, value in headers})
        self.requests.append(received)
        if self.on_request is not None:
            self.on_request(received)


class Receiver:
    """An OTLP/HTTP receiver on 127.0.0.1 with an address for each script, while the ``with`` block lasts."""

    def __init__(self) -> None:
        self._inboxes: dict[str, Inbox] = {}
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.05,), name="otlp-receiver", daemon=True
        )
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def register(self, inbox: Inbox) -> str:
        """An address for an inbox: the base URL that ``/v1/traces`` follows."""
        prefix = f"c{next(self._numbers)}"
        self._inboxes[prefix] = inbox
        return f"http://127.0.0.1:{self._server.server_port}/{prefix}"

    def unregister(self, url: str) -> None:
        """What still comes to this address is answered with 410."""
        self._inboxes.pop(url.rpartition("/")[2], None)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        inboxes = self._inboxes

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                if length > MOST_BYTES:
                    self._answer(413)
                    return
                body = self.rfile.read(length)
                _, prefix, *path = self.path.split("/")
                inbox = inboxes.get(prefix)
                if inbox is None or not path or path[-1] not in SIGNALS:
                    self._answer(410)
                    return
                if inbox.status == 200:
                    whole = unpacked(body, self.headers.get("Content-Encoding", ""))
                    inbox.put(path[-1], whole, headers=self.headers.items())
                self._answer(inbox.status)

            def _answer(self, status: int) -> None:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the base class's name
                """Requests are kept, not printed."""

        return Handler


@contextmanager
def grpc_receiver(inbox: Inbox) -> Iterator[str]:
    """An OTLP/gRPC receiver on 127.0.0.1; gives its URL. Needs grpcio."""
    grpc: Any = import_module("grpc")  # without stubs
    server = grpc.server(ThreadPoolExecutor(4, thread_name_prefix="otlp-grpc"))
    server.add_generic_rpc_handlers((_Exports(inbox, grpc),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.stop(None).wait(5)


class _Exports:
    """The three ``Export`` methods; requests stay bytes, and an empty answer is a valid one."""

    def __init__(self, inbox: Inbox, grpc: Any) -> None:
        self._inbox, self._grpc = inbox, grpc

    def service(self, call: Any) -> Any:
        signal = next((signal for signal in SIGNALS if f".{signal.removesuffix('s')}" in call.method), None)
        if signal is None:
            return None

        def export(body: bytes, context: Any) -> bytes:
            if self._inbox.status != 200:
                context.abort(self._grpc.StatusCode.UNAVAILABLE, "not now")
            self._inbox.put(signal, body, headers=context.invocation_metadata())
            return b""

        return self._grpc.unary_unary_rpc_method_handler(export)
