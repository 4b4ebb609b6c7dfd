"""What the project's own tests share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from storing import opening

from memtrace.harness.services import Server, Unavailable, discard, fresh, start
from memtrace.stores.contract import FactStore

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


@pytest.fixture
def bare(redis_url: str) -> Iterator[Any]:
    """The driver's own client of what is in that place."""
    import redis

    with closing(redis.Redis.from_url(redis_url)) as client:
        yield client


@pytest.fixture
def opened(postgres_url: str) -> Iterator[Callable[..., FactStore]]:
    """Opens stores at one empty place, in a Postgres server where the test file says no other, and closes them."""
    from memtrace.stores.postgres import PostgresStore

    with opening(PostgresStore, postgres_url) as opened:
        yield opened


@pytest.fixture
def store(opened: Callable[..., FactStore]) -> FactStore:
    """A store at that place."""
    return opened()


@pytest.fixture
def database(postgres_server: Server) -> Iterator[str]:
    """A database of its own that has not the extension ``vector``, on a server that could have it."""
    from searching import database_without_vectors

    with database_without_vectors(postgres_server) as url:
        yield url


@pytest.fixture(scope="module")
def postgres_to_harm() -> Iterator[Server]:
    """A Postgres server that waits for the disk, and may be killed and set up anew."""
    yield from _to_harm("postgres")


@pytest.fixture
def redis_to_harm() -> Iterator[Server]:
    """A Redis or Valkey server that waits for the disk, and may be killed and set up anew."""
    yield from _to_harm("redis")
