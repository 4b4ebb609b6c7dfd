"""What a plane costs that takes every question and answers none: ``python -m benchmarks.plane_outage``.

Turns of many users run on one event loop, without a plane and with a black-holed one. One turn in each retry interval
may pay the deadline; all others must cost at most 1.2 times a turn without a plane, and the loop must never stop: a
control ticker on it shows the longest time that it did. Exit status 1 where one of that does not hold.
"""

from __future__ import annotations

import asyncio
import logging
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import AsyncGenerator, Generator, Sequence
from pathlib import Path

from memtrace.harness.plane.front import Answer
from memtrace.harness.plane.line import Line
from memtrace.identity import IdKeyWarning
from memtrace.model import Message
from memtrace.plane import PlaneFacts
from memtrace.reference import Agent, Completion, Memory, ToolSpec

TIMEOUT, RETRY, SECONDS, USERS, AT_ONCE = 0.5, 2.0, 9.0, 100, 2
MOST_RATIO, MOST_STALL = 1.2, TIMEOUT / 2


class Instant:
    """A model that answers at once, so that memory is what is measured."""

    name = "instant"

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> Completion:  # noqa: ARG002
        """At once."""
        return Completion("Noted.")

    async def acomplete(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> Completion:
        """At once."""
        return self.complete(messages, tools)

    def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Generator[str | Completion, None, None]:
        """At once."""
        yield self.complete(messages, tools)

    async def astream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> AsyncGenerator[str | Completion, None]:
        """At once."""
        yield self.complete(messages, tools)


async def turns(agent: Agent, seconds: float) -> tuple[list[float], float]:
    """The seconds that each turn took, and the longest that the loop stood still."""
    took: list[float] = []
    until = time.perf_counter() + seconds
    ticker = asyncio.create_task(_ticks(until))

    async def one_after_the_other(start: int) -> None:
        user = start
        while time.perf_counter() < until:
            began = time.perf_counter()
            await agent.arun("When do you close?", context=f"user-{user % USERS}")
            took.append(time.perf_counter() - began)
            user += AT_ONCE

    await asyncio.gather(*(one_after_the_other(lane) for lane in range(AT_ONCE)))
    return took, await ticker


async def _ticks(until: float) -> float:
    longest, last = 0.0, time.perf_counter()
    while last < until:
        await asyncio.sleep(0.005)
        now = time.perf_counter()
        longest, last = max(longest, now - last - 0.005), now
    return longest


def measured(directory: Path, plane: PlaneFacts | None, seconds: float) -> tuple[list[float], float]:
    """Turns on a fresh memory."""
    memory = Memory(location=directory / "memory.db", user_id=str, agent_id="shop", plane=plane, window=4)
    try:
        return asyncio.run(turns(Agent("shop", Instant(), memory), seconds))
    finally:
        memory.close()


def main() -> int:
    """Measure, print, compare."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore", IdKeyWarning)
    line = Line(lambda _: Answer(200, {}, b'{"facts": []}'), lambda _asked, _status: None)
    line.fault("black hole")
    with (
        tempfile.TemporaryDirectory() as one,
        tempfile.TemporaryDirectory() as other,
        tempfile.TemporaryDirectory() as w,
    ):
        measured(Path(w), None, 0.5)
        without, stall_without = measured(Path(one), None, SECONDS / 3)
        plane = PlaneFacts(line.url, "key", timeout=TIMEOUT, retry_after=RETRY)
        with_it, stall = measured(Path(other), plane, SECONDS)
    line.close()
    paid = [seconds for seconds in with_it if seconds >= TIMEOUT / 2]
    others = [seconds for seconds in with_it if seconds < TIMEOUT / 2]
    allowed = int(SECONDS / (RETRY + TIMEOUT)) + 1
    ratio = statistics.median(others) / statistics.median(without)
    print(f"{'':34}{'turns':>8}{'p50 ms':>10}{'p99 ms':>10}{'longest ms':>12}{'loop stood ms':>15}")
    for name, took, stood in (
        ("without a plane", without, stall_without),
        ("black-holed plane, others", others, stall),
    ):
        p50, p99 = statistics.median(took), statistics.quantiles(took, n=100)[98]
        numbers = f"{len(took):>8}{p50 * 1e3:>10.2f}{p99 * 1e3:>10.2f}{max(took) * 1e3:>12.1f}{stood * 1e3:>15.1f}"
        print(f"{name:34}{numbers}")
    print(f"turns that paid: {len(paid)} of at most {allowed}, the longest {max(paid, default=0):.2f} s of {TIMEOUT} s")
    print(f"others / without: {ratio:.2f} (at most {MOST_RATIO})")
    good = 0 < len(paid) <= allowed and max(paid) < TIMEOUT * 1.2 and ratio <= MOST_RATIO and stall < MOST_STALL
    print("held" if good else "not held")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
