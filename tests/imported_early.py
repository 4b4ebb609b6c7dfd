"""A system whose module may be imported before second processes are forked."""

from __future__ import annotations

import os
from typing import Final

from memtrace.broken.tiny import TinyMemory
from memtrace.model import Caller

IMPORTED_BEFORE_FORKS: Final = (__name__, "no_such_module")
_IMPORTED_BY: Final = os.getpid()


class TellsWhoImportedIt(TinyMemory):
    """Answers a search with the process that imported this module, and the one it is asked in."""

    def search(self, caller: Caller, query: str) -> list[str]:
        return [str(_IMPORTED_BY), str(os.getpid())]
