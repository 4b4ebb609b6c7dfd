"""A failure inside memory is told once, and the turn goes on."""

from __future__ import annotations

import logging

from memtrace.errors import AdapterError, PlaneError
from memtrace.operation import Operation
from memtrace.plane import Curated
from memtrace.reference.models import ModelError
from memtrace.reference.outage import StoreOutage
from memtrace.spans import BlockSpan

_log = logging.getLogger(__name__)
_QUOTES_NOBODY = (AdapterError, ModelError)
"""Errors whose text is ours; any other's may repeat someone's words."""


def report(span: Operation, what: str, error: Exception) -> None:
    """Mark the span as failed and log one line, without anyone's words; none for a read in an outage of the store."""
    span.failed(error)
    if isinstance(error, StoreOutage) and what.startswith("reading"):
        return  # told where the outage began; what is not kept is a loss, and told each time
    cause = f" ({type(error.__cause__).__name__})" if error.__cause__ else ""
    reason = f": {error}" if isinstance(error, _QUOTES_NOBODY) else cause
    _log.warning("%s failed: %s%s", what, type(error).__name__, reason)


def show_curated(span: BlockSpan, curated: Curated) -> None:
    """Say on the span how fresh curated facts are. The log has told of an outage once, where it began."""
    span.freshness(curated.freshness, age=curated.age, status=curated.status)
    if curated.failed:
        span.failed(PlaneError(f"the plane could not be read: {curated.status}"))
