"""The Redis store on a real server: the contract, what it refuses, and what it says when the server fails."""

import sys
import time
from contextlib import closing

import pytest
from clusters import cluster_node
from storing import ALICE, BOB, PATIENCE, opening

pytest.register_assert_rewrite("memtrace.stores.conformance")

import redis  # noqa: E402

from memtrace.errors import StoreError, UsageError  # noqa: E402
from memtrace.harness.faults.proxy import FaultProxy  # noqa: E402
from memtrace.model import Level, Record, Scope  # noqa: E402
from memtrace.stores import open_store, redis_fast, redis_rows, redis_server  # noqa: E402
from memtrace.stores.conformance import FactStoreContract  # noqa: E402
from memtrace.stores.conformance.crowd import in_children, in_threads  # noqa: E402
from memtrace.stores.redis import RedisStore  # noqa: E402


@pytest.fixture
def opened(redis_url):
    with opening(RedisStore, redis_url) as opened:
        yield opened


@pytest.fixture
def proxy(redis_url):
    with FaultProxy(redis_url) as proxy:
        yield proxy


@pytest.fixture
def master(redis_to_harm):
    with closing(redis.Redis.from_url(redis_to_harm.url)) as client:
        yield client


def everything(client):
    """All that a database holds, but for the counter of ids, of which some may be lost."""
    return {key: client.dump(key) for key in client.scan_iter() if key != b"memtrace:ids"}


class TestRedis(FactStoreContract):
    @pytest.fixture
    def reopen(self, opened):
        return opened


class TestOpening:
    """A store opens, or says in one line what is wrong and leaves everything as it was."""

    def test_a_url_opens_it(self, redis_url):
        with closing(open_store(redis_url)) as store:
            assert isinstance(store, RedisStore)
            added = store.add(Record(ALICE, "likes tea"))
            assert store.newest(ALICE) == [added]

    def test_processes_that_open_a_new_place_at_once_all_can(self, opened):
        assert in_children(6, lambda writer: opened().add(Record(ALICE, f"fact {writer}"))) == [0] * 6
        assert len(opened().newest(ALICE)) == 6

    @pytest.mark.parametrize(
        "url",
        [
            "redis://",
            "redis://host:none/0",
            "redis://host:99999/0",
            "redis://host/first",
            "redis://host/0?db=x",
            "redis://host/0?database",
            "redis://host/0#1",
            "unix://",
        ],
    )
    def test_what_is_no_url_is_refused(self, url):
        with pytest.raises(UsageError, match="is no Redis URL: give redis://"):
            RedisStore(url)

    def test_an_option_that_there_is_not_is_refused(self):
        with pytest.raises(UsageError, match="has an option 'max_connections': there are db, password"):
            RedisStore("redis://host/0?max_connections=3")

    @pytest.mark.parametrize("timeout", [0, -1, float("nan"), 1e9])
    def test_a_timeout_is_some_time(self, redis_url, timeout):
        with pytest.raises(UsageError, match="timeout must be above 0 and at most 86,400 seconds"):
            RedisStore(redis_url, timeout=timeout)

    def test_a_wrong_password_is_told_and_not_shown(self, redis_to_harm, master):
        master.config_set("requirepass", "secret-one")
        url = redis_to_harm.url.replace("://", "://:secret-two@")
        with pytest.raises(StoreError, match="refused the password") as refused:
            RedisStore(url)
        assert "secret" not in str(refused.value)
        assert "secret" not in repr(RedisStore(url.replace("two", "one")))

    def test_no_password_is_told(self, redis_to_harm, master):
        master.config_set("requirepass", "secret-one")
        with pytest.raises(StoreError, match="refused the password"):
            RedisStore(redis_to_harm.url)

    def test_a_server_that_is_not_there_is_told(self, redis_to_harm):
        redis_to_harm.kill()
        with pytest.raises(StoreError, match=r"^redis://\S+ cannot be reached: check the host"):
            RedisStore(redis_to_harm.url)

    def test_a_database_that_there_is_not_is_told(self, redis_to_harm):
        with pytest.raises(StoreError, match="has no such database"):
            RedisStore(f"{redis_to_harm.url.rpartition('/')[0]}/99999")

    def test_a_newer_versions_facts_are_left_alone(self, redis_url, bare):
        bare.set("memtrace:schema", 99)
        with pytest.raises(StoreError, match=r"by a newer memtrace .schema 99, this one knows 1.: upgrade"):
            RedisStore(redis_url)
        assert bare.keys() == [b"memtrace:schema"]

    def test_other_data_under_its_keys_are_left_alone(self, redis_url, bare):
        bare.set("memtrace:schema", "theirs")
        with pytest.raises(StoreError, match="holds other data"):
            RedisStore(redis_url)

    @pytest.mark.parametrize("ids", ["theirs", "1.5", "-2", "-1", 2**63 - 1])
    def test_others_count_of_ids_is_told_and_nothing_stored(self, store, bare, ids):
        bare.set("memtrace:ids", ids)
        with pytest.raises(StoreError, match=r"holds other data|something else writes"):
            store.add(Record(ALICE, "likes tea"))
        assert store.newest(ALICE) == []

    def test_the_last_id_that_there_is_is_a_records(self, store, bare):
        bare.set("memtrace:ids", 2**63 - 2)
        added = store.add(Record(ALICE, "likes tea"))
        assert store.get(ALICE, 2**63 - 1) == added

    def test_a_server_that_evicts_facts_is_warned_of(self, redis_to_harm, master):
        master.config_set("maxmemory", "100mb")
        master.config_set("maxmemory-policy", "allkeys-lru")
        with pytest.warns(UserWarning, match="evicts keys when its memory is full .allkeys-lru."):
            RedisStore(redis_to_harm.url).close()

    def test_a_missing_driver_is_told(self):
        said = in_children(1, _without_the_driver)
        assert said == [0]


def _without_the_driver(_):
    for name in [name for name in sys.modules if name.startswith("memtrace.stores.redis")]:
        del sys.modules[name]
    sys.modules["redis"] = None
    with pytest.raises(UsageError, match=r"needs redis-py with hiredis: pip install 'memtrace-otel\[redis\]'"):
        open_store("redis://127.0.0.1/0")


class TestKeys:
    def test_keys_of_a_scope_are_in_one_slot_and_no_two_scopes_share_one(self):
        scopes = [
            Scope(level, scope_id, project)
            for level in Level
            for scope_id in ("a", "a:b", "b", "a}", "{a}")
            for project in ("", "a", "b:a", "a:b")
        ]
        tags = {key.partition("{")[2].partition("}")[0] for scope in scopes for key in redis_rows.keys_of(scope)}
        assert len(tags) == len(scopes)
        assert all(
            len({redis.crc.key_slot(key.encode()) for key in redis_rows.keys_of(scope)}) == 1 for scope in scopes
        )

    def test_others_keys_are_left_alone(self, store, bare):
        bare.set("theirs", 1)
        store.add(Record(ALICE, "likes tea"))
        store.delete(ALICE)
        assert {key for key in bare.scan_iter() if not key.startswith(b"memtrace:")} == {b"theirs"}

    def test_nothing_is_left_of_a_user_whose_facts_are_all_deleted(self, store, bare):
        before = set(bare.keys())
        old = store.add(Record(ALICE, "is on Free", source="learned"))
        new = store.supersede(ALICE, old.id, Record(ALICE, "is on Pro"))
        assert store.delete(ALICE, new.id) == 2
        assert set(bare.keys()) - before == {b"memtrace:ids"}
        store.add(Record(ALICE, "is on Pro"))
        assert store.delete(ALICE) == 1
        assert set(bare.keys()) - before == {b"memtrace:ids"}

    def test_nothing_is_left_where_a_replaced_fact_is_deleted_before_what_replaced_it(self, store, bare):
        before = set(bare.keys())
        olds = [store.add(Record(ALICE, f"is on plan {number}")) for number in range(3)]
        for old in olds:
            new = store.supersede(ALICE, old.id, Record(ALICE, "is on Pro"))
        assert store.delete(ALICE, olds[1].id) == 1
        assert [record.id for record in store.history(ALICE)] == [new.id, olds[2].id, olds[0].id]
        assert store.delete(ALICE, new.id) == 3
        assert set(bare.keys()) - before == {b"memtrace:ids"}

    def test_scripts_that_the_server_forgot_are_sent_again(self, store, bare):
        store.add(Record(ALICE, "likes tea"))
        bare.script_flush()
        assert [record.text for record in store.newest(ALICE)] == ["likes tea"]

    def test_a_cluster_takes_it(self, redis_to_harm):
        # One node with all slots refuses, as any cluster does, a script whose keys are in two.
        with cluster_node() as node, closing(RedisStore(node)) as store:
            old = store.add(Record(ALICE, "is on Free", source="learned"))
            new = store.supersede(ALICE, old.id, Record(ALICE, "is on Pro"))
            store.add(Record(BOB, "likes tea", source="learned"))
            assert store.newest(ALICE) == [new]
            assert [record.id for record in store.history(ALICE)] == [new.id, old.id]
            assert {record.scope for record in store.everyone(Level.USER)} == {ALICE, BOB}
            assert [record.text for record in store.prune(BOB, "learned", 0)] == ["likes tea"]
            assert store.delete(ALICE) == 2


class TestWriting:
    def test_eight_processes_that_write_500_each_lose_nothing(self, opened):
        def write(process):
            store = opened()
            for number in range(500):
                store.add(Record(ALICE, f"{process}.{number}"))

        assert in_children(8, write) == [0] * 8
        assert len({record.text for record in opened().newest(ALICE, None)}) == 4000

    @pytest.mark.parametrize("refusal", ["OOM", "READONLY"])
    def test_a_write_that_is_refused_leaves_nothing(self, redis_to_harm, master, refusal):
        with closing(RedisStore(redis_to_harm.url)) as store:
            old = store.add(Record(ALICE, "is on Free", source="learned"))
            before = everything(master)
            remedy = _refuse(master, refusal)
            for write in (
                lambda: store.add(Record(ALICE, "is on Pro")),
                lambda: store.supersede(ALICE, old.id, Record(ALICE, "is on Pro")),
            ):
                with pytest.raises(StoreError, match=remedy):
                    write()
            assert everything(master) == before
            assert store.newest(ALICE) == [old]

    def test_threads_beyond_the_connections_wait_for_one(self, opened):
        store = opened(connections=2)
        in_threads(40, lambda thread: store.add(Record(ALICE, f"fact {thread}")))
        assert len(store.newest(ALICE, None)) == 40

    def test_a_thread_that_gets_no_connection_is_told(self, opened):
        store = opened(connections=1, timeout=PATIENCE)
        with store._client.lease(PATIENCE), pytest.raises(StoreError, match="is busy with all connections"):
            store.newest(ALICE)
        assert store.newest(ALICE) == []

    def test_a_closed_store_has_no_connection(self, store):
        store.add(Record(ALICE, "likes tea"))
        [connection] = store._client.server.connection_pool._idle
        assert connection.is_connected
        store.close()
        assert not connection.is_connected
        assert len(store.newest(ALICE)) == 1

    def test_an_answer_that_was_not_awaited_is_no_answer_to_the_next(self, store, monkeypatch):
        added = store.add(Record(ALICE, "likes tea"))
        with monkeypatch.context() as patch:
            patch.setattr(store._client.server, "parse_response", _interrupt)
            with pytest.raises(KeyboardInterrupt):
                store.newest(BOB)
        monkeypatch.setattr(redis_fast, "_has_ended", lambda _: False)  # it may come later than the next is asked
        assert store.newest(ALICE) == [added]

    def test_a_fork_while_other_threads_connect_and_read_works(self, opened):
        store = opened(connections=1)
        store.add(Record(ALICE, "likes tea"))
        with store._client._making, store._client.lease(PATIENCE):
            assert in_children(1, lambda _: store.newest(ALICE)) == [0]


class TestOutages:
    """A call ends in time, says what is wrong, and the next one works when the server does."""

    @pytest.mark.parametrize("fault", ["black_hole", "half_open", "refuse", "reset", "drip", "slow"])
    def test_a_call_ends_in_time_and_the_next_works(self, opened, proxy, redis_url, fault):
        store = opened(proxy.url(redis_url), timeout=PATIENCE)
        store.add(Record(ALICE, "likes tea " * 1000))
        arguments = {"drip": (200,), "slow": (10 * PATIENCE,)}.get(fault, ())
        getattr(proxy, fault)(*arguments)
        started = time.monotonic()
        if fault == "reset":
            store.newest(ALICE)  # what died while it was idle is seen before it is used
        else:
            with pytest.raises(StoreError, match=r"did not answer in time|cannot be reached"):
                store.newest(ALICE)
        assert time.monotonic() - started < 20 * PATIENCE, "it waited for what will never come"
        proxy.pass_through()
        assert len(store.newest(ALICE)) == 1

    def test_a_reply_that_drips_in_does_not_prolong_a_call(self, monkeypatch):
        waited = []
        monkeypatch.setattr(redis_server.socket.socket, "settimeout", lambda _self, timeout: waited.append(timeout))
        monkeypatch.setattr(redis_server.socket.socket, "gettimeout", lambda _self: 5.0)
        monkeypatch.setattr(redis_server.socket.socket, "recv_into", lambda *_: 1)
        clock = iter([0.0, 1.0, 4.0])
        monkeypatch.setattr(redis_server.time, "monotonic", lambda: next(clock))
        with closing(redis_server._Socket()) as tested, redis_server.Attempt("redis://host", seconds=5.0):
            tested.recv_into(bytearray(1))
            tested.recv_into(bytearray(1))
        assert waited == [4.0, 5.0, 1.0, 5.0]

    def test_what_comes_when_the_time_is_over_is_not_taken(self, monkeypatch):
        monkeypatch.setattr(redis_server.socket.socket, "gettimeout", lambda _self: 5.0)
        monkeypatch.setattr(redis_server.socket.socket, "recv_into", lambda *_: 1)
        monkeypatch.setattr(redis_server.socket.socket, "sendall", lambda *_: None)
        clock = iter([0.0, 5.0, 6.0])
        monkeypatch.setattr(redis_server.time, "monotonic", lambda: next(clock))
        with closing(redis_server._Socket()) as tested, redis_server.Attempt("redis://host", seconds=5.0):
            with pytest.raises(TimeoutError):
                tested.recv_into(bytearray(1))
            with pytest.raises(TimeoutError):
                tested.sendall(b"more")

    def test_an_answer_that_would_drip_in_for_minutes_is_not_waited_for(self, opened, proxy, redis_url):
        opened().add(Record(ALICE, "x" * 1_000_000))
        store = opened(proxy.url(redis_url), timeout=PATIENCE)
        proxy.drip(100_000)
        with pytest.raises(StoreError, match="did not answer in time"):
            store.newest(ALICE)

    def test_an_answer_that_is_none_is_told_and_not_kept(self, store, monkeypatch):
        store.add(Record(ALICE, "likes tea"))
        [connection] = store._client.server.connection_pool._idle
        with monkeypatch.context() as patch:
            patch.setattr(store._client.server, "parse_response", lambda *_, **__: [[b"another's"]])
            with pytest.raises(StoreError, match="gave an answer that is none of memtrace's"):
                store.newest(ALICE)
        assert not connection.is_connected
        assert len(store.newest(ALICE)) == 1

    def test_a_server_that_was_restarted_is_used_again(self, redis_to_harm):
        with closing(RedisStore(redis_to_harm.url)) as store:
            in_threads(4, lambda thread: store.add(Record(ALICE, f"fact {thread}")))
            redis_to_harm.kill()
            with pytest.raises(StoreError, match="cannot be reached"):
                store.newest(ALICE)
            redis_to_harm.start()
            assert len(store.newest(ALICE)) == 4


class TestRows:
    @pytest.mark.parametrize("seconds", [-1e300, -2.5, -0.0, 0.1, 1.7e9 + 1e-6, 1e300])
    def test_a_time_comes_back_as_it_was(self, seconds):
        row = redis_rows.new_row(Record(ALICE, "likes tea"), 1, seconds)
        [record] = redis_rows.records_of(ALICE, [row.data])
        assert record.created_at == seconds

    def test_the_last_time_that_there_is_is_found_by_source(self, store):
        added = store.add(Record(ALICE, "likes tea", source="learned", created_at=sys.float_info.max))
        assert store.newest(ALICE, source="learned") == [added]

    def test_the_order_of_rows_is_that_of_times(self):
        times = [-1e300, -2.5, -1e-300, 0.0, 1e-300, 0.1, 1.7e9, 1e300]
        assert sorted(times, key=redis_rows.time_bytes) == times


def _interrupt(*_):
    raise KeyboardInterrupt


def _refuse(master, refusal):
    """Make a server refuse writes; what a store must say."""
    if refusal == "OOM":
        master.config_set("maxmemory-policy", "noeviction")
        master.config_set("maxmemory", 1)
        return "has no memory left: raise maxmemory"
    master.config_set("replica-serve-stale-data", "yes")
    master.replicaof("127.0.0.1", 1)
    return "is a read-only replica: name the primary"
