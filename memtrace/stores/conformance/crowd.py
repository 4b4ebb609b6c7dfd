"""Many at once: threads, forked children, and one that is killed."""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn, TypeVar

T = TypeVar("T")

_SECONDS_TO_LIVE = 60
"""A child that hangs ends itself, so that its parent does not hang too."""


def in_threads(count: int, work: Callable[[int], T]) -> list[T]:
    """What ``work(number)`` returned in each of so many threads that start it at the same time."""
    start = threading.Barrier(count)

    def begin(number: int) -> T:
        start.wait()
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count)))


def in_children(count: int, work: Callable[[int], object]) -> list[int]:
    """The exit codes of so many forked children that ran ``work(number)``: 0, or 1 where it raised."""
    children = [_fork(work, number) for number in range(count)]
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def killed_at_work(
    work: Callable[[Callable[[int], None]], NoReturn], *, after: int, also: Callable[[], object] = lambda: None
) -> list[int]:
    """What a forked child told before it was killed, which was once it had told ``after`` numbers.

    ``work`` is given the function that tells a number, and goes on until it is killed. ``also`` is called right after
    the kill: what it kills may still be at the work's last wish.
    """
    reading, writing = os.pipe()
    child = _fork(lambda _: work(lambda number: _tell(writing, number)), 0)
    os.close(writing)
    with os.fdopen(reading) as lines:
        told = [int(line) for _, line in zip(range(after), lines, strict=False)]
        os.kill(child, signal.SIGKILL)
        also()
        told += [int(line) for line in lines]
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == -signal.SIGKILL, f"the writer ended by itself, with {code}"
    return told


def _tell(pipe: int, number: int) -> None:
    os.write(pipe, f"{number}\n".encode())


def _fork(work: Callable[[int], object], number: int) -> int:
    with warnings.catch_warnings():
        # A driver may keep threads of its own; a store that promises to work after a fork has to cope with them.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        _work_and_exit(work, number)
    return child


def _work_and_exit(work: Callable[[int], object], number: int) -> NoReturn:
    code = 1
    try:
        signal.alarm(_SECONDS_TO_LIVE)
        work(number)
        code = 0
    except BaseException:  # noqa: BLE001  a child must not return into its parent's test
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)
