"""What reading a user's newest 50 facts costs: ``pytest benchmarks/test_store_reads.py``, each side by itself.

On every backend that this machine can provide: through the store, as the bare statement, and as a round trip. For
ratios use ``python -m benchmarks.stores``: there the sides take turns. Nothing is asserted of time. The stores that are
filled for it take about 3 GB.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from stores.backend import Backend, Filled
from stores.facts import SCOPE
from stores.run import BACKENDS, Plan, opened

from memtrace.harness.services import Unavailable

PLAN = Plan()


class Stores:
    """Filled stores of one backend, each made when it is first asked for."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._filled = cache(backend.filled)

    def filled(self, count: int, size: int) -> Filled:
        """The store with that many facts of that length."""
        return self._filled(count, size)


@pytest.fixture(scope="module", params=list(BACKENDS))
def stores(request: pytest.FixtureRequest) -> Iterator[Stores]:
    with ExitStack() as stack:
        try:
            backend = opened(request.param, stack)
        except Unavailable as missing:
            pytest.skip(str(missing))
        yield Stores(backend)


@pytest.mark.parametrize("size", PLAN.sizes)
@pytest.mark.parametrize("count", PLAN.counts)
def test_newest_50(benchmark: BenchmarkFixture, stores: Stores, count: int, size: int) -> None:
    benchmark.group = f"newest 50, facts of {size} characters: {stores.backend.name}"
    store = stores.filled(count, size).store
    assert len(benchmark(lambda: store.newest(SCOPE))) == 50


@pytest.mark.parametrize("size", PLAN.sizes)
@pytest.mark.parametrize("count", PLAN.counts)
def test_newest_50_as_the_bare_statement(benchmark: BenchmarkFixture, stores: Stores, count: int, size: int) -> None:
    benchmark.group = f"newest 50, facts of {size} characters: {stores.backend.name}"
    assert len(benchmark(stores.filled(count, size).bare)) == 50


def test_a_round_trip(benchmark: BenchmarkFixture, stores: Stores) -> None:
    benchmark.group = "a round trip"
    benchmark(stores.backend.round_trip())
