"""Doing things at once: in two processes, or beside a turn that is held."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Final

from memtrace.harness.running.holds import Hold

_PATIENCE: Final = 0.5
"""Seconds to wait for what is done beside a held turn; a lawful system may let it wait for that turn's end."""


def at_once(*acts: Callable[[], object]) -> None:
    """Do all of these at the same time, each on a thread of its own, and wait for them."""
    with ThreadPoolExecutor(len(acts)) as threads:
        doing = [threads.submit(act) for act in acts]
    for done in doing:
        done.result()


def meanwhile(held: Hold, act: Callable[[], object]) -> None:
    """Do something while a turn is held, and then let the turn go; before, where the system lets it wait."""
    held.reached(_PATIENCE)
    with ThreadPoolExecutor(1) as thread:
        doing = thread.submit(act)
        wait([doing], _PATIENCE)
        held.release()
    doing.result()
