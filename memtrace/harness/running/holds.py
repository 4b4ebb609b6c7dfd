"""Holding a callback until the script lets it go: how interleavings are chosen instead of hoped for."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal

from memtrace.harness.record.events import Held
from memtrace.harness.record.recorder import Recorder

Point = Literal["model", "memory", "embed", "tool", "guard", "resolve", "after_run"]
"""Where a turn can be held: the answer model, the memory model, the embedder, the tool body, the guardrail, the
resolver, the step after the answer."""

_REACH_SECONDS: Final = 2.0
"""How long a script waits for something to come to a hold; a lawful system may serialise and never come."""
_LONGEST_SECONDS: Final = 20.0
"""A hold that nobody releases lets go by itself, so that no script can hang."""


class Hold:
    """One place where the next matching callback waits. Made by `Holds.hold`."""

    def __init__(self, point: Point, turn: str) -> None:
        self.point = point
        self.turn = turn
        self._came = threading.Event()
        self._go = threading.Event()

    def reached(self, within: float = _REACH_SECONDS) -> bool:
        """Whether something waits here; waits for it a bounded time."""
        return self._came.wait(within)

    def release(self) -> None:
        """Let it go on."""
        self._go.set()

    def _stop_here(self) -> None:
        self._came.set()
        self._go.wait(_LONGEST_SECONDS)


class Holds:
    """The holds of one script."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._waiting: list[Hold] = []
        self._active = 0
        self._lock = threading.Lock()

    @contextmanager
    def hold(self, point: Point, turn: str = "") -> Iterator[Hold]:
        """The next callback at ``point`` (of one turn, or any) waits; released at the end at the latest."""
        hold = Hold(point, turn)
        with self._lock:
            self._waiting.append(hold)
            self._active += 1
        try:
            yield hold
        finally:
            hold.release()
            with self._lock:
                self._active -= 1
                if hold in self._waiting:
                    self._waiting.remove(hold)
            self._recorder.add(Held, point=point, turn=turn, reached=hold.reached(0))

    def any(self) -> bool:
        """Whether some hold has not been left yet."""
        with self._lock:
            return bool(self._active)

    def pass_by(self, point: Point, turn: str) -> None:
        """Called at a callback: wait here if a hold says so."""
        with self._lock:
            hold = next((h for h in self._waiting if h.point == point and h.turn in ("", turn)), None)
            if hold is not None:
                self._waiting.remove(hold)
        if hold is not None:
            hold._stop_here()  # noqa: SLF001  the two classes are one mechanism

    def release_all(self) -> None:
        """Nobody waits any more."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for hold in waiting:
            hold.release()
