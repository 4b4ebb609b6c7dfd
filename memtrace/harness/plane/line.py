"""The line to a plane: a network that can fail, and behind it a front that records and can answer amiss."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from memtrace.harness.faults.proxy import FaultProxy
from memtrace.harness.plane.faults import ANSWERS, NETWORK
from memtrace.harness.plane.front import Asked, Front, Plane


class Line:
    """A line to a plane, without a fault at first.

    Args:
        plane: what answers.
        seen: told of each request that arrives, with the status that it is answered; 0 where no whole answer is.

    Attributes:
        url: where a client finds the plane.
        failing: the fault that it has now.
    """

    def __init__(self, plane: Plane, seen: Callable[[Asked, int], object]) -> None:
        self.failing = ""
        self._seen = seen
        self._ends = ExitStack()
        self._front = Front(plane, self._arrived)
        self._ends.callback(self._front.close)
        self._network = self._ends.enter_context(FaultProxy(self._front.url))
        self.url = self._network.url(self._front.url)

    def fault(self, name: str = "", **details: Any) -> None:
        """From now on this fault of `FAULTS`, or none; connections that were open are reset, so that it concerns all.

        Raises:
            KeyError: there is no such fault.
        """
        answering = ANSWERS[name](**details) if name and name not in NETWORK else None
        self._network.reset()
        self.failing = name
        self._front.fault(answering)
        self._network.pass_through()
        if name in NETWORK:
            NETWORK[name](self._network)

    def close(self) -> None:
        """Let it go; once is enough."""
        self._ends.close()

    def _arrived(self, asked: Asked, status: int) -> None:
        self._seen(asked, 0 if self.failing in NETWORK else status)
