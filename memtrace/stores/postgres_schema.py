"""The tables of a fact store on Postgres: the schema of each by version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from memtrace.errors import StoreError

if TYPE_CHECKING:
    from memtrace.stores.postgres_pool import ServerConnection

LOCK: Final = int.from_bytes(b"memtrace", signed=True)
"""Whoever makes or changes the schema holds the advisory lock of this number."""

_VERSIONED: Final = "memtrace schema "
"""How the comment on the table begins; the version follows."""

_STEPS: Final = (
    (
        # An entry of an index is at most 2.7 kB, so whose a fact is and what it says stand there as digests. Without
        # that a long id or a long text could not be stored.
        """
        CREATE TABLE learned_memory (
            id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            scope text COLLATE "C" NOT NULL,
            scope_id text COLLATE "C" NOT NULL,
            project_id text COLLATE "C" NOT NULL,
            scope_sha256 bytea NOT NULL,
            fact text NOT NULL,
            fact_sha256 bytea NOT NULL,
            confidence double precision NOT NULL,
            source text COLLATE "C" NOT NULL,
            source_trace_id text NOT NULL,
            source_span_id text NOT NULL,
            created_at double precision NOT NULL,
            superseded_by bigint
        ) WITH (
            autovacuum_vacuum_scale_factor = 0.01, toast.autovacuum_vacuum_scale_factor = 0.01
        )
        """,
        """
        CREATE INDEX learned_memory_newest ON learned_memory
            (scope_sha256, created_at DESC, id DESC) WHERE superseded_by IS NULL
        """,
        """
        CREATE INDEX learned_memory_newest_of_source ON learned_memory
            ((scope_sha256 || int8send(hashtextextended(source, 0))), created_at DESC, id DESC)
            WHERE superseded_by IS NULL
        """,
        """
        CREATE UNIQUE INDEX learned_memory_once ON learned_memory
            (scope_sha256, fact_sha256) WHERE superseded_by IS NULL
        """,
        """
        CREATE INDEX learned_memory_superseded ON learned_memory
            (scope_sha256, superseded_by) WHERE superseded_by IS NOT NULL
        """,
    ),
)
"""The statements that lead from one version of the schema to the next. The version is how many were taken."""

_LOOK: Final = """
    SELECT current_schema(), mine.oid IS NOT NULL, obj_description(mine.oid, 'pg_class')
    FROM (SELECT) AS nothing LEFT JOIN (
        SELECT pg_class.oid FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
        WHERE relname = %s AND nspname = current_schema()
    ) AS mine ON true
"""
"""Reads the catalog itself: `to_regclass` may answer from a cache, without what others made a moment ago."""


def update_schema(connection: ServerConnection, url: str) -> None:
    """Make the table of facts, or bring it to the schema of today.

    Raises:
        StoreError: the table is not ours or of a newer version, or there is no schema to make it in.
        psycopg.Error: Postgres failed.
    """
    bring_to_today(connection, url, table="learned_memory", steps=_STEPS)


def bring_to_today(connection: ServerConnection, url: str, *, table: str, steps: Sequence[Sequence[str]]) -> None:
    """Take the steps that a table has not taken yet, if any; one process does it, others wait.

    Raises:
        StoreError: the table is not ours or of a newer version, or there is no schema to make it in.
        psycopg.Error: Postgres failed.
    """
    if _version(connection, url, table=table, newest=len(steps)) == len(steps):
        return
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s::bigint)", [LOCK])
        # Asked again: another process may have been faster.
        for step in steps[_version(connection, url, table=table, newest=len(steps)) :]:
            for statement in step:
                connection.execute(statement)
        connection.execute(f"COMMENT ON TABLE {table} IS '{_VERSIONED}{len(steps)}'")


def _version(connection: ServerConnection, url: str, *, table: str, newest: int) -> int:
    """How many steps the table in the current schema has taken."""
    schema, found, comment = connection.execute(_LOOK, [table]).fetchone() or (None, False, None)
    if schema is None:
        raise StoreError(f"{url} has no schema to use: create one, and name it in the search_path")
    if not found:
        return 0
    version = str(comment or "").removeprefix(_VERSIONED)
    if comment == version or not version.isdecimal():
        raise StoreError(
            f"{url} has a table {table} in schema {schema} that is not memtrace's:"
            " name another database, or another schema with ?options=-csearch_path%3DNAME"
        )
    if int(version) > newest:
        raise StoreError(
            f"{url} was written by a newer memtrace (schema {version}, this one knows {newest}): upgrade memtrace"
        )
    return int(version)
