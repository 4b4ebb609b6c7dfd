"""Writers and servers that are killed at work: what was acknowledged is there, and no half of anything.

``MEMTRACE_SLOW=1`` kills each 200 times.
"""

from __future__ import annotations

import os
import queue
import threading
from contextlib import closing, suppress
from functools import partial
from itertools import islice
from random import Random

import pytest

pytest.register_assert_rewrite("memtrace.stores.conformance")

from memtrace.errors import StoreError  # noqa: E402
from memtrace.model import Level, Record, Scope  # noqa: E402
from memtrace.stores import SqliteStore, open_store  # noqa: E402
from memtrace.stores.conformance import sharing  # noqa: E402
from memtrace.stores.conformance.crowd import killed_at_work  # noqa: E402

ROUNDS = 200 if os.environ.get("MEMTRACE_SLOW") == "1" else 4
LONGEST = 60
"""What a writer tells before its kill at most: three numbers are two writes."""
SERVERS = ["postgres", "redis"]


@pytest.fixture
def server(request):
    return request.getfixturevalue(f"{request.param}_to_harm")


@pytest.mark.parametrize("kind", ["sqlite", *SERVERS])
def test_a_killed_writer_loses_nothing_it_acknowledged(kind, request, tmp_path):
    if kind == "sqlite":
        reopen = partial(SqliteStore, tmp_path / "memory.db", durable=True)
    else:
        reopen = partial(open_store, request.getfixturevalue(f"{kind}_to_harm").url)
    for place, after in rounds("writer"):
        told = killed_at_work(partial(sharing._write_for_ever, reopen, place), after=after)
        assert_whole(reopen, place, told)


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_a_killed_server_loses_nothing_it_acknowledged(server):
    for place, after in rounds("server"):
        told = killed_below_its_writer(server, place, after)
        server.start()
        assert_whole(partial(open_store, server.url), place, told)


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_a_server_killed_with_its_writer_loses_nothing_it_acknowledged(server):
    reopen = partial(open_store, server.url)
    for place, after in rounds("both"):
        told = killed_at_work(partial(sharing._write_for_ever, reopen, place), after=after, also=server.kill)
        server.start()
        assert_whole(reopen, place, told)


@pytest.mark.parametrize("server", SERVERS, indirect=True)
def test_a_store_outlives_its_server(server):
    scope = Scope(Level.USER, "outlives")
    with closing(open_store(server.url)) as store:
        kept = store.add(Record(scope, "likes tea"))
        server.kill()
        with pytest.raises(StoreError, match=r"cannot be reached|is shutting down"):
            read_for_ever(store, scope)
        server.start()
        assert store.newest(scope) == [kept]


def read_for_ever(store, scope):
    """For Postgres's sessions outlive it for a moment."""
    while True:
        store.newest(scope)


def rounds(name):
    """A place for each round, and how much its writer tells before the kill."""
    for number in range(ROUNDS):
        yield Scope(Level.USER, f"{name}, round {number}"), Random(f"{name} {number}").randrange(LONGEST)


def killed_below_its_writer(server, place, after):
    """What a writer, which goes on until it is refused, told of its writes; the server was killed meanwhile."""
    told = queue.SimpleQueue()

    def write():
        try:
            with suppress(StoreError), closing(open_store(server.url)) as store:
                sharing._write_for_ever(lambda: store, place, told.put)
        finally:
            told.put(None)

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    numbers = iter(told.get, None)
    done = list(islice(numbers, after))
    server.kill()
    done += numbers
    writer.join()
    return done


def assert_whole(reopen, place, told):
    with closing(reopen()) as store:
        sharing._assert_whole(store, place, done=max(told, default=0))
