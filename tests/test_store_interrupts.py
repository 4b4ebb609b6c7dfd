"""A call may be interrupted at any line: nobody then gets another's rows, and no connection is lost."""

import gc
from contextlib import closing

import pytest
from clusters import cluster_node
from interrupting import interrupted_at
from storing import ALICE, BOB

from memtrace.model import Level, Record, Scope
from memtrace.stores import redis_fast
from memtrace.stores.postgres import PostgresStore
from memtrace.stores.redis import RedisStore

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
