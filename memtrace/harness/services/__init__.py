"""Real Postgres and Redis servers for tests, proofs and a person, however this machine can provide them."""

from __future__ import annotations

from memtrace.harness.services.places import discard, fresh, is_empty
from memtrace.harness.services.postgres import start_postgres
from memtrace.harness.services.redis import start_redis
from memtrace.harness.services.server import Server, Unavailable, start

__all__ = ["Server", "Unavailable", "discard", "fresh", "is_empty", "start", "start_postgres", "start_redis"]
