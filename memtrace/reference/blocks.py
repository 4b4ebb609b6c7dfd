"""The parts of memory that render into the prompt, in the order they are declared.

What is stored is data. Each piece is written as one JSON string on one line, so that no text can pass for a heading,
for a role, or for another author's line.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from memtrace.errors import StoreError
from memtrace.model import Author, Level, Message, Record, Scope
from memtrace.plane import Curated
from memtrace.reference.recall import Hit, Recall
from memtrace.reference.text import folded, quoted, unseen
from memtrace.reference.window import Conversation, Key
from memtrace.stores.contract import FactStore


@dataclass(frozen=True, slots=True)
class Reading:
    """What a block may know of the turn that reads. ``shown`` holds the folded texts of the blocks before it."""

    query: str
    outgoing: Callable[[str], str]
    key: Key | None = None
    conversation: Conversation | None = None
    shown: set[str] = field(default_factory=set)
    store: FactStore | None = None
    """The store as this turn may use it; ``None``: as the block knows it."""

    @property
    def scope(self) -> Scope:
        """The scope of the user's facts; of an unresolved caller's, which hold nothing."""
        return self.key.scope if self.key else Scope(Level.USER, "")


@dataclass(frozen=True, slots=True)
class Rendered:
    """What a block puts into the prompt, and of what: ``text`` is ``""`` where it has nothing to say.

    ``failure`` is what kept the block from reading, where it could still say what it knew before, and ``known`` whether
    it knew anything. ``curated`` says how fresh a plane's facts are; ``refusal`` is why the turn must not go on with
    what there is.
    """

    text: str = ""
    items: Sequence[Record | Hit | str] = ()
    scores: Sequence[float] = ()
    deduped: int = 0
    failure: Exception | None = None
    known: bool = True
    curated: Curated | None = None
    refusal: Exception | None = None

    @property
    def messages(self) -> list[Message]:
        """The system message, if there is one."""
        return [Message(Author.SYSTEM, self.text)] if self.text else []


class Block(Protocol):
    """One part of memory."""

    name: str
    type: str

    def scope(self, reading: Reading) -> Scope | None:
        """Whose words it renders in this turn."""

    def render(self, reading: Reading) -> Rendered:
        """What it has to say in this turn."""


class FactsBlock:
    """The newest facts of a scope, those persisted by hand first: learned ones never push them out.

    Where the store fails, the facts that were last read are rendered again, and the failure is told.
    """

    type = "facts"

    def __init__(
        self,
        name: str,
        heading: str,
        *,
        store: FactStore,
        scope: Callable[[Reading], Scope],
        limit: int,
        known: int = 10_000,
    ) -> None:
        self.name = name
        self._heading = heading
        self._store = store
        self._scope = scope
        self._limit = limit
        self._remembered = known
        self._known: OrderedDict[Scope, list[Record]] = OrderedDict()
        self._lock = threading.Lock()

    def scope(self, reading: Reading) -> Scope | None:
        """The scope whose facts are read."""
        return self._scope(reading)

    def render(self, reading: Reading) -> Rendered:
        """The facts under their heading, each once in a prompt."""
        scope = self._scope(reading)
        known, failure = self._records(scope, reading.store or self._store)
        records = known or []
        fresh = unseen(records, reading.shown)
        lines = [f"- {quoted(record.text)}" for record in fresh]
        text = "\n".join([self._heading, *lines]) if lines else ""
        return Rendered(text, fresh, deduped=len(records) - len(fresh), failure=failure, known=known is not None)

    def drop(self, scope: Scope) -> None:
        """Forget what was last read of a scope."""
        with self._lock:
            self._known.pop(scope, None)

    def _records(self, scope: Scope, store: FactStore) -> tuple[list[Record] | None, StoreError | None]:
        """The facts, ``None`` where none were ever read, and what kept them from being read now."""
        try:
            by_hand = store.newest(scope, self._limit, source="")
            others = [record for record in store.newest(scope, self._limit) if record.source]
        except StoreError as error:
            with self._lock:
                return self._known.get(scope), error
        records = (by_hand + others)[: self._limit]
        with self._lock:
            self._known[scope] = records
            self._known.move_to_end(scope)
            if len(self._known) > self._remembered:
                self._known.popitem(last=False)
        return records, None


class SummaryBlock:
    """The running summary of what the window no longer holds."""

    name = "summary"
    type = "summary"

    def scope(self, reading: Reading) -> Scope | None:  # noqa: ARG002  a conversation is no scope of the fact store
        """None: it is part of a conversation."""
        return None

    def render(self, reading: Reading) -> Rendered:
        """The summary, if there is one yet."""
        summary = reading.conversation.summary if reading.conversation else ""
        return Rendered(f"Conversation summary so far: {quoted(summary)}", [summary]) if summary else Rendered()


class RecallBlock:
    """Earlier messages of the user that are near the question, other than those the prompt holds anyway."""

    name = "vector"
    type = "recall"

    def __init__(self, recall: Recall, limit: int = 5) -> None:
        self._recall = recall
        self._limit = limit

    def scope(self, reading: Reading) -> Scope | None:
        """The user's."""
        return reading.scope

    def render(self, reading: Reading) -> Rendered:
        """The nearest messages, nearest first, each after its author."""
        if reading.key is None:
            return Rendered()
        window = reading.conversation.messages if reading.conversation else []
        present = reading.shown | {folded(message.text) for message in window}
        hits, deduped = self._recall.search(reading.key.owner, reading.query, self._limit, present, reading.outgoing)
        lines = [f"- [{hit.message.author}] {quoted(hit.text)}" for hit in hits]
        text = "\n".join(["Relevant prior exchanges:", *lines]) if lines else ""
        return Rendered(text, hits, [hit.score for hit in hits], deduped)
