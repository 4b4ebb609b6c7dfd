"""Between whatever callers do, in whatever order: scripts that nobody wrote."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from memtrace.harness.random_scripts import Explorer, decode
from memtrace.harness.record.keeping import keep
from memtrace.harness.session import Suite
from memtrace.harness.verdicts.ledger import Entry

BATCH = 20
"""Random scripts a test, so that several processes can share them."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    count = 1 if metafunc.config.getoption("script") else metafunc.config.getoption("scripts")
    batches = [(first, min(BATCH, count + 1 - first)) for first in range(1, count + 1, BATCH)]
    metafunc.parametrize(("first", "count"), batches, ids=[f"{first}-{first + n - 1}" for first, n in batches])


@pytest.fixture(scope="session")
def explorer(memtrace_suite: Suite, pytestconfig: pytest.Config) -> Explorer:
    full, directory = pytestconfig.getoption("full_evidence"), pytestconfig.getoption("history")
    kept = (lambda history, name: keep(history, Path(directory), f"{__file__}::{name}")) if directory else None
    return Explorer(memtrace_suite, __name__, full=full, keep=kept)


@pytest.mark.invariants
def test_no_random_script_breaks_an_invariant(
    explorer: Explorer, memtrace_findings: Callable[[Sequence[Entry]], None], pytestconfig: pytest.Config,
    first: int, count: int,
) -> None:  # fmt: skip
    if code := pytestconfig.getoption("script"):
        found = [explorer.play(decode(code), "random script")]
    else:
        found = explorer.explore(count, seed=pytestconfig.getoption("scripts_seed"), first=first)
    memtrace_findings([entry for one in found for entry in one.entries])
    if complaints := [complaint for one in found for complaint in one.complaints()]:
        pytest.fail("\n".join(complaints), pytrace=False)
