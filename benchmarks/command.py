"""What the benchmarks' command lines share: one that cannot go on ends with one line, and with memtrace's status 4."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Final

from memtrace.errors import MemtraceError, UsageError

_INTERRUPTED: Final = 2
_MISUSE: Final = 4


def ended(name: str, main: Callable[[], None]) -> int:
    """Do it; the exit status, with a line on what is wrong and what to do about it where it was not done."""
    try:
        main()
    except MemtraceError as error:
        sys.stderr.write(f"{name}: {error}\n")
        return _MISUSE
    except KeyboardInterrupt:
        sys.stderr.write(f"{name}: interrupted\n")
        return _INTERRUPTED
    return 0


def require_installed(**extras: str) -> None:
    """Modules, each with the extra that installs it.

    Raises:
        UsageError: one is not there.
    """
    for module, extra in extras.items():
        if find_spec(module) is None:
            raise UsageError(f"{module} is not installed: pip install -e '.[{extra}]' in the clone")
