"""What a fact store promises, whatever it is built on.

The promises are those of the page *How memory works*: facts are partitioned by project, level and scope id; adding is
idempotent; an update keeps the old fact, marked superseded; an empty id reads nothing; reading everyone is a separate
call, never an id. `memtrace.stores.conformance.FactStoreContract` tests them on any store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from memtrace.model import Record, Scope
from memtrace.stores.vectors import FactVectors


class FactStore(Protocol):
    """Durable facts. Safe to share between threads and to use after a fork; every write is atomic.

    Ids are data: no id is a pattern or a wildcard, and two that differ in one code point are two. A scope whose id is
    ``""`` holds nothing: reads return ``[]``, and writes raise `UsageError`. So it is with text that not every backend
    can keep, which is text with NUL or a lone surrogate; any other text is kept as it is, the empty one too, and of any
    length. Numbers are finite. Naming a record with a scope it is not filed under finds nothing, as if it never was.
    A driver's failure is raised as `StoreError`, with the driver's exception chained.
    """

    def add(self, record: Record) -> Record:
        """Store a fact and return it as stored: with an id of its own, never used before, and its time filled in.

        An active record with the same scope and text is returned unchanged instead: adding twice is adding once. Only a
        record of some source that is now added by hand (source ``""``) becomes one by hand, with the new one's source,
        confidence and span, so that `prune` spares it from then on. ``created_at`` 0 means now.
        """

    def get(self, scope: Scope, record_id: int) -> Record | None:
        """The record, superseded or not, where it is filed under this scope."""

    def newest(self, scope: Scope, limit: int | None = 50, *, source: str | None = None) -> list[Record]:
        """Active records, newest first (ties: higher id first), of one source where it is given.

        ``limit`` ``None`` is all, 0 none; a negative one raises `UsageError`.
        """

    def history(self, scope: Scope) -> list[Record]:
        """All records of the scope, superseded ones too, newest first."""

    def everyone(self, level: str, project: str = "") -> list[Record]:
        """Active records of every scope id at one level of one project, newest first: for maintenance, never a turn.

        A level that there is not raises `UsageError`.
        """

    def supersede(self, scope: Scope, record_id: int, new: Record) -> Record:
        """Put ``new`` in the place of an active record, which is kept, marked superseded by it; one atomic step.

        With the old record's own text nothing changes and the old record is returned. Where ``new.text`` is active
        already under another id, that record takes the old one's place, as `add` returns it. Where it was superseded
        before, it is stored anew. A record that is not there, not active or of another scope, and a ``new`` of another
        scope: `UsageError`.
        """

    def delete(self, scope: Scope, record_id: int | None = None) -> int:
        """Remove one record and all it superseded, or with ``None`` the whole scope; how many rows went.

        What superseded it stays. From then on no read of any store on the same data shows what went. A store that keeps
        files of its own leaves nothing of the text in them, nor of what was pruned before (pages and journals too),
        except for as long as a reader still needs an older state of them. A store on a server says in its own words how
        long that server may keep the bytes.
        """

    def prune(self, scope: Scope, source: str, keep: int) -> Sequence[Record]:
        """Remove all but the newest ``keep`` active records of one source, with what they superseded; returns them all.

        It makes room and promises nothing of the files. A negative ``keep`` raises `UsageError`.
        """

    def vectors(self) -> FactVectors | None:
        """The place for vectors of facts, made where there is none; ``None`` where this store has no such place.

        Raises:
            StoreError: the store failed, or its tables for vectors are another application's or a newer memtrace's.
        """

    def close(self) -> None:
        """Let go of connections. Using the store again opens new ones."""
