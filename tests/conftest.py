"""What the project's own tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from memtrace.harness.services import Server, Unavailable, discard, fresh, start

pytest_plugins = ["playing", "pytester"]


def _server(kind: str, **how: bool) -> Iterator[Server]:
    try:
        server = start(kind, **how)
    except Unavailable as missing:
        if os.environ.get("MEMTRACE_REQUIRE_SERVICES") == "1":
            raise
        pytest.skip(str(missing))
    with server:
        yield server


def _to_harm(kind: str) -> Iterator[Server]:
    for server in _server(kind, durable=True):
        if server.given:
            pytest.skip("the server is somebody else's, and is not to be harmed")
        yield server


def _place(server: Server) -> Iterator[str]:
    url = fresh(server)
    yield url
    discard(server, url)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    """A Postgres server of this session's."""
    yield from _server("postgres")


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Server]:
    """A Redis or Valkey server of this session's."""
    yield from _server("redis")


@pytest.fixture
def postgres_url(postgres_server: Server) -> Iterator[str]:
    """An empty place in a Postgres server."""
    yield from _place(postgres_server)


@pytest.fixture
def redis_url(redis_server: Server) -> Iterator[str]:
    """An empty place in a Redis or Valkey server."""
    yield from _place(redis_server)


@pytest.fixture(scope="module")
def postgres_to_harm() -> Iterator[Server]:
    """A Postgres server that waits for the disk, and may be killed and set up anew."""
    yield from _to_harm("postgres")


@pytest.fixture
def redis_to_harm() -> Iterator[Server]:
    """A Redis or Valkey server that waits for the disk, and may be killed and set up anew."""
    yield from _to_harm("redis")
