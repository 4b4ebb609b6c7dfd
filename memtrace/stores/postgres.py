"""Facts on a Postgres server."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Final

from memtrace.errors import UsageError
from memtrace.model import Record, Scope
from memtrace.stores.location import hide_password
from memtrace.stores.rows import (
    ACTIVE_COLUMNS,
    COLUMNS,
    LARGEST_ID,
    digest,
    holds_something,
    is_storable,
    require_count,
    require_level,
    require_limits,
    require_record,
    require_scope,
    to_active_records,
    to_records,
)

try:
    from memtrace.stores.postgres_pgvector import schema_for_vectors
    from memtrace.stores.postgres_pool import Lease, ServerConnections
    from memtrace.stores.postgres_scope import alone, place
    from memtrace.stores.postgres_server import checked, connect, failure
    from memtrace.stores.postgres_vectors import PostgresVectors
except ImportError as missing:
    raise UsageError(
        "a postgresql:// store needs psycopg 3: pip install 'memtrace-otel[postgres]'"
        f" ({str(missing).partition(chr(10))[0]})"
    ) from None

_HERE: Final = "scope_sha256 = %(here)s"
_ACTIVE: Final = f"{_HERE} AND superseded_by IS NULL"
_SUPERSEDED: Final = f"{_HERE} AND superseded_by IS NOT NULL"
# As the one index has it, and in no form that another index could serve: that one would filter through a whole scope.
_ACTIVE_OF_SOURCE: Final = (
    "scope_sha256 || int8send(hashtextextended(source, 0)) = %(here)s || int8send(hashtextextended(%(source)s, 0))"
    " AND source = %(source)s AND superseded_by IS NULL"
)
_NEWEST_FIRST: Final = "ORDER BY created_at DESC, id DESC"


def _select(where: str, columns: str = COLUMNS) -> str:
    return f"SELECT {columns} FROM learned_memory WHERE {where}"  # noqa: S608  constants of this module alone


_WITH_ID: Final = _select(f"{_HERE} AND id = %(id)s")
_NEWEST: Final = _select(f"{_ACTIVE} {_NEWEST_FIRST}", ACTIVE_COLUMNS)
_NEWEST_OF_SOURCE: Final = _select(f"{_ACTIVE_OF_SOURCE} {_NEWEST_FIRST}", ACTIVE_COLUMNS)
_HISTORY: Final = f"{_select(_ACTIVE)} UNION ALL {_select(_SUPERSEDED)} {_NEWEST_FIRST}"
_EVERYONE: Final = _select(
    f"project_id = %(project)s AND scope = %(level)s AND superseded_by IS NULL {_NEWEST_FIRST}", f"scope_id, {COLUMNS}"
)

_NEW_COLUMNS: Final = """
    project_id, scope, scope_id, scope_sha256, fact, fact_sha256,
    confidence, source, source_trace_id, source_span_id, created_at
"""
_NEW_VALUES: Final = """
    %(project)s, %(level)s, %(id_in_level)s, %(here)s, %(fact)s, %(fact_sha256)s,
    %(confidence)s::float8, %(source)s, %(trace)s, %(span)s, %(created_at)s::float8
"""
_TAKES_OVER: Final = "known.source <> '' AND excluded.source = ''"
_ADD: Final = f"""
    WITH written AS (
        INSERT INTO learned_memory AS known ({_NEW_COLUMNS}) VALUES ({_NEW_VALUES})
        ON CONFLICT (scope_sha256, fact_sha256) WHERE superseded_by IS NULL DO UPDATE SET
            source = excluded.source, confidence = excluded.confidence,
            source_trace_id = excluded.source_trace_id, source_span_id = excluded.source_span_id
        WHERE {_TAKES_OVER}
        RETURNING {COLUMNS}
    )
    SELECT {COLUMNS} FROM written
    UNION ALL {_select(f"{_ACTIVE} AND fact_sha256 = %(fact_sha256)s AND NOT EXISTS (SELECT FROM written)")}
"""  # noqa: S608  constants of this module alone

# These change several rows, so they run one after the other in a scope.
_SUPERSEDE: Final = f"""
    WITH old AS ({_select(f"{_ACTIVE} AND id = %(id)s", f"{COLUMNS}, fact_sha256")}),
    kept AS (
        INSERT INTO learned_memory AS known ({_NEW_COLUMNS})
        SELECT {_NEW_VALUES} FROM old WHERE old.fact_sha256 <> %(fact_sha256)s
        ON CONFLICT (scope_sha256, fact_sha256) WHERE superseded_by IS NULL DO UPDATE SET
            source = CASE WHEN {_TAKES_OVER} THEN excluded.source ELSE known.source END,
            confidence = CASE WHEN {_TAKES_OVER} THEN excluded.confidence ELSE known.confidence END,
            source_trace_id = CASE WHEN {_TAKES_OVER} THEN excluded.source_trace_id ELSE known.source_trace_id END,
            source_span_id = CASE WHEN {_TAKES_OVER} THEN excluded.source_span_id ELSE known.source_span_id END
        RETURNING {COLUMNS}
    ),
    marked AS (UPDATE learned_memory SET superseded_by = kept.id FROM old, kept WHERE learned_memory.id = old.id)
    SELECT {COLUMNS} FROM old WHERE fact_sha256 = %(fact_sha256)s
    UNION ALL SELECT {COLUMNS} FROM kept
"""  # noqa: S608  constants of this module alone
_WITH_REPLACED: Final = """
    WITH RECURSIVE gone AS (
        SELECT id, 0 AS step FROM ({first}) AS first
        UNION ALL
        SELECT known.id, step + 1 FROM gone JOIN learned_memory AS known
            ON known.scope_sha256 = %(here)s AND known.superseded_by = gone.id
    )
"""
_DELETE: Final = f"""
    {_WITH_REPLACED.format(first=_select(f"{_HERE} AND id = %(id)s", "id"))}
    DELETE FROM learned_memory USING gone WHERE learned_memory.id = gone.id
"""  # noqa: S608  constants of this module alone
_DELETE_ALL: Final = f"""
    DELETE FROM learned_memory WHERE {_ACTIVE}; DELETE FROM learned_memory WHERE {_SUPERSEDED}
"""  # noqa: S608  constants of this module alone
# A fact that was added by hand meanwhile is no longer of the source, and stays.
_PRUNE: Final = f"""
    {_WITH_REPLACED.format(first=_select(f"{_ACTIVE_OF_SOURCE} {_NEWEST_FIRST} OFFSET %(keep)s", "id"))},
    deleted AS (
        DELETE FROM learned_memory USING gone
        WHERE learned_memory.id = gone.id AND (step > 0 OR source = %(source)s)
        RETURNING step, {", ".join(f"learned_memory.{name}" for name in COLUMNS.split(", "))}
    )
    SELECT {COLUMNS} FROM deleted ORDER BY step, created_at DESC, id DESC
"""  # noqa: S608  constants of this module alone


class PostgresStore:
    """A `FactStore` in a Postgres database, for any number of threads, processes and machines.

    It is one table, ``learned_memory``, in the first schema of the search_path, made where there is none. A read of the
    newest is one statement that walks an index. Each write is one transaction and one round trip, as durable as the
    server's ``synchronous_commit`` makes it. No call takes longer than about ``timeout`` seconds, but for looking up a
    host's name, which waits for the resolver; a server that is back is used again by the next call.

    What was deleted is in no query's answer from then on. Its bytes stay in the table's pages until VACUUM has freed
    the row and another has taken its place (the table asks autovacuum to come after every hundredth row), in the
    write-ahead log until that is recycled, and in replicas and backups for as long as those are kept. Where that is too
    long, run ``VACUUM FULL learned_memory``, and keep the server's disks encrypted.

    Where the extension ``vector`` (pgvector) is installed, or may be, search by meaning keeps the facts' vectors in the
    database too, see `PostgresVectors`, and ``VACUUM FULL learned_memory_vectors`` frees theirs. Elsewhere, as with
    SQLite and Redis, each process that searches has an index of its own.

    The server's own limits are a statement, a lock and an idle transaction, set when a connection is opened: a pooler
    in between has to work by session, or to ignore the startup parameter ``options``.

    Args:
        url: ``postgresql://user:password@host:5432/database``, with any of libpq's parameters.
        timeout: seconds.
        connections: the most that this process has at once; threads beyond it wait.

    Raises:
        UsageError: ``url`` is not a PostgreSQL URL, ``timeout`` is not above 0 and at most a day, ``connections`` is
            below 1, or the driver is not installed.
        StoreError: the server cannot be reached, or the table is another application's or a newer memtrace's.
    """

    def __init__(self, url: str, *, timeout: float = 5.0, connections: int = 10) -> None:
        require_limits(timeout=timeout, connections=connections)
        self._url = checked(url)
        self._timeout = timeout
        # Not a method of this store, which would keep it alive: one that is dropped closes its connections.
        self._connections = ServerConnections(
            partial(connect, self._url, timeout=timeout), partial(failure, self._url), most=connections
        )
        self._schema_for_vectors: str | None = None
        self._may_keep_vectors = True
        with self._connection():
            pass

    def __repr__(self) -> str:
        return f"PostgresStore({hide_password(self._url)!r})"

    def add(self, record: Record) -> Record:
        """See `FactStore.add`."""
        require_record(record)
        values = _values(record)
        with self._connection() as db:
            row = None
            while row is None:  # one that was added meanwhile is in the way, but not yet seen
                row = db.execute(_ADD, values, binary=True).fetchone()
        return _record(record.scope, row)

    def get(self, scope: Scope, record_id: int) -> Record | None:
        """See `FactStore.get`."""
        if not (holds_something(scope) and 0 < record_id <= LARGEST_ID):
            return None
        rows = self._rows(_WITH_ID, {"here": place(scope), "id": record_id})
        return next(iter(to_records(scope, rows)), None)

    def newest(self, scope: Scope, limit: int | None = 50, *, source: str | None = None) -> list[Record]:
        """See `FactStore.newest`. The time it takes depends on how many it returns, not on how many are stored."""
        require_count("limit", limit)
        if not (holds_something(scope) and is_storable(source or "")):
            return []
        if source is None:
            return to_active_records(scope, self._rows(_limited(_NEWEST, limit), {"here": place(scope)}))
        values = {"here": place(scope), "source": source}
        return to_active_records(scope, self._rows(_limited(_NEWEST_OF_SOURCE, limit), values))

    def history(self, scope: Scope) -> list[Record]:
        """See `FactStore.history`."""
        if not holds_something(scope):
            return []
        return to_records(scope, self._rows(_HISTORY, {"here": place(scope)}))

    def everyone(self, level: str, project: str = "") -> list[Record]:
        """See `FactStore.everyone`."""
        known = require_level(level)
        if not is_storable(project):
            return []
        rows = self._rows(_EVERYONE, {"project": project, "level": known.value})
        return [_record(Scope(known, scope_id, project), row) for scope_id, *row in rows]

    def supersede(self, scope: Scope, record_id: int, new: Record) -> Record:
        """See `FactStore.supersede`."""
        require_record(new)
        if new.scope != scope:
            raise UsageError("a record is superseded by one of its own scope: give both the same")
        with self._connection() as db:
            known = 0 < record_id <= LARGEST_ID
            values = {**_values(new), "id": record_id}
            row = alone(db, _SUPERSEDE, scope=scope, values=values).fetchone() if known else None
        if row is None:
            raise UsageError(f"record {record_id} is no active record of this scope: name one that it has")
        return _record(scope, row)

    def delete(self, scope: Scope, record_id: int | None = None) -> int:
        """See `FactStore.delete`, and above how long the server may keep the bytes."""
        require_scope(scope)
        with self._connection() as db:
            if record_id is None:
                cursor = alone(db, _DELETE_ALL, scope=scope, values={})
                active = cursor.rowcount
                cursor.nextset()
                return active + cursor.rowcount
            if not 0 < record_id <= LARGEST_ID:
                return 0
            return alone(db, _DELETE, scope=scope, values={"id": record_id}).rowcount

    def prune(self, scope: Scope, source: str, keep: int) -> list[Record]:
        """See `FactStore.prune`."""
        require_scope(scope)
        require_count("keep", keep)
        if not is_storable(source):
            return []
        with self._connection() as db:
            values = {"source": source, "keep": min(keep, LARGEST_ID)}
            rows = alone(db, _PRUNE, scope=scope, values=values).fetchall()
        return to_records(scope, rows)

    def vectors(self) -> PostgresVectors | None:
        """See `FactStore.vectors`; where it is ``None`` the log says why. That holds until `close`, or it is lost."""
        schema = self._schema_for_vectors
        if schema is None and self._may_keep_vectors:
            with self._connection() as db:
                schema = schema_for_vectors(db, hide_password(self._url))
            self._schema_for_vectors, self._may_keep_vectors = schema, schema is not None
        # Made anew each time: kept here, the two would keep each other alive.
        return None if schema is None else PostgresVectors(self._connection, schema, lost=self._look_anew)

    def close(self) -> None:
        """See `FactStore.close`."""
        self._connections.close()
        self._look_anew()

    def _look_anew(self) -> None:
        self._schema_for_vectors, self._may_keep_vectors = None, True

    def _rows(self, statement: str, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        with self._connection() as db:
            return db.rows(statement, values)

    def _connection(self) -> Lease:
        return self._connections.lend(time.monotonic() + self._timeout)


@lru_cache
def _limited(statement: str, limit: int | None) -> str:
    """With the limit in its text, so that its one plan is made for it; for a limit the very same string each time."""
    return statement if limit is None else f"{statement} LIMIT {min(int(limit), LARGEST_ID)}"


def _values(new: Record) -> dict[str, Any]:
    return {
        "project": new.scope.project,
        "level": str(new.scope.level),
        "id_in_level": new.scope.id,
        "here": place(new.scope),
        "fact": new.text,
        "fact_sha256": digest(new.text),
        "confidence": new.confidence,
        "source": new.source,
        "trace": new.source_trace_id,
        "span": new.source_span_id,
        "created_at": new.created_at or time.time(),
    }


def _record(scope: Scope, row: Sequence[Any]) -> Record:
    return to_records(scope, [row])[0]
