"""The plane that the scripts of this process read: ``memtrace plane serve``, with keys made on the command line.

There is one a process. Scripts keep apart by their agents' ids, which no two of them share.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import string
import subprocess
import sys
import threading
from contextlib import closing
from functools import lru_cache
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import memtrace
from memtrace.errors import PlaneError
from memtrace.harness.plane.front import Answer, Asked
from memtrace.harness.services.kept import KeptDirectory, KeptProcess
from memtrace.harness.services.server import NotHere

_OF_ONE_CONNECTION: Final = frozenset({"host", "content-length", "connection"})
_ANSWERS_WITHIN: Final = 60.0
_PLANE: Final = (sys.executable, "-m", "memtrace.cli", "plane")
_one_at_a_time = threading.Lock()


def plane_server() -> PlaneServer:
    """The plane of this process, which runs from the first call to the process's end.

    Raises:
        NotHere: it cannot be served; the reason is its last word.
    """
    with _one_at_a_time:
        return _plane_server()


@lru_cache(maxsize=1)
def _plane_server() -> PlaneServer:
    server = PlaneServer()
    atexit.register(server.stop)
    return server


class PlaneServer:
    """A plane in a process of its own, a curator's key and a reader's. It is gone when this process is."""

    def __init__(self) -> None:
        self._directory = KeptDirectory()
        self._store = f"--store={self._directory.path / 'plane.db'}"
        self._process = KeptProcess(
            self._directory, self._serve, ready=self._is_ready, end_by=signal.SIGKILL, environ=_this_memtrace()
        )
        try:
            self._curator, self.reader = self._key("curator"), self._key("reader")
            self._process.start()
        except BaseException:  # an interrupt too may not leave it running
            self._process.stop()
            raise

    def answer(self, asked: Asked) -> Answer:
        """What it answers to a request."""
        headers = {name: value for name, value in asked.headers.items() if name not in _OF_ONE_CONNECTION}
        target = quote(asked.target.encode("latin-1", "replace"), safe=string.printable)
        with closing(HTTPConnection("127.0.0.1", self._process.port, timeout=_ANSWERS_WITHIN)) as connection:
            connection.request(asked.method, target, asked.body or None, headers)
            answer = connection.getresponse()
            return Answer(answer.status, dict(answer.getheaders()), answer.read())

    def curate(self, path: str, **body: str) -> dict[str, Any]:
        """The fact that a curator's ``POST`` makes or changes."""
        fact: dict[str, Any] = self._curators("POST", path, json.dumps(body).encode() if body else b"")
        return fact

    def served(self, agent: str) -> tuple[str, ...]:
        """The facts that it serves to an agent."""
        asked = urlencode({"agent_id": agent, "limit": 200})
        facts = self._curators("GET", f"/public/v1/memory/facts?{asked}")["facts"]
        return tuple(fact["content"] for fact in facts)

    def stop(self) -> None:
        """End it."""
        self._process.stop()

    def _curators(self, method: str, target: str, body: bytes = b"") -> Any:
        headers = {"x-api-key": self._curator, **({"content-type": "application/json"} if body else {})}
        answer = self.answer(Asked(method, target, headers, body))
        if answer.status not in (200, 201):
            raise PlaneError(f"the plane answered a curator {answer.status}: {answer.body.decode()[:200]}")
        return json.loads(answer.body)

    def _serve(self, port: int) -> list[str]:
        return [*_PLANE, "serve", self._store, "--port", str(port)]

    def _is_ready(self, _pid: int, _port: int) -> bool:
        """Whether it has said where it is, which it does once it listens; a port that answers may be another's."""
        return "the plane is at" in (self._directory.path / "log").read_text(errors="replace")

    def _key(self, role: str) -> str:
        made = [*_PLANE, "key", "create", self._store, "--role", role, "--name", f"the scripts' {role}"]
        done = subprocess.run(  # noqa: S603  our own command
            made, capture_output=True, text=True, check=False, env={**os.environ, **_this_memtrace()}
        )
        if done.returncode:
            raise NotHere((done.stderr.strip().splitlines() or ["it said nothing"])[-1])
        return done.stdout.strip()


def _this_memtrace() -> dict[str, str]:
    """The variable with which a Python runs this very memtrace, wherever that is."""
    home = str(Path(memtrace.__file__).parent.parent)
    return {"PYTHONPATH": os.pathsep.join(filter(None, (home, os.environ.get("PYTHONPATH", ""))))}
