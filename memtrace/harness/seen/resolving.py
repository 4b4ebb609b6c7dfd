"""Turns during which the context of the run began to name somebody else."""

from __future__ import annotations

from functools import lru_cache

from memtrace.harness.record.events import Noted, TurnStarted
from memtrace.harness.record.history import History


@lru_cache(maxsize=1)
def changing(history: History) -> dict[str, tuple[str, ...]]:
    """The users that the context could name in a turn, by the id of the turn, where the script let there be several."""
    found: dict[str, tuple[str, ...]] = {}
    users: dict[str, tuple[str, ...]] = {}
    for event in history.events:
        if isinstance(event, Noted) and event.name == "resolves as":
            users[event.value["user"]] = tuple(dict.fromkeys(event.value["values"]))
        elif isinstance(event, TurnStarted) and len(users.get(event.caller.user, ())) > 1:
            found[event.turn] = users[event.caller.user]
    return found
