"""The reference memory: windows, blocks, durable facts, learning, recall, for many users on one store."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Literal

from memtrace.errors import StoreError, UsageError
from memtrace.model import Level, Record, Scope
from memtrace.reference.blocks import FactsBlock, RecallBlock, SummaryBlock, quoted
from memtrace.reference.embedding import Embedder, HashEmbedder
from memtrace.reference.erasing import Erased, erase
from memtrace.reference.facts import Facts, Tier
from memtrace.reference.learning import ABOUT_EVERYONE, ABOUT_THEMSELVES, Extractor, Learned
from memtrace.reference.marks import Guard, Marks
from memtrace.reference.memory_turn import MemoryTurn, Owner, Parts
from memtrace.reference.models import Model
from memtrace.reference.offline import Mined, OfflineLearning, task, withdraw
from memtrace.reference.recall import Namespace, ProcessRecall, Recall, RecallIndex
from memtrace.reference.resolver import Resolver, resolve
from memtrace.reference.search import FactSearch
from memtrace.reference.summary import Summary
from memtrace.reference.turnlog import TurnLog
from memtrace.reference.user_memory import UserMemory
from memtrace.reference.window import Key, Windows
from memtrace.stores.contract import FactStore
from memtrace.stores.location import open_store
from memtrace.tracing import Tracing


class Memory:
    """One agent's memory of all its users, in one project.

    Args:
        location: where durable facts live: a path or URL for `open_store`, or a store, which stays open at `close`.
        agent_id: whose agent facts are read; without one none are.
        user_id: who asks: a user, or what reads one from a run's context. Without it nobody is known.
        session_id: which of the user's conversations, read from a run's context; without it each has one.
        project_id: the partition that everything is in.
        window: messages kept word for word, in whole turns; 0 for none.
        learn: reads facts out of what a user says.
        summarize: keeps a summary of what the window no longer holds.
        recall: where messages are kept for recall by meaning; ``"auto"`` is in this process.
        embedder: makes vectors for recall and search; by default of words only, see `HashEmbedder`.
        semantic: whether `retrieve` takes a query.
        max_learned_facts: learned facts kept of each user; the oldest go. Those persisted by hand stay.
        max_facts_per_message: facts learned from one message.
        max_facts: facts of each scope in a prompt.
        max_users: users whose windows are kept; the least recently active go first, and keep their facts.
        turn_log: keeps what users say for `learn_offline`.
        clock: seconds since the epoch.
        tracing: where spans go.

    Raises:
        UsageError: an argument is off.
        StoreError: the store cannot be opened.
    """

    def __init__(
        self,
        *,
        location: str | FactStore = "memory.db",
        agent_id: str | None = None,
        user_id: str | Resolver | None = None,
        session_id: Resolver | None = None,
        project_id: str = "",
        window: int = 20,
        learn: Model | None = None,
        summarize: Model | None = None,
        recall: Literal["auto"] | RecallIndex | None = None,
        embedder: Embedder | None = None,
        semantic: bool = False,
        max_learned_facts: int = 200,
        max_facts_per_message: int = 10,
        max_facts: int = 50,
        max_users: int = 10_000,
        turn_log: TurnLog | None = None,
        clock: Callable[[], float] = time.time,
        tracing: Tracing | None = None,
    ) -> None:
        if agent_id == "":
            raise UsageError("agent_id is empty, which names no agent: give one, or None for a memory without agent facts")
        _require_counts(
            max_learned_facts=max_learned_facts, max_facts_per_message=max_facts_per_message, max_facts=max_facts
        )
        self.agent_id = agent_id
        self.project_id = project_id
        self._user_id = user_id
        self._session_id = session_id
        self._owns_store = isinstance(location, str)
        self.store: FactStore = open_store(location) if isinstance(location, str) else location
        self._tracing = tracing or Tracing()
        self._marks = Marks(self.store, clock)
        self._learn = learn
        self._facts_per_message = max_facts_per_message
        self._turn_log = turn_log
        self._on_erase: list[Callable[[str, str], object]] = []

        embed = embedder or HashEmbedder()
        self._process_recall = ProcessRecall() if recall == "auto" else None
        index: RecallIndex | None = self._process_recall if self._process_recall else recall if recall != "auto" else None
