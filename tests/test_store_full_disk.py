"""A disk that is full: what a store says, that nothing is half written, and that it works again with some room.

The disk is a small one in memory, which only root may mount; servers put their data there.
"""

from __future__ import annotations

import tempfile
from contextlib import closing

import pytest
from disks import fact, fill, make_room, small_disk, writes
from storing import ALICE, until

from memtrace.errors import StoreError
from memtrace.harness.services import start
from memtrace.stores import open_store

SIZES = {"sqlite": 4, "redis": 4, "postgres": 96}
"""Megabytes of the disk; a new Postgres has 40 and keeps a log of 16 and more."""
MOST = 500
SAYS = {
    "sqlite": r"memory\.db has no room left: free some space on its disk and try again",
    "redis": r"^redis://\S+ cannot save to its disk and so takes no writes: free some space on it and try again",
    "postgres": r"^postgresql://\S+ has no room left: free some space on its disk and try again",
}


@pytest.fixture
def disk(request, kind, tmp_path):
    """A small disk, on which temporary directories are made."""
    if kind != "sqlite":
        request.getfixturevalue(f"{kind}_server")  # what servers of a session share is not on it
    with small_disk(tmp_path, SIZES[kind]) as disk, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(disk))
        yield disk


@pytest.fixture
def location(kind, disk):
    """A place on the disk."""
    if kind == "sqlite":
        yield disk / "memory.db"
        return
    with start(kind) as server:
        if server.given:
            pytest.skip("the server is somebody else's, and has its own disk")
        yield server.url


@pytest.fixture
def store(location):
    with closing(open_store(location)) as store:
        yield store


@pytest.mark.parametrize("kind", SIZES)
def test_a_write_without_room_says_so_and_leaves_nothing(store, disk, kind):
    kept = [store.add(fact(number)) for number in range(3)]
    fill(disk)
    kept += written_until_refused(store, SAYS[kind])
    for write in (
        lambda: store.add(fact(MOST)),
        lambda: store.supersede(ALICE, kept[0].id, fact(MOST + 1)),
    ):
        with pytest.raises(StoreError, match=SAYS[kind]) as refusal:
            write()
        assert "\n" not in str(refusal.value)
    assert store.history(ALICE)[::-1] == kept
    make_room(disk)
    until(lambda: writes(store, fact(MOST)))
    new = store.supersede(ALICE, kept[0].id, fact(MOST + 1))
    assert store.newest(ALICE, 1) == [new]
    assert [record.text for record in store.history(ALICE)] == [
        *(fact(number).text for number in (MOST + 1, MOST)), *(record.text for record in kept[::-1])
    ]  # fmt: skip


def written_until_refused(store, says):
    """The records that still found room, in what a server had set aside."""
    kept = []
    with pytest.raises(StoreError, match=says):
        kept.extend(store.add(fact(number)) for number in range(3, MOST))
    return kept
