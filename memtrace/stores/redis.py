"""Facts on a Redis or Valkey server."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

from memtrace.errors import StoreError, UsageError
from memtrace.model import Record, Scope
from memtrace.stores import redis_scripts as scripts
from memtrace.stores.location import hide_password
from memtrace.stores.redis_rows import BY_HAND, PREFIX, Keys, id_bytes, keys_of, new_row, records_of, scope_of
from memtrace.stores.rows import (
    A_DAY,
    LARGEST_ID,
    digest,
    holds_something,
    is_storable,
    require_count,
    require_level,
    require_limits,
    require_record,
    require_scope,
)

try:
    from memtrace.stores.redis_pool import Client
    from memtrace.stores.redis_server import Attempt, checked, connect
except ImportError as missing:
    raise UsageError(
        "a redis:// store needs redis-py with hiredis: pip install 'memtrace-otel[redis]'"
        f" ({str(missing).partition(chr(10))[0]})"
    ) from None

T = TypeVar("T")

_IDS: Final = f"{PREFIX}ids"
_UNREADABLE: Final = (TypeError, ValueError, struct.error)
"""What reading an answer raises that is not of the form it should have."""


class _IdTaken(Exception):
    """A record of the scope has the id that the server gave for a new one."""


class RedisStore:
    """A `FactStore` on a Redis or Valkey server, or a cluster of them, for any number of threads and processes.

    A read of the newest is one round trip. Each write is one Lua script, after one round trip for an id; it is as
    durable as the server: ``appendfsync always`` for one that a power failure may not take. No call takes longer than
    about ``timeout`` seconds, however slowly an answer drips in (over TLS and in a cluster: no longer than that without
    a byte of it), but for looking up a host's name, which waits for the resolver.

    What was deleted is in no answer from then on. Its bytes stay in the append-only file until that is rewritten
    (``BGREWRITEAOF``), and in snapshots, replicas and backups for as long as those are kept. Keys begin with
    ``memtrace:``; others are left alone. `everyone` looks through all of the server's keys.

    While a script runs, the server does nothing for anybody else. That is microseconds, and a millisecond where a whole
    scope is deleted; but `prune`, and `delete` of a fact that superseded many, take it some 10 ms for 1,000 rows, 0.2 s
    for 10,000 and 2 to 3 s for 100,000. So many are better pruned a part at a time, by a ``keep`` that is lowered step
    by step.

    A scope is several keys. Where something evicts or deletes one of them and leaves others, writes and most reads of
    that scope raise `StoreError` until the scope is deleted as a whole; `newest` of all sources, `history` and
    `everyone` show what is left.

    Args:
        url: ``redis://user:password@host:6379/0``, ``rediss://`` for TLS, ``unix:///path/to/socket?db=0``; the
            option ``protocol=3`` after a ``?`` has Redis's third protocol spoken, not its second.
        timeout: seconds.
        connections: the most that this process has at once; threads beyond it wait.

    Warns:
        UserWarning: the server may evict keys when its memory is full.

    Raises:
        UsageError: ``url`` is not a Redis URL, ``timeout`` is not above 0 and at most a day, ``connections`` is below
            1, or the driver is not installed.
        StoreError: the server cannot be reached, or the facts are a newer memtrace's.
    """

    def __init__(self, url: str, *, timeout: float = 5.0, connections: int = 50) -> None:
        require_limits(timeout=timeout, connections=connections)
        self._url = checked(url)
        self._timeout = timeout
        with Attempt(self._url, seconds=timeout, opening=True):
            self._client: Client = connect(self._url, timeout=timeout, connections=connections)

    def __repr__(self) -> str:
        return f"RedisStore({hide_password(self._url)!r})"

    def add(self, record: Record) -> Record:
        """See `FactStore.add`."""
        require_record(record)
        return self._put(partial(_one_of, record.scope), scripts.ADD, record)

    def get(self, scope: Scope, record_id: int) -> Record | None:
        """See `FactStore.get`."""
        if not (holds_something(scope) and 0 < record_id <= LARGEST_ID):
            return None
        return self._run(partial(_perhaps_one_of, scope), scripts.GET, keys_of(scope), id_bytes(record_id))

    def newest(self, scope: Scope, limit: int | None = 50, *, source: str | None = None) -> list[Record]:
        """See `FactStore.newest`. The time it takes depends on how many it returns, not on how many are stored."""
        require_count("limit", limit)
        if limit == 0 or not (holds_something(scope) and is_storable(source or "")):
            return []
        count = -1 if limit is None else min(limit, LARGEST_ID)
        if source is None:
            return self._ask(partial(records_of, scope), "ZREVRANGE", keys_of(scope).active, 0, max(count - 1, -1))
        values = digest(source), count
        return self._run(partial(records_of, scope), scripts.NEWEST_OF_SOURCE, keys_of(scope), *values)

    def history(self, scope: Scope) -> list[Record]:
        """See `FactStore.history`."""
        if not holds_something(scope):
            return []
        keys = keys_of(scope)
        both = ("ZRANGE", keys.active, 0, -1), ("HVALS", keys.superseded)

        def look(client: Client) -> list[Record]:
            return [record for rows in client.server.transaction_of(*both) for record in records_of(scope, rows)]

        return sorted(self._through(look), key=_age, reverse=True)

    def everyone(self, level: str, project: str = "") -> list[Record]:
        """See `FactStore.everyone`."""
        known = require_level(level)
        found: list[Record] = []
        # There may be many keys; each round trip has its own limit.
        for scope in self._through(_scopes, seconds=A_DAY):
            if (scope.level, scope.project) == (known, project):
                found += self.newest(scope, None)
        return sorted(found, key=_age, reverse=True)

    def supersede(self, scope: Scope, record_id: int, new: Record) -> Record:
        """See `FactStore.supersede`."""
        require_record(new)
        if new.scope != scope:
            raise UsageError("a record is superseded by one of its own scope: give both the same")
        old = id_bytes(record_id) if 0 < record_id <= LARGEST_ID else b""
        kept = self._put(partial(_perhaps_one_of, scope), scripts.SUPERSEDE, new, old)
        if kept is None:
            raise UsageError(f"record {record_id} is no active record of this scope: name one that it has")
        return kept

    def delete(self, scope: Scope, record_id: int | None = None) -> int:
        """See `FactStore.delete`, and above how long the server may keep the bytes."""
        require_scope(scope)
        if record_id is None:
            return self._run(int, scripts.DELETE_ALL, keys_of(scope))
        if not 0 < record_id <= LARGEST_ID:
            return 0
        return self._run(int, scripts.DELETE, keys_of(scope), id_bytes(record_id))

    def prune(self, scope: Scope, source: str, keep: int) -> list[Record]:
        """See `FactStore.prune`."""
        require_scope(scope)
        require_count("keep", keep)
        if not is_storable(source):
            return []
        values = digest(source), min(keep, LARGEST_ID)
        return self._run(partial(records_of, scope), scripts.PRUNE, keys_of(scope), *values)

    def vectors(self) -> None:
        """None: each process that searches has an index of its own."""

    def close(self) -> None:
        """See `FactStore.close`."""
        self._client.close()

    def _put(self, read: Callable[[Any], T], script: str, record: Record, *values: bytes) -> T:
        """What a script answers that adds a record, asked again with another id where its scope has that id already."""
        created_at = record.created_at or time.time()
        while True:
            row = new_row(record, self._next_id(), created_at)
            told = row.data, row.mark, BY_HAND, row.about, *values
            with suppress(_IdTaken):
                return self._run(partial(_placed, read), script, row.keys, *told)
            self._count_on(row.keys)

    def _next_id(self) -> int:
        """An id that was never given before. One that is then not used, since its writer died, stays unused."""
        return self._ask(_above_zero, "INCR", _IDS)

    def _count_on(self, keys: Keys) -> None:
        """Have ids counted on from a scope's largest: the server has lost their count, and kept the scope."""
        both = ("HKEYS", keys.marks), ("HKEYS", keys.superseded)
        found = self._through(lambda client: [each for ids in client.server.transaction_of(*both) for each in ids])
        largest = max(map(int.from_bytes, found), default=0)
        self._run(int, scripts.COUNT_ON, [_IDS], largest)

    def _ask(self, read: Callable[[Any], T], *words: Any) -> T:
        return self._through(lambda client: read(client.server.execute_command(*words)))

    def _run(self, read: Callable[[Any], T], script: str, keys: Sequence[str], *values: Any) -> T:
        return self._through(lambda client: read(client.run(script, keys, values)))

    def _through(self, ask: Callable[[Client], T], *, seconds: float | None = None) -> T:
        """What the server answers, read, in the store's time or in so many seconds."""
        with Attempt(self._url, seconds=seconds or self._timeout), self._client.lease(self._timeout):
            try:
                return ask(self._client)
            except _UNREADABLE as error:
                self._client.close()  # it may have been the answer to something else
                raise StoreError(
                    f"{hide_password(self._url)} gave an answer that is none of memtrace's: if it does so again,"
                    " something else writes under memtrace's keys, or is no Redis"
                ) from error


def _scopes(client: Client) -> list[Scope]:
    names = set(client.server.scan_iter(match=f"{PREFIX}{{*}}:about", count=1000))
    found: list[bytes | None] = [client.server.get(name) for name in sorted(names)]
    return [scope_of(words) for words in found if words is not None]


def _above_zero(number: int) -> int:
    if number <= 0:
        raise ValueError(f"{number} is the id of no record")
    return number


def _age(record: Record) -> tuple[float, int]:
    return record.created_at, record.id


def _placed(read: Callable[[Any], T], row: Any) -> T:
    if row == scripts.TAKEN:
        raise _IdTaken
    return read(row)


def _one_of(scope: Scope, row: bytes) -> Record:
    return records_of(scope, [row])[0]


def _perhaps_one_of(scope: Scope, row: bytes | None) -> Record | None:
    return None if row is None else _one_of(scope, row)
