"""The tiny memory for several processes: what was forgotten is told to turns in flight and to other processes."""

from __future__ import annotations

import json
from contextvars import ContextVar
from typing import Any, NamedTuple

from memtrace.broken.tiny import Key, TinyMemory
from memtrace.model import Caller, Message


class Forgot(NamedTuple):
    """How often a user has forgotten facts, and was erased."""

    forgotten: int = 0
    erased: int = 0


_BEGAN: ContextVar[Forgot] = ContextVar("what had been forgotten as the turn began")


class TinyProcesses(TinyMemory):
    """The correct one: a turn keeps nothing that was forgotten since it began, a window nothing from before an erasure.

    How often that was is in a file, which says of nobody what they forgot.
    """

    def __post_init__(self) -> None:
        """No window is older than an erasure."""
        super().__post_init__()
        self.window_of: dict[Key, int] = {}

    def forgot(self, key: Key) -> Forgot:
        """How often a user has, in any process."""
        path = self.env.dir / "tiny.forgot"
        return Forgot(*json.loads(path.read_text()).get("\n".join(key), ())) if path.exists() else Forgot()

    def forgets(self, key: Key, **more: int) -> None:
        """Something is about to be forgotten."""
        path = self.env.dir / "tiny.forgot"
        with self.lock, self.one_writer():
            known, before = json.loads(path.read_text()) if path.exists() else {}, self.forgot(key)
            known["\n".join(key)] = before._replace(**{name: getattr(before, name) + n for name, n in more.items()})
            path.write_text(json.dumps(known))

    def prompt(self, caller: Caller, key: Key | None, text: str) -> list[dict[str, Any]]:
        """Read, and note how often anything was forgotten."""
        if key is not None:
            _BEGAN.set(self.forgot(key))
        return super().prompt(caller, key, text)

    def write(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        """Nothing, where the user was erased meanwhile."""
        if self.erased_since(key):
            return
        self.let_go(key)
        super().write(caller, key, text, answer)
        self.window_of.setdefault(key, _BEGAN.get().erased)
        self.let_go(key)

    def erased_since(self, key: Key) -> bool:
        """Whether the user was erased since the turn began."""
        return self.forgot(key).erased != _BEGAN.get().erased

    def keep(self, key: Key, facts: list[str]) -> None:
        """No facts, where some were forgotten meanwhile."""
        if self.forgot(key) == _BEGAN.get(self.forgot(key)):
            super().keep(key, facts)

    def replayed(self, key: Key | None) -> list[tuple[str, str]]:
        """The window, unless it is from before an erasure."""
        if key is not None:
            self.let_go(key)
        return super().replayed(key)

    def messages(self, caller: Caller) -> list[Message]:
        """The same."""
        self.let_go(self.own(caller))
        return super().messages(caller)

    def let_go(self, key: Key) -> None:
        """Drop a window that another process's erasure came after."""
        if self.window_of.get(key, 0) != self.forgot(key).erased and key in self.windows:
            del self.windows[key]
            self.window_of.pop(key, None)

    def forget(self, caller: Caller, record: str | None = None) -> int:
        """Tell the turns in flight, then forget."""
        self.forgets(self.own(caller), forgotten=1)
        return super().forget(caller, record)

    def erase(self, caller: Caller) -> None:
        """Tell everyone, then erase."""
        self.forgets(self.own(caller), erased=1)
        super().erase(caller)
        self.window_of.pop(self.own(caller), None)
