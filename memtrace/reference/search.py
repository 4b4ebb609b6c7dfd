"""Durable facts by meaning: the store is the source of truth, and vectors are made good at each query."""

from __future__ import annotations

from collections.abc import Callable

from memtrace.model import Scope
from memtrace.reference.embedding import Embedder
from memtrace.reference.indexed_search import IndexedSearch
from memtrace.reference.stored_search import StoredSearch
from memtrace.stores.contract import FactStore
from memtrace.stores.rows import require_count
from memtrace.stores.vectors import Match, VectorsLost


class FactSearch:
    """Facts near a query: by the store's own vectors where it keeps them, else by an index in this process.

    Either way what another process added, updated or forgot is seen by the next query. At most ``scopes`` indexes are
    kept.
    """

    def __init__(self, store: FactStore, embedder: Embedder, *, scopes: int = 10_000) -> None:
        self._store = store
        self._indexed = IndexedSearch(store, embedder, scopes=scopes)
        self._stored = StoredSearch(embedder)

    def search(self, scope: Scope, query: str, *, limit: int | None, outgoing: Callable[[str], str]) -> list[Match]:
        """The ``limit`` nearest active facts, nearest first; with ``None`` all of them.

        ``outgoing`` is applied to every text that is sent to the embedder.

        Raises:
            UsageError: ``limit`` is negative.
            AdapterError: the embedder gave no vectors, or of several lengths.
            StoreError: the store failed.
            Exception: whatever the embedder raises; the facts stay, and are embedded by a later query.
        """
        require_count("limit", limit)
        try:
            return self._search(scope, query, limit, outgoing)
        except VectorsLost:
            return self._search(scope, query, limit, outgoing)

    def _search(self, scope: Scope, query: str, limit: int | None, outgoing: Callable[[str], str]) -> list[Match]:
        vectors = self._store.vectors()
        if vectors is None:
            return self._indexed.search(scope, query, limit=limit, outgoing=outgoing)
        return self._stored.search(scope, query, vectors=vectors, limit=limit, outgoing=outgoing)

    def drop(self, scope: Scope) -> None:
        """Let go of what this process has of a scope; facts that are still stored come back with the next query."""
        self._indexed.drop(scope)
