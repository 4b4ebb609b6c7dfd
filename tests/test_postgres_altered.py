"""A Postgres table that another changes while a store is open: one call tells it, and the next works."""

from __future__ import annotations

import time

import psycopg
import pytest
from storing import ALICE, LONG

from memtrace.errors import StoreError
from memtrace.model import Record

CALLS = {
    "newest": lambda store: store.newest(ALICE),
    "history": lambda store: store.history(ALICE),
    "get": lambda store: store.get(ALICE, 1),
    "add": lambda store: store.add(Record(ALICE, "likes tea")),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_type_that_was_changed_is_told_once(store, postgres_url, call):
    added = store.add(Record(ALICE, "likes tea"))
    for _ in range(2):
        CALLS[call](store)
    far = time.monotonic() + LONG
    with store._connections.lend(far), store._connections.lend(far):
        pass  # a second connection is idle, and the one that made those calls is lent next
    with psycopg.connect(postgres_url, autocommit=True) as other:
        other.execute("ALTER TABLE learned_memory ALTER source TYPE varchar(500)")
    with pytest.raises(StoreError, match="changed just now: try again"):
        CALLS[call](store)
    assert store._connections._idle == []
    CALLS[call](store)
    assert store.newest(ALICE) == [added]
