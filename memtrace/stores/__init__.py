"""Where durable facts live."""

from memtrace.stores.contract import FactStore
from memtrace.stores.location import open_store
from memtrace.stores.sqlite import SqliteStore

__all__ = ["FactStore", "SqliteStore", "open_store"]
