"""Vectors beside the facts in a Postgres database that has the extension ``vector`` (pgvector)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Any, Final

import psycopg

from memtrace.model import Scope
from memtrace.stores.postgres_pool import ServerConnection
from memtrace.stores.postgres_schema import LOCK, bring_to_today
from memtrace.stores.postgres_scope import alone, place
from memtrace.stores.rows import COLUMNS, LARGEST_ID, holds_something, require_count, to_records
from memtrace.stores.vectors import Match, Nearest

_log = logging.getLogger(__name__)

_STEPS: Final = (
    (
        # A vector of up to 2,000 numbers stays in its row, for a search reads all of a scope's.
        """
        CREATE TABLE learned_memory_embedders (
            id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            dimensions integer NOT NULL,
            probe {home}.vector NOT NULL
        )
        """,
        """
        CREATE TABLE learned_memory_vectors (
            record_id bigint NOT NULL REFERENCES learned_memory ON DELETE CASCADE,
            embedder integer NOT NULL REFERENCES learned_memory_embedders,
            vector {home}.vector NOT NULL,
            PRIMARY KEY (record_id, embedder)
        ) WITH (
            toast_tuple_target = 8160, autovacuum_vacuum_scale_factor = 0.01,
            toast.autovacuum_vacuum_scale_factor = 0.01
        )
        """,
    ),
)
"""As in `postgres_schema`. The extension may be in any schema, so all that is its own is named with that."""

_INSTALLED: Final = """
    SELECT quote_ident(nspname) FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace
    WHERE extname = 'vector'
"""
_AVAILABLE: Final = "SELECT true FROM pg_available_extensions WHERE name = 'vector'"
_WRITABLE: Final = "SELECT NOT current_setting('transaction_read_only')::boolean"
# Once a database, so not in a schema that may be dropped with all that is in it.
_SHARED: Final = "SELECT coalesce((SELECT nspname FROM pg_namespace WHERE nspname = 'public'), current_schema())"
_PERMITTED: Final = """
    SELECT bool_and(has_table_privilege(name, privilege) AND has_schema_privilege(extnamespace, 'USAGE'))
    FROM unnest(ARRAY['learned_memory_vectors', 'learned_memory_embedders']) AS name,
        unnest(ARRAY['SELECT', 'INSERT', 'DELETE']) AS privilege, pg_extension
    WHERE extname = 'vector'
"""
# DROP TABLE learned_memory CASCADE leaves the vectors, without what ties them to facts; new facts get old ones' ids.
_TIED: Final = """
    SELECT true FROM pg_constraint
    WHERE conrelid = 'learned_memory_vectors'::regclass AND confrelid = 'learned_memory'::regclass
"""
_REFUSALS: Final = (
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.FeatureNotSupported,  # a hosted server that does not list the extension as allowed
    psycopg.errors.UndefinedFile,  # it is listed, but its library is not there
)

_SAME: Final = 1e-3
"""How far apart, as 1 - cosine, one embedder's vectors of one text may be: a model seldom repeats itself exactly."""

_EMBEDDER: Final = """
    SELECT id FROM (
        SELECT id, CASE WHEN dimensions = {home}.vector_dims(%(probe)s::text::{home}.vector)
            THEN probe OPERATOR({home}.<=>) %(probe)s::text::{home}.vector END AS distance
        FROM learned_memory_embedders
    ) AS known WHERE distance < %(same)s::float8 ORDER BY distance, id LIMIT 1
"""
_NEW_EMBEDDER: Final = """
    INSERT INTO learned_memory_embedders (dimensions, probe)
    SELECT {home}.vector_dims(probe), probe FROM (SELECT %(probe)s::text::{home}.vector AS probe) AS new RETURNING id
"""

# Superseded facts are in no answer; their vectors go with the next ones that come.
_PUT: Final = """
    DELETE FROM learned_memory_vectors USING learned_memory
    WHERE record_id = id AND scope_sha256 = %(here)s AND superseded_by IS NOT NULL;
    INSERT INTO learned_memory_vectors (record_id, embedder, vector)
    SELECT id, %(embedder)s, new.vector::{home}.vector
    FROM unnest(%(ids)s::bigint[], %(vectors)s::text[]) AS new (id, vector) JOIN learned_memory USING (id)
    WHERE scope_sha256 = %(here)s AND superseded_by IS NULL
    ON CONFLICT DO NOTHING
"""
# Rows are looked up by their key, whatever the planner thinks of the tables: what has a LIMIT is not made into a join,
# which could read everyone's vectors for one scope's. So is the query's text read once, by a SELECT of its own.
_NEAREST: Final = f"""
    WITH scored AS MATERIALIZED (
        SELECT id AS number, created_at AS since, distance FROM learned_memory LEFT JOIN LATERAL (
            SELECT vector OPERATOR({{home}}.<=>) (SELECT %(vector)s::text::{{home}}.vector) AS distance
            FROM learned_memory_vectors WHERE record_id = id AND embedder = %(embedder)s::integer LIMIT 1
        ) AS kept ON true
        WHERE scope_sha256 = %(here)s AND superseded_by IS NULL
    ),
    chosen AS (
        (
            SELECT * FROM scored WHERE distance IS NOT NULL
            ORDER BY distance, since DESC, number DESC LIMIT %(limit)s::bigint
        )
        UNION ALL SELECT * FROM scored WHERE distance IS NULL
    )
    SELECT {COLUMNS}, distance FROM chosen CROSS JOIN LATERAL (
        SELECT {COLUMNS} FROM learned_memory WHERE id = number LIMIT 1
    ) AS facts
    ORDER BY distance NULLS LAST, created_at DESC, id DESC
"""  # noqa: S608  constants of this module alone


class PostgresVectors:
    """See `FactVectors`: one row a fact and embedder in ``learned_memory_vectors``, which goes with the fact's own.

    That is in the transaction that deletes the fact; how long the server then keeps the bytes is said at
    `PostgresStore`. A search compares with every vector of the scope, so it is exact, and has no index to keep. Vectors
    of an embedder that nobody uses any more stay as long as their facts, or until they are deleted by hand.
    """

    def __init__(self, connection: Callable[[], AbstractContextManager[ServerConnection]], home: str) -> None:
        self._connection = connection
        self._home = home

    def embedder(self, probe: Sequence[float]) -> int:
        """See `FactVectors.embedder`."""
        values = {"probe": _text(probe), "same": _SAME}
        with self._connection() as db:
            known = _asked(db, self._here(_EMBEDDER), values)
            if known is None:
                with db.transaction():
                    db.execute("SELECT pg_advisory_xact_lock(%s::bigint)", [LOCK])
                    known = _asked(db, self._here(_EMBEDDER), values)  # another may have been faster
                    known = known or _asked(db, self._here(_NEW_EMBEDDER), values)
        return int(known)

    def put(self, scope: Scope, embedder: int, vectors: Mapping[int, Sequence[float]]) -> None:
        """See `FactVectors.put`."""
        values = {"embedder": embedder, "ids": list(vectors), "vectors": [_text(vector) for vector in vectors.values()]}
        with self._connection() as db:
            alone(db, scope, self._here(_PUT), values)

    def nearest(self, scope: Scope, embedder: int, vector: Sequence[float], limit: int | None) -> Nearest:
        """See `FactVectors.nearest`."""
        require_count("limit", limit)
        if not holds_something(scope):
            return Nearest([], [])
        values = {
            "here": place(scope),
            "embedder": embedder,
            "vector": _text(vector),
            "limit": None if limit is None else min(limit, LARGEST_ID),
        }
        with self._connection() as db:
            rows = db.execute(self._here(_NEAREST), values, binary=True).fetchall()
        records = to_records(scope, [row[:-1] for row in rows])
        distances = [row[-1] for row in rows]
        return Nearest(
            [Match(each, 1.0 - far) for each, far in zip(records, distances, strict=True) if far is not None],
            [each for each, far in zip(records, distances, strict=True) if far is None],
        )

    def _here(self, statement: str) -> str:
        return statement.format(home=self._home.replace("%", "%%"))


def home_of_vectors(db: ServerConnection, url: str) -> str | None:
    """The schema of pgvector, quoted, once the tables for vectors are there; both are made where that is permitted.

    Where there is no pgvector, or no permission, it is ``None``, and the log says why.

    Raises:
        StoreError: the tables are not ours, or of a newer version.
        psycopg.Error: Postgres failed.
    """
    try:
        home, reason = _made_ready(db, url)
    except _REFUSALS as error:
        home, reason = None, f"a place for them cannot be made ({error.diag.message_primary})"
    if home is None:
        _log.info("%s keeps no vectors, so each process that searches has an index of its own: %s", url, reason)
    return home


def _made_ready(db: ServerConnection, url: str) -> tuple[str | None, str]:
    if not _asked(db, _WRITABLE):
        return None, "it is read-only"
    home = _installed(db)
    if home is None:
        if not _asked(db, _AVAILABLE):
            return None, "its server has no extension vector (pgvector)"
        home = _install(db)
    bring_to_today(db, url, "learned_memory_vectors", [[each.format(home=home) for each in step] for step in _STEPS])
    if not _asked(db, _PERMITTED):
        return None, "this user may not use learned_memory_vectors and learned_memory_embedders"
    if not _asked(db, _TIED):
        return None, "its learned_memory_vectors is of another learned_memory: drop it and learned_memory_embedders"
    return home, ""


def _install(db: ServerConnection) -> str | None:
    shared = str(_asked(db, _SHARED))
    create = psycopg.sql.SQL("CREATE EXTENSION IF NOT EXISTS vector SCHEMA {}").format(psycopg.sql.Identifier(shared))
    # Whoever makes it at the same moment is not seen by IF NOT EXISTS, and waited for by the index that refuses it.
    with suppress(psycopg.errors.UniqueViolation, psycopg.errors.DuplicateObject):
        db.execute(create)
    return _installed(db)


def _installed(db: ServerConnection) -> str | None:
    home = _asked(db, _INSTALLED)
    return None if home is None else str(home)


def _asked(db: ServerConnection, question: str, values: Mapping[str, Any] | None = None) -> Any:
    """The one value of the answer, ``None`` where there is none."""
    row = db.execute(question, values).fetchone()
    return None if row is None else row[0]


def _text(vector: Sequence[float]) -> str:
    """A vector as pgvector reads it, so that no adapter of the driver's is needed."""
    return f"[{','.join(map(str, vector))}]"
