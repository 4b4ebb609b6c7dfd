"""fastaiagent, the published SDK that the page *How memory works* describes, where it is installed."""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any, Final

from .backend import LeftOut
from .facts import NEWEST

NAME: Final = "fastaiagent"
_LARGEST: Final = 40_000_000
"""Characters of all facts: beyond that filling takes minutes, for its SQLite file holds each fact twice."""


def sdk_version() -> str:
    """Which is installed, ``""`` for none."""
    try:
        return version(NAME)
    except PackageNotFoundError:
        return ""


def require_sdk() -> Any:
    """What of it is used here.

    Raises:
        LeftOut: it is not installed.
    """
    if find_spec(NAME) is None:
        raise LeftOut("it is not installed")
    learn, stores = import_module(f"{NAME}.learn"), import_module(f"{NAME}.learn.faststore")
    return SimpleNamespace(
        Fact=learn.Fact,
        MemoryStore=learn.MemoryStore,
        make_fact_store=stores.make_fact_store,
        SemanticFactStore=stores.SemanticFactStore,
        FaissVectorStore=import_module(f"{NAME}.kb.backends.faiss").FaissVectorStore,
    )


def require_fits(count: int, size: int) -> None:
    """Leave out what takes too long to fill.

    Raises:
        LeftOut: this does.
    """
    if count * size > _LARGEST:
        raise LeftOut("filling it takes minutes")


def require_holds(store: Any, count: int) -> Any:
    """The store, found to give the newest 50."""
    found = store.list_active("user", "alice", limit=NEWEST)
    assert len(found) == min(count, NEWEST)
    assert found[0].fact.startswith(f"Fact {count - 1} ")
    return store
