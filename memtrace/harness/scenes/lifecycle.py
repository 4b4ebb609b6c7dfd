"""What a prompt must say of its user, as their facts come and go."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from memtrace.harness.stage import OK_OR_REFUSED, Stage
from memtrace.model import Caller

LIFECYCLE: Final = "backends.lifecycle"
ALONE: Final = MappingProxyType({"learn": False, "window": 0})
"""Options with which what is in a prompt comes from the store."""
ASKS: Final = "What do you know of me?"


def expect_known(stage: Stage, caller: Caller, *, has: tuple[str, ...], lacks: tuple[str, ...]) -> None:
    """Let a caller ask; their prompt must hold these words, and none of those."""
    asked = stage.turn(caller, ASKS, expect=OK_OR_REFUSED)
    for word in has:
        stage.expect(LIFECYCLE, asked, word, why="it is stored")
    for word in lacks:
        stage.expect(LIFECYCLE, asked, word, times="none", why="it is not theirs, or not any more")
