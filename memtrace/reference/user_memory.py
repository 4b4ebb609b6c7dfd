"""One user's conversation, from outside a turn: look at it, save it, load it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from memtrace.errors import StoreError, UsageError
from memtrace.model import Message
from memtrace.reference import saved
from memtrace.reference.marks import Marks, Seen
from memtrace.reference.window import Conversation, Key, Windows


class UserMemory:
    """One conversation of one user of a memory."""

    def __init__(self, windows: Windows, marks: Marks, key: Key, seen: Callable[[Key], Seen]) -> None:
        self._windows = windows
        self._marks = marks
        self._key = key
        self._seen = seen

    @property
    def messages(self) -> list[Message]:
        """What the window holds, oldest first."""
        with suppress(StoreError):  # an erasure elsewhere shows once the store is back
            self._seen(self._key)
        conversation = self._windows.get(self._key)
        return conversation.messages if conversation else []

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the conversation to a file of this user's, whole or not at all.

        Raises:
            UsageError: this process keeps no such conversation, or the file holds one that would be lost.
            TraceFormatError: the file is there, and no saved window.
            StoreError: the store cannot say whether the user was erased.
        """
        target = Path(path).absolute()
        before = self._seen(self._key)
        self._marks.saved(self._key.scope, str(target))
        conversation = self._windows.get(self._key) or Conversation()
        revised = saved.save(target, self._key.owner, conversation, erasure=before.erased)
        if self._marks.seen(self._key.scope).erased != before.erased:
            saved.remove(target, self._key.owner)
            raise UsageError(f"nothing was saved in {target}: its user has been erased")
        self._windows.saved(self._key, revised)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Put a saved conversation of this user in the place of what the window holds.

        Raises:
            UsageError: there is no such file, it is another user's, or the user was erased since.
            TraceFormatError: it is cut short, or no saved window; the window is as it was.
            StoreError: the store cannot say whether the user was erased.
        """
        erasure = self._seen(self._key).erased
        conversation = saved.load(Path(path).absolute(), self._key.owner, erasure=erasure)
        self._windows.restore(self._key, conversation, erasure)
