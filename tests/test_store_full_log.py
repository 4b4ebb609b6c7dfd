"""A server whose log finds no room on its disk, so that it ends itself in the middle of a write.

Valkey ends with ``appendfsync always``; Postgres panics, and ends when it finds no room to recover in either. What a
store had acknowledged is there when there is room again, and nothing of which only a half was in the log.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import closing, contextmanager

import pytest
from disks import fact, fill, make_room, small_disk, writes
from storing import ALICE, until

from memtrace.errors import StoreError
from memtrace.harness.services import start
from memtrace.stores import open_store

MEGABYTES = {"redis": 4, "postgres": 48}
MOST = 500
USERS = {"redis": "default", "postgres": "postgres"}
MAYBE = "; a write that was under way may be done or not, and adding the same fact again is safe"
SAYS = {
    "redis": rf"^redis://\S+ cannot be reached: check the host, the port and the network \(.+\){MAYBE}$",
    "postgres": rf"^postgresql://\S+ has no room left: free some space on its disk and try again{MAYBE}$",
}
NOBODY_ELSE_WRITES = "wal_writer_delay = 10s\nbgwriter_lru_maxpages = 0\nautovacuum = off\n"
"""So that it is the store's own session that finds no room, and tells it."""


@pytest.fixture
def disk(kind, request, tmp_path):
    request.getfixturevalue(f"{kind}_server")  # what servers of a session share is not on it
    with small_disk(tmp_path, MEGABYTES[kind]) as disk:
        yield disk


@pytest.fixture
def server(kind, disk):
    """One that waits for the disk, and has its log on a small one."""
    with {"redis": all_on, "postgres": log_on}[kind](disk) as server:
        yield server


@pytest.fixture
def store(server):
    """A store that is given a password, which the server does not ask for."""
    bare = server.url.replace("://postgres@", "://")
    with closing(open_store(bare.replace("://", f"://{USERS[server.kind]}:secret@"))) as store:
        yield store


@contextmanager
def all_on(disk):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(disk))
        server = to_harm("redis")
    with server:
        yield server


@contextmanager
def log_on(disk):
    with to_harm("postgres") as server:
        server.kill()
        data = server.running._directory.path / "data"
        with (data / "postgresql.conf").open("a") as settings:
            settings.write(NOBODY_ELSE_WRITES)
        log, owner = data / "pg_wal", data.stat()
        shutil.copytree(log, disk / "log")
        shutil.rmtree(log)
        log.symlink_to(disk / "log")
        for path in (disk / "log", *(disk / "log").rglob("*")):
            os.chown(path, owner.st_uid, owner.st_gid)
        server.start()
        yield server


def to_harm(kind):
    server = start(kind, durable=True)
    if server.given:
        pytest.skip("the server is somebody else's, and has its own disk")
    return server


@pytest.mark.parametrize("kind", MEGABYTES)
def test_what_is_added_is_there_or_is_not(kind, store, server, disk):
    kept = [store.add(fact(0))]
    fill(disk)
    with pytest.raises(StoreError) as refused:
        kept.extend(store.add(fact(number)) for number in range(1, MOST))
    lost = fact(len(kept))
    assert_told(refused, SAYS[kind])
    assert_out_of_reach(store, lost)
    make_room(disk)
    until(lambda: is_up(server) and writes(store, lost))
    *others, last = store.history(ALICE)[::-1]
    assert others == kept
    assert last.text == lost.text


@pytest.mark.parametrize("kind", MEGABYTES)
def test_what_is_superseded_is_so_or_is_not(kind, store, server, disk):
    chain = [store.add(fact(0))]
    fill(disk)
    with pytest.raises(StoreError) as refused:
        supersede_on(store, chain)
    assert_told(refused, SAYS[kind])
    assert_out_of_reach(store, fact(MOST))
    make_room(disk)
    until(lambda: is_up(server) and reads(store))
    found = store.history(ALICE)[::-1]
    assert [record.text for record in found] == [fact(number).text for number in range(len(found))]
    assert len(found) in (len(chain), len(chain) + 1)
    assert [record.superseded_by for record in found] == [*(record.id for record in found[1:]), None]
    new = store.supersede(ALICE, found[-1].id, fact(MOST))
    assert store.newest(ALICE) == [new]


def supersede_on(store, chain):
    for number in range(1, MOST):
        chain.append(store.supersede(ALICE, chain[-1].id, fact(number)))


def assert_told(refused, says):
    """One line, which shows no password."""
    assert refused.match(says)
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value)


def assert_out_of_reach(store, record):
    """It has no room for a write, whether or not it has ended yet."""
    ends = r"^\S+ (cannot be reached: check the host|is not ready yet: try|has crashed: try|has no room left: free)"
    with pytest.raises(StoreError) as refused:
        store.add(record)
    assert_told(refused, ends)


def is_up(server):
    """It is started where it has ended, as whoever looks after it does."""
    server.start()
    return True


def reads(store):
    try:
        store.newest(ALICE)
    except StoreError:
        return False
    return True
