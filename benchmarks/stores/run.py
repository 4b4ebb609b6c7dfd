"""One run: stores are filled, everything is timed in turns, and what comes of it is judged against the targets."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from importlib import import_module
from time import monotonic
from typing import Any, Final

from memtrace.errors import UsageError
from memtrace.harness.services import Unavailable

from . import operations
from .backend import Backend, Filled, LeftOut
from .facts import SCOPE
from .machine import machine
from .measure import Samples, Series, Subject, merged, sample
from .peer import NAME, require_holds, sdk_version

BACKENDS: Final = {"sqlite": "Sqlite", "postgres": "Postgres", "redis": "Redis"}
READ: Final = "newest 50"
ROUND_TRIP: Final = "round trip"
BARE: Final = "bare statement"
OURS: Final = "memtrace"


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured: reads of so many facts of such lengths, and operations beside so many of the first length."""

    counts: Sequence[int] = (50, 500, 5_000, 100_000)
    sizes: Sequence[int] = (100, 8_000)
    operated: Sequence[int] = (50, 500, 5_000)
    rounds: int = 100
    calls: int = 10
    operation_rounds: int = 20
    operation_calls: int = 5
    judges: bool = True
    """Whether that is enough to hold the ratios to their targets."""


QUICK: Final = Plan(
    counts=(50, 200), sizes=(100, 3_000), operated=(50,), rounds=3, calls=2, operation_rounds=2, operation_calls=1,
    judges=False,
)  # fmt: skip


@dataclass(slots=True)
class Results:
    """What a run found, and on what."""

    machine: dict[str, Any]
    plan: Plan
    samples: dict[Series, Samples]
    left_out: list[str] = field(default_factory=list)


def run(names: Sequence[str], plan: Plan, *, tell: Callable[[str], object] = lambda _line: None) -> Results:
    """Measure these backends in one run.

    Raises:
        UsageError: none of them is to be had.
    """
    began = monotonic()
    left_out: list[str] = []
    with ExitStack() as stack:
        backends = list(_opened(names, stack, left_out))
        facts = machine({backend.name: backend.about for backend in backends})
        reads, work = _filled(backends, plan, left_out, tell)
        tell(f"{monotonic() - began:.0f} s: reading")
        found = [sample(reads, rounds=plan.rounds, calls=plan.calls)]
        tell(f"{monotonic() - began:.0f} s: searching, adding, updating, forgetting")
        found.append(sample(work, rounds=plan.operation_rounds, calls=plan.operation_calls))
        tell(f"{monotonic() - began:.0f} s: removing what was filled")
    return Results(facts | {"seconds": round(monotonic() - began)}, plan, merged(found), left_out)


def opened(name: str, stack: ExitStack) -> Backend:
    """The backend of this name; its driver and its server are looked for only now.

    Raises:
        Unavailable: this machine has none.
    """
    try:
        module = import_module(f".on_{name}", __package__)
    except ModuleNotFoundError as missing:
        reason = f"{missing.name} is not installed: pip install -e '.[{name}]' in the clone"
        raise Unavailable(name, [reason]) from missing
    made: Backend = getattr(module, BACKENDS[name])(stack)
    return made


def _opened(names: Sequence[str], stack: ExitStack, left_out: list[str]) -> Iterator[Backend]:
    missing = []
    for name in names:
        try:
            yield opened(name, stack)
        except Unavailable as unavailable:
            missing.append(f"{name}: {'; '.join(unavailable.reasons)}")
    left_out += missing
    if len(missing) == len(names):
        raise UsageError(f"nothing to measure: {', '.join(missing)}")


def _filled(
    backends: Sequence[Backend], plan: Plan, left_out: list[str], tell: Callable[[str], object]
) -> tuple[list[Subject], list[Subject]]:
    """The reads and the other operations, on stores that are filled for them."""
    reads: list[Subject] = []
    work: list[Subject] = []
    has_peer = bool(sdk_version())
    if not has_peer:
        left_out.append(f"{NAME}, and the ratios to it: it is not installed")
    for backend in backends:
        trip = backend.round_trip()
        reads.append(Subject(Series(backend.name, ROUND_TRIP, READ, 0, 0), _plainly(trip)))
        for size in plan.sizes:
            for count in plan.counts:
                operated = size == plan.sizes[0] and count in plan.operated
                tell(f"filling {backend.name} with {count:,} facts of {size:,} characters")
                filled = backend.filled(count, size)
                reads += _reads(backend.name, filled, count, size)
                work += operations.ours(backend.name, filled.store, count, size) if operated else ()
                if not has_peer:
                    continue
                try:
                    peer = require_holds(backend.peer(count, size), count)
                except LeftOut as reason:
                    left_out.append(f"{NAME}, {backend.name}, {count:,} facts of {size:,} characters: {reason}")
                    continue
                reads.append(Subject(Series(backend.name, NAME, READ, count, size), _peer_read(peer)))
                work += operations.peers(backend.name, peer, count, size) if operated else ()
    return reads, work


def _reads(name: str, filled: Filled, count: int, size: int) -> Iterator[Subject]:
    store = filled.store
    yield Subject(Series(name, OURS, READ, count, size), lambda _: store.newest(SCOPE))
    yield Subject(Series(name, BARE, READ, count, size), _plainly(filled.bare))


def _plainly(call: Callable[[], Any]) -> Callable[[Any], Any]:
    return lambda _: call()


def _peer_read(store: Any) -> Callable[[Any], Any]:
    return lambda _: store.list_active("user", "alice", limit=50)


def progress(line: str) -> None:
    """Tell a person how far it is."""
    sys.stderr.write(f"{line}\n")
