"""What stands for a scope on a Postgres server, and how writes of one scope go one after the other."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import psycopg

from memtrace.model import Scope
from memtrace.stores.postgres_pool import ServerConnection

_LOCKED: Final = "SELECT pg_advisory_xact_lock(%(lock)s)"


@lru_cache(maxsize=4096)
def place(scope: Scope) -> bytes:
    """What stands for a scope: 32 bytes, of parts that begin with how long they are, so that no two join alike."""
    level = str(scope.level)
    named = f"{len(scope.project)}:{scope.project}{len(level)}:{level}{scope.id}"
    return hashlib.sha256(named.encode()).digest()


def alone(
    db: ServerConnection, statement: str, *, scope: Scope, values: Mapping[str, Any]
) -> psycopg.ClientCursor[tuple[Any, ...]]:
    """Run a statement while no other of these runs in the scope; the cursor is at its result.

    It is sent in one message with the statement that takes the scope's lock, and Postgres runs the two as one
    transaction, the second on what the first waited for.
    """
    here = place(scope)
    cursor = psycopg.ClientCursor(db)
    cursor.execute(f"{_LOCKED};{statement}", {**values, "here": here, "lock": int.from_bytes(here[:8], signed=True)})
    cursor.nextset()
    return cursor
