"""Servers in containers, where a Docker daemon answers."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Callable
from contextlib import closing, suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from memtrace.harness.services.places import DATABASES
from memtrace.harness.services.ports import free_port
from memtrace.harness.services.server import NotHere, Server

_POSTGRES_IMAGE: Final = "pgvector/pgvector:pg17"
_REDIS_IMAGE: Final = "valkey/valkey:8"
_DOCKER_SOCKET: Final = "unix:///var/run/docker.sock"
_PING_SECONDS: Final = 3
_READY_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.05
_QUICK: Final = ("fsync=off", "full_page_writes=off", "max_connections=200")
_DURABLE: Final = ("max_connections=200",)


class KeptContainer:
    """A server's container; see `Running`. What is left of it when this process is killed, testcontainers removes."""

    def __init__(self, container: Any, inside: int, ready: Callable[[int], bool]) -> None:
        self.port = free_port()
        # A port of our own choice: one of the daemon's choice would be another after `kill` and `start`.
        self._container = container.with_bind_ports(inside, ("127.0.0.1", self.port))
        self._inside: Any = None
        self._ready = ready

    def start(self) -> None:
        """Run it, on the data it had."""
        if self._inside is None:
            self._container.start()
            self._inside = self._container.get_wrapped_container()
        else:
            self._inside.start()
        deadline = time.monotonic() + _READY_SECONDS
        while not self._ready(self.port):
            if time.monotonic() > deadline:
                raise NotHere(f"the container did not answer within {_READY_SECONDS:.0f} seconds")
            time.sleep(_POLL_SECONDS)

    def kill(self) -> None:
        """Kill it; its data stay."""
        self._inside.kill()

    def stop(self) -> None:
        """End it, and remove it with its data."""
        self._container.stop()


def postgres_container(durable: bool) -> Server:
    """Postgres with pgvector, in a container."""
    _probe()
    module = import_module("testcontainers.community.postgres")
    words = " ".join(f"-c {setting}" for setting in (_DURABLE if durable else _QUICK))
    container = module.PostgresContainer(
        _POSTGRES_IMAGE, username="postgres", password="", dbname="postgres", driver=None
    )
    container.with_env("POSTGRES_HOST_AUTH_METHOD", "trust").with_command(f"postgres {words}")
    kept = _started(KeptContainer(container, 5432, _postgres_answers))
    return Server("postgres", f"postgresql://postgres@127.0.0.1:{kept.port}/postgres", "testcontainers", kept)


def redis_container(durable: bool) -> Server:
    """Valkey, in a container."""
    _probe()
    module = import_module("testcontainers.community.redis")
    settings = f"--appendonly yes --appendfsync {'always' if durable else 'no'}"
    container = module.RedisContainer(_REDIS_IMAGE)
    container.with_command(f"valkey-server --save '' --databases {DATABASES} {settings}")
    kept = _started(KeptContainer(container, 6379, _redis_answers))
    return Server("redis", f"redis://127.0.0.1:{kept.port}/0", "testcontainers", kept)


def _probe() -> None:
    """Whether a daemon answers; that its command is on PATH would say nothing."""
    if find_spec("testcontainers") is None or find_spec("docker") is None:
        raise NotHere("the package is not installed (pip install 'memtrace-otel[services]')")
    _probe_socket(os.environ.get("DOCKER_HOST", "") or _DOCKER_SOCKET)
    docker = import_module("docker")
    try:
        with closing(docker.from_env(timeout=_PING_SECONDS)) as client:
            client.ping()
    except (docker.errors.DockerException, OSError) as error:
        raise NotHere(f"no Docker daemon answers ({_short(error)})") from None


def _probe_socket(host: str) -> None:
    """Whether anybody listens at a Unix socket; Docker's own client leaks one where nobody does."""
    if not host.startswith("unix://"):
        return
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_PING_SECONDS)
        try:
            probe.connect(host.removeprefix("unix://"))
        except OSError as error:
            raise NotHere(f"no Docker daemon answers at {host} ({error.strerror or error})") from None


def _started(kept: KeptContainer) -> KeptContainer:
    try:
        kept.start()
    except Exception as error:  # an image that cannot be had, a port that is taken
        raise NotHere(f"the container did not start ({_short(error)})") from error
    return kept


def _short(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _redis_answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), _PING_SECONDS) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(64).startswith(b"+PONG")
    return False


def _postgres_answers(port: int) -> bool:
    """Whether it answers the question for TLS: the daemon's own proxy accepts connections before there is a server."""
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), _PING_SECONDS) as connection:
        connection.sendall(struct.pack("!ii", 8, 80877103))
        return connection.recv(1) in (b"N", b"S")
    return False
