"""A Redis that is emptied, loses keys or takes no writes while a store is open, which goes on and says what is true."""

from contextlib import closing

import pytest
import redis
from storing import ALICE, BOB, opening, until

from memtrace.errors import StoreError
from memtrace.model import Record
from memtrace.stores.redis import RedisStore
from memtrace.stores.redis_rows import keys_of


@pytest.fixture
def opened(redis_url):
    with opening(RedisStore, redis_url) as opened:
        yield opened


@pytest.fixture
def filled(store):
    """What superseded a record, and another."""
    old = store.add(Record(ALICE, "is on Free", source="learned"))
    new = store.supersede(ALICE, old.id, Record(ALICE, "is on Pro", source="learned"))
    return new, store.add(Record(ALICE, "likes tea", source="learned"))


def everything(client):
    """All that a database holds, but for the counter of ids, of which some may be lost."""
    return {key: client.dump(key) for key in client.scan_iter() if key != b"memtrace:ids"}


class TestEmptied:
    def test_a_store_knows_nothing_and_goes_on(self, store, bare, filled):
        new, _ = filled
        bare.delete(*bare.keys("memtrace:{*"), "memtrace:ids", "memtrace:schema")
        assert store.newest(ALICE) == store.history(ALICE) == store.everyone("user") == []
        assert store.get(ALICE, new.id) is None
        assert store.delete(ALICE, new.id) == store.delete(ALICE) == 0
        assert store.prune(ALICE, "learned", 0) == []
        added = store.add(Record(ALICE, "likes tea"))
        assert store.newest(ALICE) == [added]

    @pytest.mark.parametrize("command", ["FLUSHDB", "FLUSHALL", "SCRIPT FLUSH"])
    def test_a_write_that_is_under_way_is_done(self, redis_to_harm, command):
        with closing(RedisStore(redis_to_harm.url)) as store, closing(redis.Redis.from_url(redis_to_harm.url)) as bare:
            store.add(Record(ALICE, "likes tea"))
            give_an_id = store._next_id

            def give_and_empty():
                given = give_an_id()
                bare.execute_command(*command.split())
                return given

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(store, "_next_id", give_and_empty)
                added = store.add(Record(ALICE, "likes jazz"))
            assert added in store.newest(ALICE)
            added_later = [store.add(Record(ALICE, f"fact {number}")) for number in range(5)]
            assert {*added_later, added} <= set(store.newest(ALICE))
            assert len({record.id for record in store.history(ALICE)}) == len(store.history(ALICE))

    def test_no_id_is_given_twice_where_their_count_is_lost(self, store, bare, filled):
        new, other = filled
        bare.delete("memtrace:ids")
        added = store.add(Record(ALICE, "likes jazz"))
        bare.delete("memtrace:ids")
        newer = store.supersede(ALICE, new.id, Record(ALICE, "is on Max"))
        assert store.newest(ALICE, None) == [newer, added, other]
        found = store.history(ALICE)
        assert [record.text for record in found] == ["is on Max", "likes jazz", "likes tea", "is on Pro", "is on Free"]
        assert len({record.id for record in found}) == len(found)
        assert store.add(Record(BOB, "likes tea")).id > max(record.id for record in found)

    def test_ids_that_others_were_given_meanwhile_are_not_given_again(self, store, bare):
        store.add(Record(ALICE, "likes tea"))
        bare.set("memtrace:ids", 0)
        give_an_id = store._next_id

        def give_late():
            given = give_an_id()
            bare.set("memtrace:ids", 100)
            return given

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(store, "_next_id", give_late)
            assert store.add(Record(ALICE, "likes jazz")).id == 101


class TestEvicted:
    """One of a scope's keys is gone, and the others are not."""

    @pytest.mark.parametrize("key", ["active", "sources", "texts", "marks", "replaced"])
    def test_what_needs_it_is_refused_and_changes_nothing(self, store, bare, filled, key):
        new, other = filled
        assert bare.delete(getattr(keys_of(ALICE), key)) == 1
        before = everything(bare)
        for ask in (
            lambda: store.add(Record(ALICE, "likes jazz")),
            lambda: store.add(Record(ALICE, "likes tea")),
            lambda: store.supersede(ALICE, new.id, Record(ALICE, "is on Max")),
            lambda: store.delete(ALICE, new.id),
            lambda: store.delete(ALICE, other.id),
            lambda: store.prune(ALICE, "learned", 0),
            lambda: store.get(ALICE, new.id),
            lambda: store.newest(ALICE, source="learned"),
        ):
            with pytest.raises(StoreError, match=r"^redis://\S+ has lost some of a scope's keys: stop what") as told:
                ask()
            assert "\n" not in str(told.value)
        assert everything(bare) == before

    @pytest.mark.parametrize("key", keys_of(ALICE)._fields)
    def test_the_scope_can_be_deleted_and_others_go_on(self, store, bare, filled, key):
        bare.delete(getattr(keys_of(ALICE), key))
        assert store.add(Record(BOB, "likes tea")) in store.newest(BOB)
        store.delete(ALICE)
        assert not [name for name in bare.scan_iter() if name.startswith(keys_of(ALICE).active.encode()[:-6])]
        assert store.add(Record(ALICE, "likes tea")) in store.newest(ALICE)

    def test_what_was_superseded_may_be_gone_without_harm(self, store, bare, filled):
        new, other = filled
        bare.delete(keys_of(ALICE).superseded)
        assert store.history(ALICE) == [other, new]
        assert store.delete(ALICE, new.id) == 1
        assert store.newest(ALICE) == [other]

    def test_a_scope_is_found_again_by_its_next_fact(self, store, bare, filled):
        bare.delete(keys_of(ALICE).about)
        added = store.add(Record(ALICE, "likes jazz"))
        assert store.everyone("user") == [added, *reversed(filled)]


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        (("maxmemory", 1), "has no memory left: raise maxmemory, or delete something"),
        (("min-replicas-to-write", 1), "has too few replicas to take writes: bring one up, or lower min-replicas"),
    ],
)
def test_a_server_that_takes_no_writes_says_why(redis_to_harm, setting, says):
    with closing(RedisStore(redis_to_harm.url)) as store, closing(redis.Redis.from_url(redis_to_harm.url)) as bare:
        kept = store.add(Record(ALICE, "likes tea"))
        bare.config_set(*setting)
        for write in (
            lambda: store.add(Record(ALICE, "likes jazz")),
            lambda: store.supersede(ALICE, kept.id, Record(ALICE, "likes coffee")),
        ):
            with pytest.raises(StoreError, match=rf"^redis://\S+ {says}") as told:
                write()
            assert "\n" not in str(told.value)
        assert store.history(ALICE) == [kept]
        bare.config_set(setting[0], 0)
        assert store.add(Record(ALICE, "likes jazz")) in store.newest(ALICE)


def test_facts_can_be_deleted_where_there_is_no_memory_left(redis_to_harm):
    with closing(RedisStore(redis_to_harm.url)) as store, closing(redis.Redis.from_url(redis_to_harm.url)) as bare:
        olds = [store.add(Record(scope, "is on Free", source="learned")) for scope in (ALICE, ALICE, BOB)]
        twice = [store.add(Record(ALICE, f"likes {number} teas")) for number in range(2)]
        for each in twice:
            new = store.supersede(ALICE, each.id, Record(ALICE, "likes tea"))
        bare.config_set("maxmemory", 1)
        assert store.delete(ALICE, twice[0].id) == 1
        assert store.delete(ALICE, new.id) == 2
        assert store.prune(ALICE, "learned", 0) == olds[:1]
        assert store.delete(BOB) == 1
        assert store.everyone("user") == []


def test_a_server_that_runs_anothers_long_script_is_told(redis_to_harm):
    with (
        closing(RedisStore(redis_to_harm.url)) as store,
        closing(redis.Redis.from_url(redis_to_harm.url)) as bare,
        closing(redis.Redis.from_url(redis_to_harm.url)) as busy,
    ):
        kept = store.add(Record(ALICE, "likes tea"))
        bare.config_set("lua-time-limit", 1)
        connection = busy.connection_pool.get_connection()
        connection.send_command("EVAL", "while true do end", 0)
        try:
            until(lambda: says_busy(bare))
            with pytest.raises(StoreError, match=r"^redis://\S+ is busy with a long script: try again when that"):
                store.newest(ALICE)
        finally:
            bare.script_kill()
        with pytest.raises(redis.ResponseError):
            connection.read_response()
        assert store.newest(ALICE) == [kept]


def says_busy(client):
    try:
        client.ping()
    except redis.ResponseError as error:
        return "BUSY" in str(error)
    return False
