"""How long turns take that begin at once, beside a control thread that shows whether the machine stood still."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from memtrace.harness.record.events import Timed
from memtrace.harness.stage import Running, Stage
from memtrace.model import Caller

_TICK: Final = 0.01


@contextmanager
def timing(stage: Stage) -> Iterator[Timing]:
    """Times the turns that are begun inside; they have ended when the block has."""
    with _ticking() as gaps:
        turns = Timing(stage)
        yield turns
        turns.finish(gaps)


class Timing:
    """Turns that are timed."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._begun: list[tuple[Running, float]] = []
        self._ended: dict[str, float] = {}

    def start(self, caller: Caller, text: str) -> Running:
        """Begin a turn, beside the others."""
        began = time.perf_counter()
        running = self._stage.start(caller, text)
        running.when_over(lambda: self._ended.setdefault(running.turn, time.perf_counter()))
        self._begun.append((running, began))
        return running

    def finish(self, gaps: list[float]) -> None:
        """Wait for all, and record how long each took."""
        for running, _ in self._begun:
            running.result()
        for running, began in self._begun:
            seconds = self._ended.get(running.turn, time.perf_counter()) - began
            self._stage.recorder.add(Timed, turn=running.turn, seconds=seconds, stalled=max(gaps, default=0.0))


@contextmanager
def _ticking() -> Iterator[list[float]]:
    """The times that a thread waited longer than it wanted to, in seconds."""
    gaps: list[float] = []
    over = threading.Event()

    def tick() -> None:
        last = time.perf_counter()
        while not over.wait(_TICK):
            now = time.perf_counter()
            gaps.append(now - last - _TICK)
            last = now

    thread = threading.Thread(target=tick, daemon=True, name="control ticker")
    thread.start()
    try:
        yield gaps
    finally:
        over.set()
        thread.join()
