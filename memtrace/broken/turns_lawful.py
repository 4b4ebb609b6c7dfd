"""Memories that do with a turn what few do, and break no rule."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from memtrace.broken import lawful
from memtrace.broken.tiny import Key, TinyMemory
from memtrace.harness.scripted_model.scripting import ScriptedFailure
from memtrace.model import Caller, Reply, ToolCall

Messages = list[dict[str, Any]]


@lawful("the turn is kept whole", rules=("turns.cancelled-whole-or-nothing", "turns.abandoned-leaves-no-context"))
class KeepsLeftStreams(TinyMemory):
    """Stores a stream that was left as if it had been heard to its end."""

    def streamed(self, caller: Caller, text: str) -> Iterator[str]:
        pieces = super().streamed(caller, text)
        left = False
        for piece in pieces:
            try:
                if not left:
                    yield piece
            except GeneratorExit:
                left = True


@lawful("turns of one user wait for each other", rules=("turns.overlapping-turns-both-kept",))
class OneAtATime(TinyMemory):
    """Lets a user's turn begin when the last has ended."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.turns: dict[Key | None, threading.RLock] = defaultdict(threading.RLock)

    def run(self, caller: Caller, key: Key | None, text: str, traffic: Messages) -> Reply:
        with self.turns[key]:
            return super().run(caller, key, text, traffic)


@lawful("nothing was written when it tries again", rules=("turns.retry-stores-once", "turns.failed-writes-nothing"))
class TriesAgain(TinyMemory):
    """Asks a model that failed once more."""

    def ask(self, messages: Messages) -> tuple[str, list[ToolCall]]:
        try:
            return super().ask(messages)
        except ScriptedFailure:
            return super().ask(messages)


@lawful("it declares the window it has", rules=("turns.window-is-bounded", "turns.recalled-next-turn"))
class ShortMemory(TinyMemory):
    """Has a window of one turn, however large a window it is offered."""

    @property
    def declares(self) -> dict[str, Any]:
        """What it does."""
        return {**super().declares, "window": min(2, self.option("window", 2))}

    def replayed(self, key: Key | None) -> list[tuple[str, str]]:
        return super().replayed(key)[-2:]


@lawful("the messages are those that were said", rules=("turns.input-and-answer", "turns.cancelled-whole-or-nothing"))
class TellsTheTime(TinyMemory):
    """Puts a time in front of each message it replays."""

    def replayed(self, key: Key | None) -> list[tuple[str, str]]:
        return [(role, f"[10:{place:02}] {said}") for place, (role, said) in enumerate(super().replayed(key))]


@lawful("the order is the one it declares", rules=("turns.prompt-order", "turns.prompt-holds-its-input"))
class FactsLast(TinyMemory):
    """Puts all facts behind the conversation, in front of the question."""

    @property
    def declares(self) -> dict[str, Any]:
        """Its own order."""
        return {**super().declares, "prompt_order": ["system", "window", "agent-facts", "user-facts", "input"]}

    def prompt(self, caller: Caller, key: Key | None, text: str) -> Messages:
        head, *middle, question = super().prompt(caller, key, text)
        return [head, *sorted(middle, key=lambda message: bool(message["role"] == "system")), question]
