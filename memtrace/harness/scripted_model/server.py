"""The scripted model as a real HTTP server: an OpenAI-compatible API on loopback, one path prefix a script.

One server serves a whole test session; `memtrace.harness.scripted_model.app` says what it serves.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from types import TracebackType
from typing import Any, Final, Self

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from memtrace.harness.record import attribution
from memtrace.harness.scripted_model.app import application
from memtrace.harness.scripted_model.calls import Calls, Script, Scripts

_STOP_SECONDS: Final = 0.9
"""How long to wait for the server's thread; it is a daemon, so whatever still hangs then hangs nobody else."""
_GRACE_SECONDS: Final = 0.2
"""How long a connection may take to get its last answer once the server stops."""
_LOGGER: Final = logging.getLogger("uvicorn.error")


class ModelServer:
    """A server on an ephemeral port of 127.0.0.1, in a daemon thread, while the ``with`` block lasts.

    Requests to it carry the labels of `memtrace.harness.record.attribution` meanwhile. Leaving answers what is still
    held with 410 and takes less than a second.
    """

    def __init__(self) -> None:
        self._scripts = Scripts()
        self._calls = Calls()
        self._server = _Server(
            uvicorn.Config(
                application(self._scripts, self._calls),
                loop="asyncio",
                http=_Protocol,  # the same on every machine, whatever faster parser is installed
                ws="none",
                lifespan="off",
                proxy_headers=False,
                log_config=None,  # an application's logging is its own
                server_header=False,
                date_header=False,
            )
        )

    def __enter__(self) -> Self:
        listener = _listener()
        self._origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self._thread = threading.Thread(
            target=self._server.run, args=([listener],), name="memtrace-model-server", daemon=True
        )
        _LOGGER.addFilter(self._wanted)
        self._thread.start()
        attribution.watch(self._origin)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        attribution.unwatch(self._origin)
        self._scripts.end_all()
        self._calls.let_go()
        self._server.should_exit = True
        self._thread.join(_STOP_SECONDS)
        _LOGGER.removeFilter(self._wanted)

    def register(self, script: Script) -> str:
        """Serve a script; the base URL for its clients, ``http://127.0.0.1:PORT/PREFIX/v1``."""
        return f"{self._origin}/{self._scripts.add(script)}/v1"

    def unregister(self, url: str) -> None:
        """Requests to this base URL get 410 from now on; those that are held still get their answer."""
        self._scripts.end(url.removeprefix(self._origin).split("/")[1])

    def _wanted(self, record: logging.LogRecord) -> bool:
        """A connection dropped on purpose is no error of anyone's."""
        ours = record.thread == self._thread.ident
        return not (ours and record.msg == "ASGI callable returned without completing response.")


class _Protocol(H11Protocol):
    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        # Not by uvicorn's setting: that silences the logger of everyone's servers, and pytest hears it all the same.
        self.access_log = False


class _Server(uvicorn.Server):
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # uvicorn waits for the last connection to close, and a client may never close its own.
        asyncio.get_running_loop().call_later(_GRACE_SECONDS, self._abort)
        await super().shutdown(sockets)

    def _abort(self) -> None:
        for connection in self.server_state.connections.copy():
            connection.transport.abort()


def _listener() -> socket.socket:
    """A socket that listens before its server runs: a request that comes early waits in its queue."""
    # The protocol must be named: asyncio turns Nagle's delay off only where it is, else an answer takes 40 ms.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(512)
    return listener
