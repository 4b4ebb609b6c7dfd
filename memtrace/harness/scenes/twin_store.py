"""A second store to compare the first with: a SQLite file, where the memory takes one."""

from __future__ import annotations

from memtrace.errors import AdapterError
from memtrace.harness.record.events import FactWritten
from memtrace.harness.stage import NotExercised, Stage


def demand_taken(stage: Stage, url: str) -> None:
    """See that the memory opens a store and keeps a fact in it, and leave it there as it was.

    Raises:
        NotExercised: it does not: there is nothing to compare.
    """
    home = stage.environment().store_url
    stage.reopen_at(url)
    try:
        stage.add(stage.caller(), f"Their desk is number {stage.canary()}.")
        why = next((event.error for event in stage.history().of(FactWritten)), "")
    except AdapterError as refused:
        why = str(refused)
    finally:
        stage.reopen_at(home)
    if why:
        raise NotExercised(f"the memory takes no SQLite file to compare this store with ({' '.join(why.split())})")
