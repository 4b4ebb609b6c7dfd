"""A store that fails is asked once an interval, and a turn waits for it no longer than it said it would."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from memtrace.errors import StoreError
from memtrace.model import Record, Scope
from memtrace.stores.contract import FactStore

T = TypeVar("T")
RETRY_SECONDS: Final = 5.0
_QUICK: Final = 0.25
"""The share of the timeout in which a store answers that is well again."""
_NEVER: Final = float("-inf")
_log = logging.getLogger(__name__)


class StoreOutage(StoreError):
    """The store fails, which the log has told where the outage began."""


@dataclass(slots=True)
class _Circuit:
    """Whether one way of using the store, reading or writing, works; and when it was last tried while it does not."""

    failing: bool = False
    tried: float = _NEVER


@dataclass(slots=True)
class Outages:
    """What is known of one store's failures, for all turns on it.

    While reads (or writes) fail, one is let through in ``retry`` seconds of ``clock``; the others fail at once. The log
    has one warning where an outage begins, and one line where it ends.
    """

    store: FactStore
    clock: Callable[[], float]
    timeout: float
    retry: float = RETRY_SECONDS
    _reads: _Circuit = field(default_factory=_Circuit)
    _writes: _Circuit = field(default_factory=_Circuit)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def turn(self) -> TurnStore:
        """The store as one turn may use it."""
        return TurnStore(self)

    def read(self, call: Callable[[], T]) -> T:
        """Call the store, unless reads fail."""
        return self._through(self._reads, call)

    def write(self, call: Callable[[], T]) -> T:
        """Call the store, unless writes fail."""
        return self._through(self._writes, call)

    def too_slow(self) -> StoreOutage:
        """A turn has waited long enough: reads count as failing."""
        self._failed(self._reads, "it is too slow")
        return StoreOutage("the store is too slow: the turn has no time left for it")

    def _through(self, circuit: _Circuit, call: Callable[[], T]) -> T:
        self._admit(circuit)
        began = time.monotonic()
        try:
            value = call()
        except StoreError as error:
            self._failed(circuit, type(error.__cause__ or error).__name__)
            raise StoreOutage(str(error)) from error.__cause__
        if circuit.failing and time.monotonic() - began <= self.timeout * _QUICK:
            self._recovered(circuit)
        return value

    def _admit(self, circuit: _Circuit) -> None:
        if not circuit.failing:
            return
        with self._lock:
            now = self.clock()
            if circuit.tried <= now < circuit.tried + self.retry:
                raise StoreOutage("the store failed a moment ago, and is not asked again so soon")
            circuit.tried = now

    def _failed(self, circuit: _Circuit, cause: str) -> None:
        with self._lock:
            first = not (self._reads.failing or self._writes.failing)
            if not circuit.failing:
                circuit.failing, circuit.tried = True, self.clock()
        if first:
            _log.warning("the store fails: StoreError (%s); turns go on with what was read before", cause)

    def _recovered(self, circuit: _Circuit) -> None:
        with self._lock:
            over = circuit.failing
            circuit.failing = False
            over = over and not (self._reads.failing or self._writes.failing)
        if over:
            _log.info("the store answers again")


class TurnStore:
    """The store as one turn uses it: each call fails at once when the turn has waited for the store long enough.

    A call that is under way goes on until the store's own timeout, so that a turn waits for twice the timeout at most.
    """

    def __init__(self, outages: Outages) -> None:
        self._outages = outages
        self._store = outages.store
        self._left = outages.timeout

    def add(self, record: Record) -> Record:
        """See `FactStore.add`."""
        return self._timed(lambda: self._outages.write(lambda: self._store.add(record)))

    def get(self, scope: Scope, record_id: int) -> Record | None:
        """See `FactStore.get`."""
        return self._timed(lambda: self._outages.read(lambda: self._store.get(scope, record_id)))

    def newest(self, scope: Scope, limit: int | None = 50, *, source: str | None = None) -> list[Record]:
        """See `FactStore.newest`."""
        return self._timed(lambda: self._outages.read(lambda: self._store.newest(scope, limit, source=source)))

    def history(self, scope: Scope) -> list[Record]:
        """See `FactStore.history`."""
        return self._timed(lambda: self._outages.read(lambda: self._store.history(scope)))

    def everyone(self, level: str, project: str = "") -> list[Record]:
        """See `FactStore.everyone`."""
        return self._timed(lambda: self._outages.read(lambda: self._store.everyone(level, project)))

    def supersede(self, scope: Scope, record_id: int, new: Record) -> Record:
        """See `FactStore.supersede`."""
        return self._timed(lambda: self._outages.write(lambda: self._store.supersede(scope, record_id, new)))

    def delete(self, scope: Scope, record_id: int | None = None) -> int:
        """See `FactStore.delete`; not refused, since whoever asks for it must know that it was tried."""
        return self._store.delete(scope, record_id)

    def prune(self, scope: Scope, source: str, keep: int) -> list[Record]:
        """See `FactStore.prune`."""
        return list(self._timed(lambda: self._outages.write(lambda: self._store.prune(scope, source, keep))))

    def vectors(self) -> None:
        """None: a turn searches no facts by meaning."""

    def close(self) -> None:
        """Nothing: the store is not the turn's."""

    def _timed(self, call: Callable[[], T]) -> T:
        if self._left <= 0:
            raise self._outages.too_slow()
        began = time.monotonic()
        try:
            return call()
        finally:
            self._left -= time.monotonic() - began
