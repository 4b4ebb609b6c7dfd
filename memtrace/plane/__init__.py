"""A plane serves facts that people curated; this is the client that reads them. It only ever reads."""

from memtrace.errors import UsageError

try:
    import httpcore  # noqa: F401  what it asks with
except ImportError as missing:
    raise UsageError("reading from a plane needs httpcore: pip install 'memtrace-otel[reference]'") from missing

from memtrace.plane.client import Curated, Freshness, PlaneFacts, configured
from memtrace.plane.states import Status

__all__ = ["Curated", "Freshness", "PlaneFacts", "Status", "configured"]
