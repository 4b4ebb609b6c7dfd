"""What was withheld and what was lost: counted, as metrics and as a report of this process.

Metrics and log lines name only keys that `memtrace.redaction` names, since an application's own key may itself hold
somebody's words. `report` tells all keys, to whoever has the process in hand.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from functools import lru_cache
from typing import Final

from opentelemetry import metrics

from memtrace import semconv
from memtrace.redaction import OTHER, Policy, Reason, known

MOST_KEYS: Final = 1000
"""A report has at most so many lines; what comes after is counted as ``other``."""
_LONGEST_KEY: Final = 256

_log = logging.getLogger("memtrace.export")
_lock = threading.Lock()
_withheld: Counter[tuple[str, Reason]] = Counter()
_lost: Counter[str] = Counter()
_POLICY: Final = Policy()


def _unlocked() -> None:
    """In a child process nobody holds the lock, though a thread of the parent may have when it forked."""
    global _lock  # A lock cannot be told that its owner is gone.
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_unlocked)


class Tally:
    """What one batch withheld. A policy is given it as its ``note``."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, Reason]] = Counter()

    def __call__(self, key: str, reason: Reason) -> None:
        """Count one thing."""
        self._counts[key, reason] += 1

    def publish(self, signal: str) -> None:
        """Add it to the metric, to the report, and to a line for who debugs."""
        if not self._counts:
            return
        named: Counter[tuple[str, Reason]] = Counter()
        with _lock:
            for (key, reason), number in self._counts.items():
                named[str(known(key, _POLICY)), reason] += number
                short = key[:_LONGEST_KEY]
                room = (short, reason) in _withheld or len(_withheld) < MOST_KEYS
                _withheld[short if room else OTHER, reason] += number
        for (key, reason), number in named.items():
            _withheld_metric().add(number, {semconv.WITHHELD_KEY: key, semconv.WITHHELD_REASON: reason.value})
        if _log.isEnabledFor(logging.DEBUG):
            said = ", ".join(f"{key} ({reason}) {number}" for (key, reason), number in sorted(named.items()))
            _log.debug(
                "withheld from a batch of %s: %s; report() tells every key, Policy.allowing() lets one leave",
                signal,
                said,
            )


def lost(signal: str, count: int) -> None:
    """So many items never reached a collector."""
    if count:
        with _lock:
            _lost[signal] += count
        _lost_metric().add(count, {semconv.EXPORT_SIGNAL: signal})


def ready() -> None:
    """Make the metrics, while there is a provider: at the end of a process there may be none."""
    _withheld_metric()
    _lost_metric()


def report() -> dict[str, int]:
    """What this process withheld so far: ``"<key>: <reason>"`` to how often. Not for logs: a key may hold words."""
    with _lock:
        return {f"{key}: {reason}": number for (key, reason), number in _withheld.most_common()}


def losses() -> dict[str, int]:
    """How many spans, logs and metrics of this process never reached a collector."""
    with _lock:
        return dict(_lost)


def reset() -> None:
    """Count from zero."""
    with _lock:
        _withheld.clear()
        _lost.clear()


@lru_cache(maxsize=1)
def _withheld_metric() -> metrics.Counter:
    meter = metrics.get_meter("memtrace", schema_url=semconv.SCHEMA_URL)
    return meter.create_counter(semconv.WITHHELD_METRIC, "1", "Things withheld from what was exported.")


@lru_cache(maxsize=1)
def _lost_metric() -> metrics.Counter:
    meter = metrics.get_meter("memtrace", schema_url=semconv.SCHEMA_URL)
    return meter.create_counter(semconv.LOST_METRIC, "1", "Spans, log records and metrics that reached no collector.")
