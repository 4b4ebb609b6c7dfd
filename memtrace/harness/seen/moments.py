"""Which events happened at one moment: the clock stood still meanwhile."""

from __future__ import annotations

from typing import Final

from memtrace.harness.record.events import Noted
from memtrace.harness.record.history import History

STOPPED: Final = "the clock stands still"
GOES: Final = "the clock goes on"
"""What is noted where it is stopped, and where it is started again."""


def moment(history: History, at: int) -> int:
    """When an event happened, alike for all that happened while the clock stood still."""
    clock = [event for event in history.of(Noted) if event.name in (STOPPED, GOES) and event.at < at]
    return clock[-1].at if clock and clock[-1].name == STOPPED else at
