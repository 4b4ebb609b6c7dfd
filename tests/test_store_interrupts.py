"""A call may be interrupted at any line: nobody then gets another's rows, and no connection is lost."""

import gc
import threading
from contextlib import closing
from functools import partial

import pytest
from clusters import cluster_node
from interrupting import interrupted_at
from storing import ALICE, BOB, LONG

from memtrace.model import Level, Record, Scope
from memtrace.stores import redis_fast
from memtrace.stores.postgres import PostgresStore
from memtrace.stores.redis import RedisStore
from memtrace.stores.sqlite import SqliteStore

CAROL = Scope(Level.USER, "carol")
CALLS = {
    "newest": lambda store: store.newest(ALICE),
    "history": lambda store: store.history(ALICE),
    "everyone": lambda store: store.everyone(Level.USER),
    "add": lambda store: store.add(Record(ALICE, "alice's")),
}
CONNECTIONS = 3


@pytest.fixture
def late_answers(monkeypatch):
    """What is still to come has never come yet when the next one looks whether anything has."""
    monkeypatch.setattr(redis_fast, "_has_ended", lambda _: False)


def interrupt_everywhere(store, call, *, within, anew=False):
    """Interrupt a call at each of its lines, and see after each that two others get their own."""
    for scope in (ALICE, BOB, CAROL):
        store.add(Record(scope, f"{scope.id}'s"))
    lines = 1
    while _interrupted(store, call, lines, within=within, anew=anew):
        for scope in (BOB, CAROL, BOB, CAROL):
            assert [record.text for record in store.newest(scope)] == [f"{scope.id}'s"], f"after line {lines}"
        lines += 1
    assert lines > 20, "there was little to interrupt"


def _interrupted(store, call, number, *, within, anew):
    if anew:
        store.close()
    return interrupted_at(number, lambda: call(store), within=within)


@pytest.mark.usefixtures("late_answers")
@pytest.mark.filterwarnings("ignore:unclosed <socket")  # redis-py's, interrupted as it made it
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
class TestRedis:
    WITHIN = ("/redis/", "memtrace/stores")

    @pytest.fixture(autouse=True)
    def gone(self):
        """Its sockets are not left for another test to find."""
        yield
        gc.collect()

    @pytest.mark.parametrize("anew", [False, True], ids=["known connection", "new connection"])
    @pytest.mark.parametrize("call", CALLS)
    def test_the_next_ones_get_their_own(self, redis_url, call, anew):
        with closing(RedisStore(redis_url, connections=CONNECTIONS)) as store:
            interrupt_everywhere(store, CALLS[call], within=self.WITHIN, anew=anew)
            assert len(store._client.places) == CONNECTIONS

    @pytest.mark.parametrize("call", CALLS)
    def test_the_next_ones_get_their_own_of_a_cluster(self, redis_to_harm, call):
        with cluster_node() as node, closing(RedisStore(node, connections=CONNECTIONS)) as store:
            interrupt_everywhere(store, CALLS[call], within=self.WITHIN)
            assert len(store._client.places) == CONNECTIONS


class TestPostgres:
    WITHIN = ("/psycopg/", "memtrace/stores")

    @pytest.mark.parametrize("call", CALLS)
    def test_the_next_ones_get_their_own(self, postgres_url, call):
        with closing(PostgresStore(postgres_url, connections=CONNECTIONS)) as store:
            interrupt_everywhere(store, CALLS[call], within=self.WITHIN)
            assert len(store._connections.places) == CONNECTIONS


class TestSqlite:
    WITHIN = ("memtrace/stores", "/threading.py")

    @pytest.mark.parametrize("anew", [False, True], ids=["known connection", "new connection"])
    @pytest.mark.parametrize("call", [*CALLS, "get", "delete"])
    def test_no_fork_waits_for_what_was_interrupted_and_the_next_ones_get_their_own(self, tmp_path, call, anew):
        calls = CALLS | {"get": lambda store: store.get(ALICE, 1), "delete": lambda store: store.delete(BOB, 99)}
        with closing(SqliteStore(tmp_path / "memory.db")) as store:
            interrupt_everywhere(store, calls[call], within=self.WITHIN, anew=anew)
            assert in_another_thread(lambda: [each.text for each in store.newest(BOB)]) == ["bob's"]
            assert store._connections.lent() == 0

    @pytest.mark.parametrize("call", CALLS)
    def test_threads_that_wait_for_the_one_connection_of_a_memory_get_it(self, call):
        with closing(SqliteStore(":memory:")) as store:
            store.add(Record(BOB, "bob's"))
            lines = 1
            while interrupted_at(lines, lambda: CALLS[call](store), within=self.WITHIN):
                assert in_another_thread(lambda: [each.text for each in store.newest(BOB)]) == ["bob's"]
                lines += 1
            assert lines > 20, "there was little to interrupt"

    def test_an_interrupted_read_is_no_older_state_for_the_next(self, tmp_path):
        with (
            closing(SqliteStore(tmp_path / "memory.db")) as store,
            closing(SqliteStore(tmp_path / "memory.db")) as other,
        ):
            added = store.add(Record(ALICE, "likes tea"))
            kept, lines = [], 1  # an exception that somebody keeps keeps what its frames hold
            while _kept_interrupt(kept, lines, lambda: store.get(ALICE, added.id), within=self.WITHIN):
                newest = other.add(Record(ALICE, f"fact {lines}"))
                assert store.get(ALICE, newest.id) == newest, f"after line {lines}"
                lines += 1
            assert lines > 10, "there was little to interrupt"

    def test_who_was_interrupted_in_a_deletion_and_deletes_again_leaves_nothing(self, tmp_path):
        lines, interrupted = 1, True
        while interrupted:
            folder = tmp_path / str(lines)
            folder.mkdir()
            with closing(SqliteStore(folder / "memory.db")) as store:
                added = store.add(Record(ALICE, "likes tea"))
                delete = partial(store.delete, ALICE, added.id)
                interrupted = interrupted_at(lines, delete, within=("stores/sqlite.py",))
                delete()
                left = [file.name for file in folder.iterdir() if b"likes tea" in file.read_bytes()]
                assert not left, f"after line {lines}"
            lines += 1
        assert lines > 10, "there was little to interrupt"


def in_another_thread(call):
    """What a call returns to another thread, which may not wait long."""
    answers = []
    thread = threading.Thread(target=lambda: answers.append(call()), daemon=True)
    thread.start()
    thread.join(LONG)
    assert answers, "it waits"
    return answers[0]


def _kept_interrupt(kept, number, call, *, within):
    def keeping():
        try:
            call()
        except KeyboardInterrupt as interrupt:
            kept.append(interrupt)

    return interrupted_at(number, keeping, within=within)
