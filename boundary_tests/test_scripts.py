"""Between whatever callers do, in whatever order: scripts that nobody wrote."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from memtrace.harness.ledger import Entry
from memtrace.harness.random_scripts import Explorer, decode
from memtrace.harness.session import Suite

BATCH = 20
"""Random scripts a test: so that several processes can share them."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    count = metafunc.config.getoption("scripts")
    starts = range(1, count + 1, BATCH)
    batches = [(start, min(BATCH, count + 1 - start)) for start in starts]
    if metafunc.config.getoption("script"):
        batches = [(1, 1)]
    metafunc.parametrize(("first", "count"), batches, ids=[f"{first}-{first + n - 1}" for first, n in batches])


@pytest.mark.invariants
def test_no_random_script_breaks_an_invariant(
    memtrace_suite: Suite, memtrace_findings: Callable[[Sequence[Entry]], None], pytestconfig: pytest.Config,
    first: int, count: int,
) -> None:
    explorer = Explorer(memtrace_suite, __name__, full=pytestconfig.getoption("full_evidence"))
    if given := pytestconfig.getoption("script"):
        found = [explorer.play(decode(given))]
    else:
        found = explorer.explore(count, seed=pytestconfig.getoption("scripts_seed"), first=first)
    memtrace_findings([entry for one in found for entry in one.entries])
    assert not {rule for one in found for rule in one.broken()}, "see the rules below"
    assert not [one.astray for one in found if one.astray]
