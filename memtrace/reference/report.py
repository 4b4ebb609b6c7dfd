"""A failure inside memory is told once, and the turn goes on."""

from __future__ import annotations

import logging

from memtrace.errors import AdapterError
from memtrace.operation import Operation
from memtrace.reference.models import ModelError

_log = logging.getLogger(__name__)
_QUOTES_NOBODY = (AdapterError, ModelError)
"""Errors whose text is ours; any other's may repeat someone's words."""


def report(span: Operation, what: str, error: Exception) -> None:
    """Mark the span as failed and log one line, without anyone's words."""
    span.failed(error)
    cause = f" ({type(error.__cause__).__name__})" if error.__cause__ else ""
    reason = f": {error}" if isinstance(error, _QUOTES_NOBODY) else cause
    _log.warning("%s failed: %s%s", what, type(error).__name__, reason)
