"""A server that only reads: a standby of Postgres, a replica of Redis. And a user who may not do everything."""

from __future__ import annotations

from contextlib import closing

import pytest
import redis
from storing import ALICE, until

from memtrace.errors import StoreError
from memtrace.harness.services import start_redis
from memtrace.model import Record
from memtrace.stores import open_store

UNKNOWN = Record(ALICE, "likes jazz")


def assert_read_only(store, kept, says):
    assert store.newest(ALICE) == store.history(ALICE) == [kept]
    for write in (
        lambda: store.add(UNKNOWN),
        lambda: store.supersede(ALICE, kept.id, UNKNOWN),
        lambda: store.delete(ALICE),
        lambda: store.prune(ALICE, "", 0),
    ):
        with pytest.raises(StoreError, match=says) as refusal:
            write()
        assert "\n" not in str(refusal.value)
    assert store.history(ALICE) == [kept]


def test_a_standby_of_postgres_is_read_and_not_written(postgres_to_harm):
    with closing(open_store(postgres_to_harm.url)) as store:
        kept = store.add(Record(ALICE, "likes tea"))
        data = postgres_to_harm.running._directory.path / "data"
        postgres_to_harm.kill()
        (data / "standby.signal").touch()
        postgres_to_harm.start()
        says = r"^postgresql://\S+ is read-only: name the primary server"
        with closing(open_store(postgres_to_harm.url)) as standby:
            assert_read_only(standby, kept, says)
        assert_read_only(store, kept, says)
        postgres_to_harm.kill()
        (data / "standby.signal").unlink()
        postgres_to_harm.start()
        assert store.add(UNKNOWN) in store.newest(ALICE)


def test_a_replica_of_redis_is_read_and_not_written(redis_to_harm):
    with (
        start_redis() as second,
        closing(redis.Redis.from_url(second.url)) as replica,
        closing(open_store(redis_to_harm.url)) as store,
    ):
        kept = store.add(Record(ALICE, "likes tea"))
        host, port = redis_to_harm.url.removeprefix("redis://").partition("/")[0].split(":")
        replica.replicaof(host, port)
        until(lambda: replica.info("replication")["master_link_status"] == "up")
        with closing(open_store(second.url)) as reader:
            assert_read_only(reader, kept, r"^redis://\S+ is a read-only replica: name the primary server")
            replica.replicaof("no", "one")
            assert reader.add(UNKNOWN) in reader.newest(ALICE)


@pytest.mark.parametrize("may", ["+@all -info -config", "+@read +@write +@scripting +@connection +select"])
def test_a_redis_user_who_may_not_ask_about_the_server_has_a_store(redis_to_harm, may):
    with closing(redis.Redis.from_url(redis_to_harm.url)) as master:
        master.execute_command("ACL", "SETUSER", "guest", "on", ">secret", "~memtrace:*", *may.split())
        url = redis_to_harm.url.replace("://", "://guest:secret@")
        with closing(open_store(url)) as store:
            old = store.add(Record(ALICE, "is on Free", source="learned"))
            new = store.supersede(ALICE, old.id, Record(ALICE, "is on Pro"))
            assert store.newest(ALICE) == store.everyone("user") == [new]
            assert store.delete(ALICE) == 2
        master.execute_command("ACL", "SETUSER", "guest", "-@write")
        with closing(open_store(url)) as store, pytest.raises(StoreError, match="does not permit this: grant") as error:
            store.add(UNKNOWN)
        assert "secret" not in str(error.value)
