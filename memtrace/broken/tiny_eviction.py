"""The tiny memory with a limit of windows: who was active longest ago loses theirs."""

from __future__ import annotations

from typing import Any

from memtrace.broken.tiny import Key, Refused, TinyMemory
from memtrace.model import Caller


class TinyEviction(TinyMemory):
    """The correct one: a window that was dropped is begun anew, and nothing is saved over what it was."""

    @property
    def declares(self) -> dict[str, Any]:
        """The limit too."""
        return {**super().declares, "max_users": self.option("max_users", 1000)}

    def replayed(self, key: Key | None) -> list[tuple[str, str]]:
        """Whose window is read is active."""
        if key is not None:
            self.touch(key)
        return super().replayed(key)

    def touch(self, key: Key) -> None:
        """Put a user's window last in line."""
        if key in self.windows:
            self.windows[key] = self.windows.pop(key)

    def write(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        """Whose window is written is active; the first in line go."""
        super().write(caller, key, text, answer)
        self.touch(key)
        for idle in list(self.windows)[: -self.option("max_users", 1000)]:
            self.drop(idle)

    def drop(self, key: Key) -> None:
        """Let go of a user's window."""
        del self.windows[key]

    def save(self, caller: Caller, path: str) -> None:
        """Save a window, where there is one."""
        if not self.windows.get(self.own(caller)):
            raise Refused("there is no window to save")
        super().save(caller, path)
