"""Other hours than those that pass here: a clock that stands still, and the time of day elsewhere."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from memtrace.harness.seen.moments import GOES, STOPPED

if TYPE_CHECKING:
    from memtrace.harness.stage import Stage

FARTHEST: Final = ("UTC-14", "UTC+12")
"""Two time zones, as ``TZ`` has them: in the first it is latest, in the second, 26 hours behind it, earliest."""


@contextmanager
def at_one_moment(stage: Stage) -> Iterator[None]:
    """Everything in the block happens at one time of the environment's clock."""
    stage.note(STOPPED)
    stage.callbacks.stop_clock()
    try:
        yield
    finally:
        stage.callbacks.start_clock()
        stage.note(GOES)


@contextmanager
def in_time_zone(name: str) -> Iterator[None]:
    """Move this process elsewhere; on a platform that cannot be told so (Windows) it stays where it is."""
    before = os.environ.get("TZ")
    _move_to(name)
    try:
        yield
    finally:
        _move_to(before)


def _move_to(zone: str | None) -> None:
    if not hasattr(time, "tzset"):
        return
    if zone is None:
        os.environ.pop("TZ", None)
    else:
        os.environ["TZ"] = zone
    time.tzset()
