"""Search by meaning, add, update and forget, each leaving the store as it found it; ours and the SDK's."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import count as counting
from typing import Any, Final

from memtrace.model import Record
from memtrace.reference.embedding import HashEmbedder
from memtrace.reference.search import FactSearch
from memtrace.stores.contract import FactStore

from .facts import SCOPE, text
from .measure import Series, Subject
from .peer import NAME, require_sdk

OPERATIONS: Final = ("search", "add", "update", "forget")
_QUERY: Final = "What is fact 7 about?"
_FOUND: Final = 10
_DIMENSION: Final = 512
_NEW: Final = 10_000_000
"""Facts from this number on are in no store yet."""


def ours(backend: str, store: FactStore, count: int, size: int) -> Iterator[Subject]:
    """The operations on a store of ours that holds ``count`` facts."""
    series = {name: Series(backend, "memtrace", name, count, size) for name in OPERATIONS}
    numbers = counting(_NEW)
    search = FactSearch(store, HashEmbedder(_DIMENSION))

    def new() -> Record:
        return Record(SCOPE, text(next(numbers), size), confidence=0.6)

    def forget(record: Record) -> int:
        return store.delete(SCOPE, record.id)

    yield Subject(series["search"], lambda _: search.search(SCOPE, _QUERY, limit=_FOUND, outgoing=str))
    yield Subject(series["add"], store.add, before=new, after=forget)
    yield Subject(
        series["update"],
        lambda pair: store.supersede(SCOPE, pair[0].id, pair[1]),
        before=lambda: (store.add(new()), new()),
        after=forget,
    )
    yield Subject(series["forget"], forget, before=lambda: store.add(new()))


def peers(backend: str, store: Any, count: int, size: int) -> Iterator[Subject]:
    """The operations on the SDK's store, as its memory does them."""
    sdk = require_sdk()
    series = {name: Series(backend, NAME, name, count, size) for name in OPERATIONS}
    numbers = counting(_NEW)
    embedder = _Embedder()
    logging.getLogger(NAME).setLevel(logging.ERROR)
    search = sdk.SemanticFactStore(store, sdk.FaissVectorStore(dimension=_DIMENSION, index_type="flat"), embedder)

    def new() -> Any:
        return sdk.Fact("user", SCOPE.id, text(next(numbers), size), confidence=0.6)

    def added() -> Any:
        fact = new()
        fact.id = store.add(fact)
        return fact

    def update(pair: tuple[Any, Any]) -> tuple[Any, Any]:
        old, fact = pair
        store.supersede(old.id, store.add(fact))
        return pair

    def forget(fact: Any) -> None:
        assert store.delete("user", SCOPE.id, fact=fact.fact) == 1

    def forget_both(pair: tuple[Any, Any]) -> None:
        for fact in pair:
            forget(fact)

    yield Subject(series["search"], lambda _: search.search(_QUERY, "user", SCOPE.id, top_k=_FOUND))
    yield Subject(
        series["add"], lambda fact: (store.add(fact), fact), before=new, after=lambda result: forget(result[1])
    )
    yield Subject(series["update"], update, before=lambda: (added(), new()), after=forget_both)
    yield Subject(series["forget"], forget, before=added)


class _Embedder:
    """Ours, in the SDK's form."""

    def __init__(self) -> None:
        self._embed = HashEmbedder(_DIMENSION)

    def embed(self, texts: list[str]) -> list[list[float]]:
        return self._embed(texts)
