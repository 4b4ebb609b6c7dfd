"""Durable facts by meaning, by an index in this process: a cache of the store, made good at each query."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from memtrace.model import Record, Scope
from memtrace.reference.embedding import Embedder, embedded, require_length
from memtrace.reference.vectors import VectorIndex
from memtrace.stores.contract import FactStore
from memtrace.stores.vectors import Match


@dataclass(slots=True)
class _Vectors:
    """The vectors of one scope. A number is a record's id, and stands for the text it had."""

    texts: dict[int, str] = field(default_factory=dict)
    index: VectorIndex = field(default_factory=VectorIndex)
    lock: threading.Lock = field(default_factory=threading.Lock)


class IndexedSearch:
    """Facts near a query, each scope in an index of its own.

    Every query first reads what is active in the store, drops the vectors of what is gone and embeds what is new, so
    what another process added, updated or forgot is seen; and whatever has no vector as long as the query's, should the
    embedder change that. At most ``scopes`` indexes are kept.
    """

    def __init__(self, store: FactStore, embedder: Embedder, *, scopes: int = 10_000) -> None:
        self._store = store
        self._embedder = embedder
        self._most = scopes
        self._scopes: OrderedDict[Scope, _Vectors] = OrderedDict()
        self._lock = threading.Lock()

    def search(self, scope: Scope, query: str, *, limit: int | None, outgoing: Callable[[str], str]) -> list[Match]:
        """See `FactSearch.search`."""
        vectors = self._of(scope)
        with vectors.lock:
            records = {record.id: record for record in self._store.newest(scope, None)}
            _drop_what_is_gone(vectors, records)
            if not records or not query.strip():
                return []
            [wanted] = embedded(self._embedder, [outgoing(query)])
            self._embed(vectors, records.values(), wanted.size, outgoing)
            nearest = vectors.index.nearest(wanted, len(records) if limit is None else limit)
            return [Match(records[number], score) for number, score in nearest]

    def drop(self, scope: Scope) -> None:
        """See `FactSearch.drop`."""
        with self._lock:
            self._scopes.pop(scope, None)

    def _of(self, scope: Scope) -> _Vectors:
        with self._lock:
            vectors = self._scopes.setdefault(scope, _Vectors())
            self._scopes.move_to_end(scope)
            if len(self._scopes) > self._most:
                self._scopes.popitem(last=False)
            return vectors

    def _embed(self, vectors: _Vectors, records: Iterable[Record], length: int, outgoing: Callable[[str], str]) -> None:
        new = [record for record in records if not vectors.index.has(record.id, length)]
        if not new:
            return
        made = embedded(self._embedder, [outgoing(record.text) for record in new])
        require_length(made[0], length)
        vectors.index.put({record.id: vector for record, vector in zip(new, made, strict=True)})
        vectors.texts.update((record.id, record.text) for record in new)


def _drop_what_is_gone(vectors: _Vectors, records: Mapping[int, Record]) -> None:
    gone = {number for number, text in vectors.texts.items() if number not in records or records[number].text != text}
    vectors.index.drop(gone)
    for number in gone:
        del vectors.texts[number]
