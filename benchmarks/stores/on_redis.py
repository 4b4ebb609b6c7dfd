"""Logical databases of a Redis or Valkey server."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import islice
from typing import Any, Final

import redis

from memtrace.harness.services import fresh, start_redis
from memtrace.model import Record
from memtrace.stores.redis import RedisStore
from memtrace.stores.redis_rows import PREFIX, id_bytes, keys_of, new_row

from .backend import Call, Filled, check
from .facts import NEWEST, SCOPE, records
from .peer import require_fits, require_sdk

_AT_ONCE: Final = 500


class Redis:
    """See `Backend`."""

    name = "redis"

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._server = stack.enter_context(start_redis())
        about: dict[str, Any] = self._client(self._server.url).info("server")
        known = [(name, about.get(f"{name.lower()}_version")) for name in ("Valkey", "Redis")]
        parser = "hiredis" if redis.utils.HIREDIS_AVAILABLE else "Python"
        self.about = {
            "server": next(f"{name} {version}" for name, version in known if version),
            "driver": f"redis-py {redis.__version__} ({parser} parser)",
            "provider": self._server.provider,
        }

    def round_trip(self) -> Call:
        """See `Backend.round_trip`."""
        client = self._client(self._server.url)
        return lambda: client.ping()

    def filled(self, count: int, size: int) -> Filled:
        """See `Backend.filled`."""
        url = fresh(self._server)
        store = RedisStore(url)
        self._stack.callback(store.close)
        store.add(next(records(0, 1, size)))
        client = self._client(url)
        for numbered in _batches(records(1, count, size)):
            _put(client, numbered)
        client.set(f"{PREFIX}ids", count)
        rows = keys_of(SCOPE).active
        return check(Filled(store, lambda: client.zrevrange(rows, 0, NEWEST - 1)), count, size)

    def peer(self, count: int, size: int) -> Any:
        """See `Backend.peer`."""
        sdk = require_sdk()
        require_fits(count, size)
        url = fresh(self._server)
        store = sdk.make_fact_store(url)
        client = self._client(url)
        for numbered in _batches(records(0, count, size)):
            _put_peer(client, numbered)
        client.set("fa:fact:seq", count)
        return store

    def _client(self, url: str) -> Any:
        return self._stack.enter_context(closing(redis.Redis.from_url(url)))


def _batches(each: Iterator[Record]) -> Iterator[Sequence[tuple[int, Record]]]:
    """Records with their ids, some at a time."""
    numbered = ((int(record.source_span_id, 16) + 1, record) for record in each)
    while batch := list(islice(numbered, _AT_ONCE)):
        yield batch


def _put(client: Any, numbered: Sequence[tuple[int, Record]]) -> None:
    """What `RedisStore.add` writes of each."""
    keys = keys_of(SCOPE)
    rows = [(id_bytes(number), new_row(record, number, record.created_at)) for number, record in numbered]
    pipeline = client.pipeline(transaction=False)
    pipeline.hset(keys.texts, mapping={row.text_digest: number for number, row in rows})
    pipeline.zadd(keys.active, {row.data: 0 for _number, row in rows})
    pipeline.zadd(keys.sources, {row.source + row.place: 0 for _number, row in rows})
    pipeline.hset(keys.marks, mapping={number: row.mark for number, row in rows})
    pipeline.execute()


def _put_peer(client: Any, numbered: Sequence[tuple[int, Record]]) -> None:
    """What the SDK's store writes of each."""
    pipeline = client.pipeline(transaction=False)
    for number, record in numbered:
        fact = {
            "id": number,
            "scope": "user",
            "scope_id": "alice",
            "project_id": "",
            "superseded_by": "",
            "fact": record.text,
            "source_trace_id": record.source_trace_id,
            "source": record.source,
            "confidence": record.confidence,
            "created_at": record.created_at,
        }
        pipeline.hset(f"fa:fact:{number}", mapping=fact)
        once = hashlib.sha256(f"user\0alice\0{record.text}\0".encode()).hexdigest()
        pipeline.set(f"fa:uniq:{once}", number)
    pipeline.sadd("fa:act:user:alice:", *(number for number, _record in numbered))
    pipeline.sadd("fa:all:user:alice:", *(number for number, _record in numbered))
    pipeline.sadd("fa:sids:user:", "alice")
    at = {str(number): record.created_at for number, record in numbered}
    pipeline.zadd("fa:zact:user:alice:", at)
    pipeline.zadd("fa:zall:user:", at)
    pipeline.execute()
