"""Threads for work that blocks, as many as there is such work at once."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, Full, LifoQueue
from typing import Final, TypeVar

T = TypeVar("T")
_MOST_IDLE: Final = 64


class Threads:
    """Work never waits for a thread: it runs in an idle one, or in a new one.

    With a limit, work that waits for other work, as a tool does that asks another agent, could take all threads and
    wait for ever. The interpreter waits for work that has begun before it exits. A forked child has threads of its own.
    """

    def __init__(self) -> None:
        self._start_anew()
        os.register_at_fork(after_in_child=self._start_anew)

    def _start_anew(self) -> None:
        self._idle: LifoQueue[ThreadPoolExecutor] = LifoQueue(_MOST_IDLE)  # of one thread each

    def start(self, work: Callable[[], T]) -> Future[T]:
        """Begin work in a thread; until it has begun, the future can be cancelled, and then it never does.

        Raises:
            RuntimeError: there can be no more threads, or the interpreter exits.
        """
        thread = self._take()
        return thread.submit(self._done, work, thread)

    def _done(self, work: Callable[[], T], thread: ThreadPoolExecutor) -> T:
        try:
            return work()
        finally:
            self._give_back(thread)

    def _take(self) -> ThreadPoolExecutor:
        try:
            return self._idle.get_nowait()
        except Empty:
            return ThreadPoolExecutor(1, "memtrace-turn")

    def _give_back(self, thread: ThreadPoolExecutor) -> None:
        try:
            self._idle.put_nowait(thread)
        except Full:
            thread.shutdown(wait=False)
