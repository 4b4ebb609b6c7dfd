"""Memories that treat callers as few do, and break no rule."""

from __future__ import annotations

import re
import threading
from typing import Any

from memtrace.broken import lawful
from memtrace.broken.tiny import Key, Refused, TinyMemory
from memtrace.model import Caller, Reply


@lawful(
    "turns wait for each other, whoever's they are",
    rules=("users.concurrent-turns-apart", "users.reply-goes-to-its-caller"),
)
class OneTurnAtATime(TinyMemory):
    """Lets a turn begin when the last has ended."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.one = threading.RLock()

    def turn(self, caller: Caller, text: str) -> Reply:
        with self.one:
            return super().turn(caller, text)


@lawful(
    "a refusal is an answer",
    rules=("users.unresolved-sees-only-agent-facts", "users.unresolved-writes-nothing"),
)
class RefusesStrangers(TinyMemory):
    """Serves nobody who cannot be told."""

    def resolve(self, caller: Caller) -> Key:
        key = super().resolve(caller)
        if key is None:
            raise Refused("who are you?")
        return key


@lawful(
    "an id that is refused cannot be taken for another",
    rules=("users.similar-ids-apart", "users.wildcard-is-not-a-user", "users.own-memory-recalled"),
)
class RefusesOddIds(TinyMemory):
    """Serves those only whose id is made of common characters, and few of them."""

    def key(self, caller: Caller, user: str) -> Key:
        if not re.fullmatch(r"[a-z0-9@+-][a-z0-9.@+-]{0,63}", user):
            raise Refused("no such id")
        return super().key(caller, user)


@lawful("it asks twice, and goes by the second answer alone", rules=("users.resolved-once-per-turn",))
class AsksTwice(TinyMemory):
    """Makes sure who the caller is, before it reads anything."""

    def resolve(self, caller: Caller) -> Key | None:
        super().resolve(caller)
        return super().resolve(caller)


@lawful(
    "facts are a memory too",
    rules=("users.own-memory-recalled", "users.no-foreign-memory", "users.concurrent-turns-apart"),
)
class KeepsFactsOnly(TinyMemory):
    """Replays no conversation; what it knows of a user it has learned."""

    capabilities = TinyMemory.capabilities - {"conv", "window", "save-load"}

    def conversation(self, key: Key | None) -> list[dict[str, Any]]:
        return []
