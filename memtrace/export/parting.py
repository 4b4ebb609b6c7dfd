"""The end of a process does not wait long for a collector that does not answer.

An exporter of the SDK's may try for ten seconds with each batch, and there is one for spans, one for logs and one for
metrics. When the process ends, what is left is tried once and shortly, and given up at the first failure.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from typing import Any, Final

LAST_SECONDS: Final = 2.0
"""What the last export of a signal may take."""


REFUSED: Final = "REFUSED"
"""The result of an export that was not tried."""


class Parting:
    """An exporter that ``make`` makes with a time limit; when the process ends, one with a short limit instead.

    One that is ``refusing`` from the start, since it has nowhere to send to, is never asked.
    """

    def __init__(self, make: Callable[[float], Any], timeout: float, *, refusing: bool = False) -> None:
        self._make = make
        self._timeout = timeout
        self._exporter = make(timeout)
        self._parting = False
        self._refused: Any = REFUSED if refusing else None
        # A provider that was registered later flushes earlier: `export` looks for itself whether the process ends.
        atexit.register(self.part)

    def part(self) -> None:
        """The process ends: whatever is being tried again is given up."""
        if self._parting:
            return
        self._parting = True
        self._exporter.shutdown()
        self._exporter = self._make(min(self._timeout, LAST_SECONDS))

    def export(self, batch: Any, **options: Any) -> Any:
        """Hand on; once the process ends, only until that fails."""
        if not threading.main_thread().is_alive():
            self.part()
        if self._refused is not None:
            return self._refused
        result = self._exporter.export(batch, **options)
        if self._parting and result.name != "SUCCESS":
            self._refused = result
        return result

    def shutdown(self, **options: Any) -> None:
        """Shut the exporter down."""
        atexit.unregister(self.part)
        self._exporter.shutdown(**options)

    def __getattr__(self, name: str) -> Any:
        """What else the exporter has, such as a metric exporter's preferences."""
        return getattr(self._exporter, name)
