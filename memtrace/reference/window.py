"""The conversation windows: the newest whole turns of each conversation, word for word, in this process."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple
from uuid import uuid4

from memtrace.errors import UsageError
from memtrace.model import Author, Level, Message, Scope
from memtrace.reference.recall import Namespace

_SESSIONS: Final = 100
"""Conversations kept of one user; the least recently written goes first."""
_OVERFLOW: Final = 200
"""Turns that wait for a summary while the model that makes it is down."""


class Key(NamedTuple):
    """Which conversation: a project, a user of it and a session of theirs."""

    project: str
    user: str
    session: str = ""

    @property
    def owner(self) -> Namespace:
        """Whose it is."""
        return Namespace(self.project, self.user)

    @property
    def scope(self) -> Scope:
        """The scope of their facts."""
        return Scope(Level.USER, self.user, self.project)


@dataclass(frozen=True, slots=True, eq=False)
class Turn:
    """The two messages that a successful turn leaves. Two turns are never equal: the same may be said twice."""

    question: str
    answer: str

    @property
    def messages(self) -> tuple[Message, Message]:
        """The user's and the assistant's."""
        return Message(Author.USER, self.question), Message(Author.ASSISTANT, self.answer)


@dataclass(frozen=True, slots=True)
class Conversation:
    """What is kept of one conversation: the turns of the window, the summary of older ones, and what it still lacks.

    ``id`` and ``revision`` tell whether a saved file is an earlier state of this one.
    """

    id: str = field(default_factory=lambda: uuid4().hex)
    revision: int = 0
    turns: tuple[Turn, ...] = ()
    summary: str = ""
    unsummarized: tuple[Turn, ...] = ()

    @property
    def messages(self) -> list[Message]:
        """The messages of the window, oldest first."""
        return [message for turn in self.turns for message in turn.messages]


@dataclass(slots=True)
class _Owner:
    erasure: str | None
    """The last erasure known of as the windows were begun; ``None`` where the store could not say."""
    conversations: OrderedDict[Key, Conversation] = field(default_factory=OrderedDict)


class Windows:
    """The windows of the ``max_users`` most recently active users.

    A turn goes in whole, under a lock, so overlapping turns of one conversation are all kept.
    """

    def __init__(self, *, size: int, max_users: int, summarized: bool) -> None:
        if size < 0:
            raise UsageError(f"window={size}: give a number of messages, or 0 for none")
        if max_users < 1:
            raise UsageError(f"max_users={max_users}: give at least 1")
        self._turns = size // 2
        self._max_users = max_users
        self._summarized = summarized
        self._told: list[Callable[[Namespace], object]] = []
        self._owners: OrderedDict[Namespace, _Owner] = OrderedDict()
        self._lock = threading.RLock()

    def on_eviction(self, tell: Callable[[Namespace], object]) -> None:
        """Call this, too, with each user whose windows were dropped to make room."""
        self._told.append(tell)

    def get(self, key: Key) -> Conversation | None:
        """The conversation, where this process has one."""
        with self._lock:
            owner = self._owners.get(key.owner)
            return owner.conversations.get(key) if owner else None

    def touch(self, owner: Namespace) -> None:
        """A turn of this user begins: they are the last to lose their windows."""
        with self._lock:
            if owner in self._owners:
                self._owners.move_to_end(owner)

    def synchronize(self, owner: Namespace, erasure: str) -> bool:
        """``erasure`` is the last one the store knows of; ``True`` where it is news here, and the windows went."""
        with self._lock:
            known = self._owners.get(owner)
            if known is None:
                return False
            if known.erasure not in (None, erasure):
                del self._owners[owner]
                return True
            known.erasure = erasure
            return False

    def append(self, key: Key, turn: Turn, erasure: str | None) -> bool:
        """Add a whole turn as the newest; ``False`` where the user was erased and began anew since it opened."""
        with self._lock:
            owner = self._owners.get(key.owner)
            if owner is not None and erasure is not None and owner.erasure not in (None, erasure):
                return False
            old = self.get(key) or Conversation()
            self._put(key, self._cut(replace(old, turns=(*old.turns, turn))), erasure)
            return True

    def remove(self, key: Key, turn: Turn) -> None:
        """Take a turn out again."""
        with self._lock:
            if old := self.get(key):
                turns = tuple(kept for kept in old.turns if kept is not turn)
                waiting = tuple(kept for kept in old.unsummarized if kept is not turn)
                self._put(key, replace(old, turns=turns, unsummarized=waiting))

    def summarized(self, key: Key, before: Conversation, summary: str) -> None:
        """Put in a summary made from ``before``; where the conversation was summarized since, it is let go."""
        with self._lock:
            now = self.get(key)
            if now is not None and now.id == before.id and now.summary == before.summary:
                waiting = tuple(turn for turn in now.unsummarized if turn not in before.unsummarized)
                self._put(key, replace(now, summary=summary, unsummarized=waiting))

    def restore(self, key: Key, conversation: Conversation, erasure: str | None) -> None:
        """Put a saved conversation in the place of what is there, cut to the window."""
        with self._lock:
            self._put(key, self._cut(conversation), erasure)

    def saved(self, key: Key, conversation: Conversation) -> None:
        """Note the revision under which a conversation was saved."""
        with self._lock:
            now = self.get(key)
            if now is not None and now.id == conversation.id:
                self._put(key, replace(now, revision=conversation.revision))

    def drop(self, owner: Namespace) -> int:
        """Let go of all of one user's conversations; how many there were."""
        with self._lock:
            known = self._owners.pop(owner, None)
            return len(known.conversations) if known else 0

    def _cut(self, conversation: Conversation) -> Conversation:
        """With the newest turns that fit; what leaves the window waits for the summary, where there is one."""
        turns = conversation.turns
        cut = max(0, len(turns) - self._turns)
        waiting = (*conversation.unsummarized, *turns[:cut])[-_OVERFLOW:] if self._summarized else ()
        return replace(conversation, turns=turns[cut:], unsummarized=waiting)

    def _put(self, key: Key, conversation: Conversation, erasure: str | None = None) -> None:
        owner = self._owners.setdefault(key.owner, _Owner(erasure))
        owner.conversations[key] = conversation
        owner.conversations.move_to_end(key)
        self._owners.move_to_end(key.owner)
        if len(owner.conversations) > _SESSIONS:
            owner.conversations.popitem(last=False)
        while len(self._owners) > self._max_users:
            dropped, _ = self._owners.popitem(last=False)
            for tell in self._told:
                tell(dropped)
