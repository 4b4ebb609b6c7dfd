"""Offline learning from the command line: what ``memtrace learn`` does with what it was told."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from memtrace.errors import UsageError
from memtrace.reference.memory import Memory
from memtrace.reference.models import ChatModel
from memtrace.reference.offline import Mined
from memtrace.reference.turnlog import TurnLog
from memtrace.stores.location import hide_password, reads_like_a_url


def learn(
    *,
    store: str,
    turns: str,
    agent: str,
    model_url: str,
    model: str,
    scope: str = "agent",
    scope_id: str = "",
    project_id: str = "",
    hours: float | None = None,
    max_traces: int = 100,
    personal: bool = False,
    dry_run: bool = False,
    clock: Callable[[], float] = time.time,
) -> Mined:
    """Mine the past turns of an agent, those of the last so many hours, for facts; see `Memory.learn_offline`.

    The model is asked with the key in ``OPENAI_API_KEY``, where there is one.

    Raises:
        UsageError: a file is not there, or the options do not say whose facts to learn.
        StoreError: a file cannot be read or written.
    """
    if hours is not None and not hours > 0:
        raise UsageError(f"--window {hours:g}: give a number of hours above 0")
    if scope != "agent" and not personal:
        raise UsageError(f"--scope {scope} files what people say about themselves: ask for it with --allow-personal")
    _require(turns, "--turns", "an agent keeps one with Memory(turn_log=TurnLog(path))")
    _require(store.removeprefix("sqlite:///"), "--store", "give the file the agent's memory uses")
    extractor = ChatModel(model_url, model, api_key=os.environ.get("OPENAI_API_KEY", ""))
    memory = Memory(
        location=store,
        agent_id=agent or None,
        project_id=project_id,
        learn=extractor,
        turn_log=TurnLog(turns),
        clock=clock,
    )
    with closing(extractor), closing(memory):
        return memory.learn_offline(
            scope=scope, scope_id=scope_id, personal=personal, max_traces=max_traces, dry_run=dry_run,
            since=0.0 if hours is None else clock() - hours * 3600,
        )  # fmt: skip


def _require(path: str, option: str, remedy: str) -> None:
    """Raise `UsageError` where there is no such file: opening it would make a new one, and mine or fill that."""
    if not Path(path).is_file():
        shown = hide_password(path) if reads_like_a_url(path) else path
        raise UsageError(f"{option} {shown}: there is no such file; {remedy}")


def told(mined: Mined, *, dry_run: bool) -> str:
    """What was learned, a line a fact, and the count last."""
    lines = [f"  {fact}" for fact in mined.facts]
    turns = f"{mined.turns} turn{'' if mined.turns == 1 else 's'} read"
    failed = f", {mined.failed} failed and will be read again" if mined.failed else ""
    kept = "would be kept" if dry_run else "kept"
    return "\n".join([*lines, f"{turns}{failed}, {len(mined.facts)} fact{'' if len(mined.facts) == 1 else 's'} {kept}"])
