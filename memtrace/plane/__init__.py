"""A plane serves facts that people curated; this is the client that reads them. It only ever reads."""

from memtrace.plane.client import Curated, Freshness, PlaneFacts, configured
from memtrace.plane.states import Status

__all__ = ["Curated", "Freshness", "PlaneFacts", "Status", "configured"]
