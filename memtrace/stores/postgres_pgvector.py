"""Whether a Postgres database can keep vectors: its extension ``vector`` (pgvector), and the tables for them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import psycopg

from memtrace.stores.postgres_pool import ServerConnection, answer
from memtrace.stores.postgres_schema import LOCK, bring_to_today
from memtrace.stores.vectors import VectorsLost

_log = logging.getLogger(__name__)

_STEPS: Final = (
    (
        # A vector of up to 2,000 numbers stays in its row, for a search reads all of a scope's.
        """
        CREATE TABLE learned_memory_embedders (
            id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            dimensions integer NOT NULL,
            probe {extension_schema}.vector NOT NULL
        )
        """,
        """
        CREATE TABLE learned_memory_vectors (
            record_id bigint NOT NULL REFERENCES learned_memory ON DELETE CASCADE,
            embedder integer NOT NULL REFERENCES learned_memory_embedders,
            vector {extension_schema}.vector NOT NULL,
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
# DROP EXTENSION vector CASCADE leaves the tables, without the columns of its type.
_WHOLE: Final = """
    SELECT count(*) = 2 FROM pg_attribute WHERE NOT attisdropped AND (attrelid, attname) IN (
        (to_regclass('learned_memory_embedders'), 'probe'), (to_regclass('learned_memory_vectors'), 'vector')
    )
"""
# Emptied, and not made anew, so that no embedder's number is ever another's.
_RESTORE: Final = (
    "TRUNCATE learned_memory_vectors, learned_memory_embedders",
    "ALTER TABLE learned_memory_embedders ADD COLUMN IF NOT EXISTS probe {extension_schema}.vector NOT NULL",
    "ALTER TABLE learned_memory_vectors ADD COLUMN IF NOT EXISTS vector {extension_schema}.vector NOT NULL",
)
_REFUSALS: Final = (
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.FeatureNotSupported,  # a hosted server that does not list the extension as allowed
    psycopg.errors.UndefinedFile,  # it is listed, but its library is not there
)
_LOST: Final = (
    psycopg.errors.UndefinedObject,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.UndefinedTable,
    psycopg.errors.InvalidSchemaName,
    psycopg.errors.ForeignKeyViolation,  # the embedder's row is of tables that were there before
)
"""What psycopg raises where the extension, its schema or the tables were dropped."""


class _NoVectors(Exception):
    """A database keeps none; the message says why."""


def schema_for_vectors(db: ServerConnection, url: str) -> str | None:
    """The schema of pgvector, quoted, once the tables for vectors are there; both are made where that is permitted.

    Where there is no pgvector, or no permission, it is ``None``, and the log says why.

    Raises:
        StoreError: the tables are not ours, or of a newer version.
        VectorsLost: they were dropped just now.
        psycopg.Error: Postgres failed.
    """
    try:
        with finding_losses():
            return _made_ready(db, url)
    except _NoVectors as why:
        reason = str(why)
    except _REFUSALS as error:
        reason = f"a place for them cannot be made ({error.diag.message_primary})"
    _log.info("%s keeps no vectors, so each process that searches has an index of its own: %s", url, reason)
    return None


@contextmanager
def finding_losses() -> Iterator[None]:
    """A block in which a statement that finds the place for vectors gone raises `VectorsLost`.

    Raises:
        VectorsLost: the extension, its schema or the tables were dropped.
    """
    try:
        yield
    except _LOST as error:
        raise VectorsLost(
            f"the database has lost its place for vectors ({error.diag.message_primary}): search again"
        ) from error


def _made_ready(db: ServerConnection, url: str) -> str:
    if not answer(db, _WRITABLE):
        raise _NoVectors("it is read-only")
    schema = _installed(db) or _install(db)
    steps = [[statement.format(extension_schema=schema) for statement in step] for step in _STEPS]
    try:
        bring_to_today(db, url, table="learned_memory_vectors", steps=steps)
    except psycopg.errors.DuplicateTable:
        raise _NoVectors("its learned_memory_vectors is gone: drop learned_memory_embedders too") from None
    if not answer(db, "SELECT to_regclass('learned_memory_embedders') IS NOT NULL"):
        raise _NoVectors("its learned_memory_embedders is gone: drop learned_memory_vectors too")
    _restore(db, schema)
    if not answer(db, _PERMITTED):
        raise _NoVectors("this user may not use learned_memory_vectors and learned_memory_embedders")
    if not answer(db, _TIED):
        raise _NoVectors(
            "its learned_memory_vectors is of another learned_memory: drop it and learned_memory_embedders"
        )
    return schema


def _restore(db: ServerConnection, schema: str) -> None:
    """Give the tables back what went with an extension that was dropped, if anything did."""
    if answer(db, _WHOLE):
        return
    with db.transaction():
        db.execute("SELECT pg_advisory_xact_lock(%s::bigint)", [LOCK])
        for statement in () if answer(db, _WHOLE) else _RESTORE:  # another may have been faster
            db.execute(statement.format(extension_schema=schema))


def _install(db: ServerConnection) -> str:
    if not answer(db, _AVAILABLE):
        raise _NoVectors("its server has no extension vector (pgvector)")
    shared = str(answer(db, _SHARED))
    create = psycopg.sql.SQL("CREATE EXTENSION IF NOT EXISTS vector SCHEMA {}").format(psycopg.sql.Identifier(shared))
    # Whoever makes it at the same moment is not seen by IF NOT EXISTS, and waited for by the index that refuses it.
    with suppress(psycopg.errors.UniqueViolation, psycopg.errors.DuplicateObject):
        db.execute(create)
    return _installed(db)


def _installed(db: ServerConnection) -> str:
    """The schema of the extension, ``""`` where it is not installed."""
    return str(answer(db, _INSTALLED) or "")
