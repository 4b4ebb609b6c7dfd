"""From the words a person configures to a store."""

from __future__ import annotations

import os
import re
from typing import Final

from memtrace.errors import UsageError
from memtrace.stores.contract import FactStore
from memtrace.stores.sqlite import SqliteStore

_FORMS: Final = "give a path, :memory:, sqlite:///relative.db or sqlite:////absolute.db"
_SQLITE: Final = "sqlite:///"
_SERVERS: Final = frozenset({"postgres", "postgresql", "redis", "rediss"})


def open_store(location: str | os.PathLike[str]) -> FactStore:
    """The store at a path or URL: ``memory.db``, ``:memory:``, ``sqlite:///relative.db``, ``sqlite:////absolute.db``.

    What looks like another URL is refused, and not shown, for it may hold a password; ``./`` before it makes it a path.

    Raises:
        UsageError: the location is none of these.
        StoreError: the store cannot be opened.
    """
    place = os.fspath(location)
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):", place)
    return SqliteStore(_path_of(place, scheme[1].lower()) if scheme else place)


def _path_of(url: str, scheme: str) -> str:
    if scheme in _SERVERS:
        raise UsageError(f"{scheme}:// is not supported yet: {_FORMS}")
    if scheme != "sqlite":
        raise UsageError(f"{scheme}: names no store that memtrace knows: {_FORMS}")
    path = url[len(_SQLITE) :]
    if not url.lower().startswith(_SQLITE) or not path or "?" in path or "#" in path:
        raise UsageError(f"{url!r} is no SQLite URL, which has three slashes, a path and no options: {_FORMS}")
    return path
