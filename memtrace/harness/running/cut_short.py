"""A process that is killed in the middle of a call, at a step that was chosen.

A step is a call by which Python code reads or writes something outside of the process: a file, a socket, a database.
What a crash can leave behind changes with these alone, so counting them reaches every moment that matters, and the same
one each time.
"""

from __future__ import annotations

import inspect
import io
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

_STEPS: Final = frozenset(
    {
        "__exit__", "close", "commit", "execute", "executemany", "executescript", "fdatasync", "flush", "fsync",
        "ftruncate", "link", "open", "remove", "rename", "replace", "rmdir", "send", "sendall", "sendmsg", "truncate",
        "unlink", "write", "writelines",
    }
)  # fmt: skip
_NO_STEPS_OF: Final = (
    str, bytes, bytearray, dict, list, io.StringIO, io.BytesIO, type(threading.Lock()), type(threading.RLock()),
)  # fmt: skip
"""What has methods of these names, and does nothing outside of the process."""


class Steps:
    """Counts the steps taken while the ``with`` block lasts, on its thread and those begun in it.

    The process ends by SIGKILL right after step ``last``; 0 is never.
    """

    def __init__(self, last: int = 0) -> None:
        self.taken = 0
        self._last = last
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        threading.setprofile(self._event)
        sys.setprofile(self._event)

    def __exit__(self, *_error: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _event(self, _frame: Any, event: str, called: Any) -> None:
        if event == "c_return" and _is_step(called):
            with self._lock:
                self.taken += 1
                if self.taken == self._last:
                    os.kill(os.getpid(), signal.SIGKILL)


def _is_step(called: Any) -> bool:
    return getattr(called, "__name__", "") in _STEPS and not isinstance(getattr(called, "__self__", ""), _NO_STEPS_OF)


class Watched:
    """A system whose methods' steps are counted."""

    def __init__(self, system: Any, steps: Steps) -> None:
        self._system = system
        self._steps = steps

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._system, name)
        if inspect.iscoroutinefunction(value):
            return self._awaited(value)
        return self._called(value) if inspect.ismethod(value) else value

    def _called(self, method: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **options: Any) -> Any:
            with self._steps:
                return method(*args, **options)

        return counted

    def _awaited(self, method: Callable[..., Any]) -> Callable[..., Any]:
        async def counted(*args: Any, **options: Any) -> Any:
            with self._steps:
                return await method(*args, **options)

        return counted
