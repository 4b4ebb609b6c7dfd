"""The pairs of `overhead`, each side under pytest-benchmark: ``pytest benchmarks/test_overhead.py --benchmark-only``.

For ratios use ``python -m benchmarks.overhead``: there the two sides take turns. Nothing is asserted of time.
"""

from __future__ import annotations

import pytest
from overhead import Call, pairs
from pytest_benchmark.fixture import BenchmarkFixture

SIDES = [
    pytest.param(call, pair.name, id=f"{pair.name}: {side}")
    for pair in pairs()
    for side, call in (("plain", pair.plain), ("memtrace", pair.ours))
]


@pytest.mark.parametrize(("call", "name"), SIDES)
def test_overhead(benchmark: BenchmarkFixture, call: Call, name: str) -> None:
    benchmark.group = name
    benchmark(call)
