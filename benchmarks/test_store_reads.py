"""What reading a user's newest 50 facts costs: ``pytest benchmarks/test_store_reads.py``.

The store beside the bare statement on a bare connection, many stored facts beside few, and fastaiagent's store beside
ours where it is installed. Both sides take turns in one run, in CPU time of the thread, and their ratios are printed.
Nothing is asserted of time. The files take about 900 MB.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest
from overhead import Call, Pair, compare
from pytest_benchmark.fixture import BenchmarkFixture

from memtrace.model import Level, Scope
from memtrace.stores import SqliteStore

SCOPE = Scope(Level.USER, "alice")
COUNTS = (50, 500, 5_000, 100_000)
SIZES = (100, 8_000)
PEER_COUNT = 5_000

NEWEST = """
    SELECT fact, id, confidence, source, source_trace_id, source_span_id, created_at, superseded_by FROM learned_memory
    WHERE project_id = '' AND scope = 'user' AND scope_id = 'alice' AND superseded_by IS NULL
    ORDER BY created_at DESC, id DESC LIMIT 50
"""
FILL = """
    INSERT INTO learned_memory (
        project_id, scope, scope_id, fact, fact_sha256, confidence, source, source_trace_id, source_span_id, created_at
    ) VALUES ('', 'user', 'alice', :fact, :digest, 0.6, 'learned', :trace, :span, :at)
"""
FILL_PEER = """
    INSERT INTO learned_memory (project_id, scope, scope_id, fact, confidence, source, source_trace_id, created_at)
    VALUES ('', 'user', 'alice', :fact, 0.6, 'learned', :trace, :at)
"""


class Reads:
    """The same read in several ways, on files that are made when they are first read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open: list[SqliteStore | sqlite3.Connection] = []
        self._file = cache(self._filled)

    def ours(self, count: int, size: int) -> Call:
        """Through the store."""
        store = SqliteStore(self._file(count, size))
        self._open.append(store)
        return lambda: store.newest(SCOPE)

    def bare(self, count: int, size: int) -> Call:
        """The same statement on a bare connection."""
        connection = sqlite3.connect(self._file(count, size))
        self._open.append(connection)
        return lambda: connection.execute(NEWEST).fetchall()

    def peer(self, count: int, size: int) -> Call:
        """Through fastaiagent's store."""
        from fastaiagent.learn import MemoryStore  # heavy, and not always there

        file = self._folder / f"peer-{count}-{size}.db"
        store = MemoryStore(str(file))
        store.list_active("user", "alice")
        _fill(file, FILL_PEER, count, size)
        return lambda: store.list_active("user", "alice", limit=50)

    def close(self) -> None:
        """Close all files."""
        for each in self._open:
            each.close()

    def _filled(self, count: int, size: int) -> Path:
        file = self._folder / f"{count}-{size}.db"
        SqliteStore(file).close()
        _fill(file, FILL, count, size)
        return file


def _fill(file: Path, statement: str, count: int, size: int) -> None:
    facts = (f"Fact {number} about Alice. ".ljust(size, "x") for number in range(count))
    rows = (
        {
            "fact": fact,
            "digest": hashlib.sha256(fact.encode()).digest(),
            "trace": f"{number:032x}",
            "span": f"{number:016x}",
            "at": 1.7e9 + number,
        }
        for number, fact in enumerate(facts)
    )
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.executemany(statement, rows)


@pytest.fixture(scope="module")
def reads(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reads]:
    reads = Reads(tmp_path_factory.mktemp("reads"))
    yield reads
    reads.close()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", COUNTS)
def test_newest_50(benchmark: BenchmarkFixture, reads: Reads, count: int, size: int) -> None:
    benchmark.group = f"newest 50, facts of {size} characters"
    assert len(benchmark(reads.ours(count, size))) == 50


def test_ratios(reads: Reads, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n{'newest 50 of':<44}{'this':>9}{'that':>12}{'that / this':>13}")
        for pair in _pairs(reads):
            this, that, ratio = compare(pair, rounds=100)
            print(
                f"{pair.name:<44}{this / 1000:>6.1f} µs{that / 1000:>9.1f} µs{ratio:>11.2f} x  target <= {pair.ratio}"
            )


def _pairs(reads: Reads) -> Iterator[Pair]:
    for size in SIZES:
        for count in COUNTS:
            name = f"{count:,} of {size} characters: bare, ours"
            yield Pair(name, reads.bare(count, size), reads.ours(count, size), ratio=1.5)
        few, many = COUNTS[0], COUNTS[-1]
        name = f"{few}, {many:,} of {size} characters: ours"
        yield Pair(name, reads.ours(few, size), reads.ours(many, size), ratio=1.1)
    if importlib.util.find_spec("fastaiagent"):
        count, size = PEER_COUNT, SIZES[0]
        name = f"{count:,} of {size} characters: fastaiagent, ours"
        yield Pair(name, reads.peer(count, size), reads.ours(count, size), ratio=0.1)
