"""Vectors beside the facts in a Postgres database that has the extension ``vector`` (pgvector)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Final

import psycopg

from memtrace.errors import UsageError
from memtrace.model import Scope
from memtrace.stores.postgres_pgvector import finding_losses
from memtrace.stores.postgres_pool import ServerConnection, answer
from memtrace.stores.postgres_schema import LOCK
from memtrace.stores.postgres_scope import alone, place
from memtrace.stores.rows import COLUMNS, LARGEST_ID, holds_something, require_count, to_records
from memtrace.stores.vectors import Match, Nearest, VectorsLost

_SAME: Final = 1e-3
"""How far apart, as 1 - cosine, one embedder's vectors of one text may be: a model seldom repeats itself exactly."""

_EMBEDDER: Final = """
    SELECT id FROM (
        SELECT id, CASE WHEN dimensions = {extension_schema}.vector_dims(%(probe)s::text::{extension_schema}.vector)
            THEN probe OPERATOR({extension_schema}.<=>) %(probe)s::text::{extension_schema}.vector END AS distance
        FROM learned_memory_embedders
    ) AS known WHERE distance < %(same)s::float8 ORDER BY distance, id LIMIT 1
"""
# Numbers are drawn by chance: one that a process knows from tables that were dropped is no other's in new tables.
_NEW_EMBEDDER: Final = """
    INSERT INTO learned_memory_embedders (id, dimensions, probe) OVERRIDING SYSTEM VALUE
    SELECT 1 + floor(random() * 2147483646)::integer, {extension_schema}.vector_dims(probe), probe
    FROM (SELECT %(probe)s::text::{extension_schema}.vector AS probe) AS new RETURNING id
"""

# First, vectors that cannot be compared with the probe are refused: they are longer or shorter. Superseded facts are in
# no answer; their vectors go with the next ones that come.
_PUT: Final = """
    SELECT count(probe OPERATOR({extension_schema}.<=>) new.vector::{extension_schema}.vector)
    FROM learned_memory_embedders, unnest(%(vectors)s::text[]) AS new (vector) WHERE id = %(embedder)s;
    DELETE FROM learned_memory_vectors USING learned_memory
    WHERE record_id = id AND scope_sha256 = %(here)s AND superseded_by IS NOT NULL;
    INSERT INTO learned_memory_vectors (record_id, embedder, vector)
    SELECT id, %(embedder)s, new.vector::{extension_schema}.vector
    FROM unnest(%(ids)s::bigint[], %(vectors)s::text[]) AS new (id, vector) JOIN learned_memory USING (id)
    WHERE scope_sha256 = %(here)s AND superseded_by IS NULL
    ON CONFLICT DO NOTHING
"""
# Rows are looked up by their key, whatever the planner thinks of the tables: what has a LIMIT is not made into a join,
# which could read everyone's vectors for one scope's. So is the query's text read once, by a SELECT of its own.
_NEAREST: Final = f"""
    WITH scored AS MATERIALIZED (
        SELECT id AS number, created_at AS since, distance FROM learned_memory LEFT JOIN LATERAL (
            SELECT vector OPERATOR({{extension_schema}}.<=>)
                (SELECT %(vector)s::text::{{extension_schema}}.vector) AS distance
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

    def __init__(
        self,
        connection: Callable[[], AbstractContextManager[ServerConnection]],
        schema: str,
        *,
        lost: Callable[[], None],
    ) -> None:
        self._connection = connection
        self._lost = lost
        self._extension_schema = schema

    def embedder(self, probe: Sequence[float]) -> int:
        """See `FactVectors.embedder`."""
        values = {"probe": _text(probe), "same": _SAME}
        look, add = self._in_schema(_EMBEDDER), self._in_schema(_NEW_EMBEDDER)
        with self._asking() as db:
            known = answer(db, look, values)
            if known is None:
                with db.transaction():
                    db.execute("SELECT pg_advisory_xact_lock(%s::bigint)", [LOCK])
                    known = answer(db, look, values) or answer(db, add, values)  # another may have been faster
        return int(known)

    def put(self, scope: Scope, vectors: Mapping[int, Sequence[float]], *, embedder: int) -> None:
        """See `FactVectors.put`."""
        values = {"embedder": embedder, "ids": list(vectors), "vectors": [_text(vector) for vector in vectors.values()]}
        with self._asking() as db:
            alone(db, self._in_schema(_PUT), scope=scope, values=values)

    def nearest(self, scope: Scope, vector: Sequence[float], *, embedder: int, limit: int | None) -> Nearest:
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
        with self._asking() as db:
            rows = db.execute(self._in_schema(_NEAREST), values, binary=True).fetchall()
        records = to_records(scope, [row[:-1] for row in rows])
        distances = [row[-1] for row in rows]
        return Nearest(
            [Match(each, 1.0 - far) for each, far in zip(records, distances, strict=True) if far is not None],
            [each for each, far in zip(records, distances, strict=True) if far is None],
        )

    def _in_schema(self, statement: str) -> str:
        return statement.format(extension_schema=self._extension_schema.replace("%", "%%"))

    @contextmanager
    def _asking(self) -> Iterator[ServerConnection]:
        with self._connection() as db:
            try:
                with finding_losses():
                    yield db
            except (psycopg.DataError, psycopg.errors.ProgramLimitExceeded) as error:
                raise UsageError(
                    f"this is no vector, or not one of this embedder: {error.diag.message_primary}"
                ) from error
            except VectorsLost:
                self._lost()
                raise


def _text(vector: Sequence[float]) -> str:
    """A vector as pgvector reads it, so that no adapter of the driver's is needed."""
    return f"[{','.join(map(str, vector))}]"
