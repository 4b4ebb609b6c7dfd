"""The plane's tables."""

from __future__ import annotations

import secrets
from typing import Final

from memtrace.errors import StoreError
from memtrace.service.database import Database, Run

_VERSION: Final = "1"
_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS plane_meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    # revision: how often what the agent is served has changed
    "CREATE TABLE plane_agents (agent_id TEXT PRIMARY KEY, revision BIGINT NOT NULL)",
    """
    CREATE TABLE plane_facts (
        id TEXT PRIMARY KEY, agent_id TEXT NOT NULL, latest INTEGER NOT NULL, served INTEGER,
        updated_by TEXT NOT NULL, updated_at DOUBLE PRECISION NOT NULL
    )
    """,
    """
    CREATE TABLE plane_versions (
        fact_id TEXT NOT NULL, number INTEGER NOT NULL, state TEXT NOT NULL, content TEXT NOT NULL,
        folded TEXT NOT NULL, category TEXT NOT NULL, written_by TEXT NOT NULL, written_at DOUBLE PRECISION NOT NULL,
        decided_by TEXT NOT NULL, decided_at DOUBLE PRECISION NOT NULL, PRIMARY KEY (fact_id, number)
    )
    """,
    """
    CREATE TABLE plane_keys (
        id TEXT PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL, agents TEXT NOT NULL, digest TEXT NOT NULL UNIQUE,
        created_at DOUBLE PRECISION NOT NULL, revoked_at DOUBLE PRECISION
    )
    """,
    """
    CREATE TABLE plane_audit (
        number {serial}, at DOUBLE PRECISION NOT NULL, who TEXT NOT NULL, key_id TEXT NOT NULL, action TEXT NOT NULL,
        agent_id TEXT NOT NULL, fact_id TEXT NOT NULL, before TEXT NOT NULL, after TEXT NOT NULL
    )
    """,
    "CREATE INDEX plane_facts_of_agent ON plane_facts (agent_id, served)",
    "CREATE INDEX plane_facts_newest ON plane_facts (updated_at, id)",
    "CREATE INDEX plane_audit_of_fact ON plane_audit (fact_id, number)",
)


def prepare(database: Database) -> str:
    """Make the tables where there are none; the secret that this plane signs with.

    Raises:
        StoreError: the tables are of a newer version.
    """
    with database.transaction() as run:
        if not database.local:
            # Two servers that start at once make the tables one after the other.
            run("SELECT pg_advisory_xact_lock(7305229)")
        run(_TABLES[0])
        version = _meta(run, "schema")
        if version is None:
            for statement in _TABLES[1:]:
                run(statement.replace("{serial}", database.serial))
            for statement in database.append_only:
                run(statement)
            values = ("schema", _VERSION, "secret", secrets.token_hex(32))
            run("INSERT INTO plane_meta (name, value) VALUES (?, ?), (?, ?)", values)
        elif version != _VERSION:
            raise StoreError(f"the plane's tables are of version {version}, this memtrace knows {_VERSION}: upgrade it")
        return _meta(run, "secret") or ""


def _meta(run: Run, name: str) -> str | None:
    rows = run("SELECT value FROM plane_meta WHERE name = ?", (name,))
    return str(rows[0][0]) if rows else None
