"""The fact store contract as tests, for any store; needs pytest.

::

    from memtrace.stores.conformance import FactStoreContract

    class TestMyStore(FactStoreContract):
        @pytest.fixture
        def store(self):
            store = MyStore(URL)
            yield store
            store.close()

        @pytest.fixture
        def reopen(self):
            return lambda: MyStore(URL)

``store`` gives an open `FactStore`. It need not be empty: each test files its facts under projects of its own.
``reopen`` gives a function that opens the same data as another process would; the tests of restarts, forks and kills
are skipped without it, and those of vectors where `FactStore.vectors` is ``None``. Call
``pytest.register_assert_rewrite("memtrace.stores.conformance")`` before the import to see the values in a failed
assertion.
"""

from __future__ import annotations

from uuid import uuid4

import pytest

from memtrace.model import Level, Scope
from memtrace.stores.conformance.changing import Changing
from memtrace.stores.conformance.keeping import Keeping
from memtrace.stores.conformance.ordering import Ordering
from memtrace.stores.conformance.removing import Removing
from memtrace.stores.conformance.searching import Searching
from memtrace.stores.conformance.separating import Separating
from memtrace.stores.conformance.sharing import Reopen, Sharing
from memtrace.stores.contract import FactStore
from memtrace.stores.vectors import FactVectors

__all__ = ["FactStoreContract", "Reopen"]


class FactStoreContract(Keeping, Ordering, Separating, Changing, Removing, Sharing, Searching):
    """Subclass it with a ``store`` fixture, and with a ``reopen`` fixture where the data can be opened twice."""

    @pytest.fixture
    def reopen(self) -> Reopen:
        """Opens the same data again."""
        pytest.skip("no `reopen` fixture: it gives a function that opens the same data as another process would")

    @pytest.fixture
    def vectors(self, store: FactStore) -> FactVectors:
        """The store's place for vectors."""
        return store.vectors() or pytest.skip("this store keeps no vectors, and need not")

    @pytest.fixture
    def scope(self) -> Scope:
        """A user whom no other test knows."""
        return Scope(Level.USER, "alice", f"test-{uuid4()}")
