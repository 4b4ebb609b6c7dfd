"""The reference memory: windows, blocks, durable facts, learning, recall, for many users on one store."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Literal

from memtrace.errors import StoreError, UsageError
from memtrace.model import Level, Record, Scope
from memtrace.plane import PlaneFacts
from memtrace.reference.blocks import FactsBlock, RecallBlock, SummaryBlock
from memtrace.reference.embedding import Embedder, HashEmbedder
from memtrace.reference.erasing import Erased, Kept
from memtrace.reference.facts import Facts, Tier
from memtrace.reference.learning import ABOUT_EVERYONE, ABOUT_THEMSELVES, Extractor, Learned
from memtrace.reference.marks import Guard, Marks, Seen
from memtrace.reference.memory_turn import MemoryTurn, Owner, Parts
from memtrace.reference.models import Model
from memtrace.reference.offline import Mined, OfflineLearning, task
from memtrace.reference.outage import RETRY_SECONDS, Outages
from memtrace.reference.plane_block import OnMissing, plane_block
from memtrace.reference.recall import ProcessRecall, Recall, RecallIndex
from memtrace.reference.resolver import Resolver, resolve
from memtrace.reference.search import FactSearch
from memtrace.reference.summary import Summary
from memtrace.reference.text import quoted
from memtrace.reference.turnlog import TurnLog
from memtrace.reference.user_memory import UserMemory
from memtrace.reference.window import Key, Windows
from memtrace.stores.contract import FactStore
from memtrace.stores.location import open_store
from memtrace.tracing import Tracing


def _unchanged(text: str) -> str:
    return text


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
        plane: where facts that people curated are read from; without it the one that `memtrace.plane.configured` names.
        plane_agent_id: whose curated facts are read; by default, where a plane is given, ``agent_id``'s.
        on_missing_plane: what happens while curated facts could never be read: ``"nothing"``; ``"say"``, and the prompt
            says that they are missing; ``"raise"``, and a turn ends with `CuratedFactsMissing`, for a person to answer.
        store_timeout: seconds that a turn waits for the store before it goes on with what was read before; a call that
            is under way then ends with the store's own timeout, which is this one where ``location`` is no store.
        store_retry: seconds that a store which failed is left alone by turns. What is persisted by hand is tried.
        clock: seconds since the epoch.
        tracing: where spans go.

    Raises:
        UsageError: an argument is off.
        StoreError: the store cannot be opened.
    """

    def __init__(
        self,
        *,
        location: str | os.PathLike[str] | FactStore = "memory.db",
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
        plane: PlaneFacts | None = None,
        plane_agent_id: str | None = None,
        on_missing_plane: OnMissing = "nothing",
        store_timeout: float = 5.0,
        store_retry: float = RETRY_SECONDS,
        clock: Callable[[], float] = time.time,
        tracing: Tracing | None = None,
    ) -> None:
        _require_sound(agent_id, recall, store_timeout)
        _require_counts(
            max_learned_facts=max_learned_facts, max_facts_per_message=max_facts_per_message, max_facts=max_facts
        )
        curated = plane_block(plane, plane_agent_id, agent_id, project=project_id, on_missing=on_missing_plane)
        self.agent_id = agent_id
        self.project_id = project_id
        self._owns_store = isinstance(location, str | os.PathLike)
        self.store: FactStore = (
            open_store(location, timeout=store_timeout) if isinstance(location, str | os.PathLike) else location
        )
        self._outages = Outages(self.store, clock, store_timeout, store_retry)
        self._clock = clock
        self._user_id = user_id
        self._session_id = session_id
        self._learn = learn
        self._facts_per_message = max_facts_per_message
        self._turn_log = turn_log
        self._tracing = tracing or Tracing()
        self._marks = Marks(self.store, clock)

        embed = embedder or HashEmbedder()
        index = ProcessRecall() if isinstance(recall, str) else recall
        by_meaning = None if index is None else Recall(index, embed)
        search = FactSearch(self.store, embed, scopes=max_users) if semantic else None
        self._windows = Windows(size=window, max_users=max_users, summarized=summarize is not None)
        agent_facts, user_facts = self._fact_blocks(max_facts, max_users)
        blocks = (*agent_facts, user_facts)
        self._kept = Kept(self.store, self._marks, self._windows, blocks, search, index, turn_log, others=[])
        self._windows.on_eviction(self._kept.evicted)
        self._facts = self._own_facts(search)
        self._learned = Learned(self.store, cap=max_learned_facts, clock=clock)
        self._parts = Parts(
            self._tracing,
            agent_id or "",
            shared=(*agent_facts, *((curated,) if curated else ())),
            personal=(
                user_facts,
                *((SummaryBlock(),) if summarize else ()),
                *((RecallBlock(by_meaning),) if by_meaning else ()),
            ),
            windows=self._windows,
            facts=self._facts,
            learned=self._learned,
            clock=clock,
            extractor=self._extractor(learn, ABOUT_THEMSELVES) if learn else None,
            recall=by_meaning,
            summary=Summary(summarize, self._windows, self._tracing) if summarize else None,
            turn_log=turn_log,
        )

    def open(self, context: object | None, *, outgoing: Callable[[str], str] = _unchanged) -> MemoryTurn:
        """The memory of one turn, for the caller that its context names, who is asked for this once.

        ``outgoing`` is applied to every text that memory sends to a model or an embedder, never to what it keeps.
        """
        caller, store = resolve(context, self._user_id, self._session_id), self._outages.turn()
        owner = None if caller is None else self._owner(Key(self.project_id, caller.user, caller.session), store)
        return MemoryTurn(self._parts, owner, outgoing, store)

    def for_user(self, user: str, session: str = "") -> UserMemory:
        """A user's conversation, to look at, save or load."""
        return UserMemory(self._windows, self._marks, self._key(user, session), self._seen)

    def persist(self, text: str, *, tier: Tier = "user", scope_id: str = "", confidence: float = 1.0) -> Record:
        """Store a fact by hand, which no learned one pushes out; persisting it twice is persisting it once.

        Raises:
            UsageError: it is blank, or names nobody.
        """
        return self._facts.persist(text, tier=tier, scope_id=scope_id, confidence=confidence)

    def update(
        self, new: str, *, old: str | int, tier: Tier = "user", scope_id: str = "", confidence: float = 1.0
    ) -> Record:
        """Put a fact in the place of an active one, given by its text or record id; that is kept, marked superseded.

        Raises:
            UsageError: there is no such active fact there.
        """
        return self._facts.update(new, old=old, tier=tier, scope_id=scope_id, confidence=confidence)

    def retrieve(
        self,
        query: str | None = None,
        *,
        tier: Tier = "user",
        scope_id: str = "",
        limit: int | None = None,
        outgoing: Callable[[str], str] = _unchanged,
    ) -> list[Record]:
        """Active facts: the newest, or with a query (``semantic=True``) those nearest to it, in that order.

        An empty id reads nothing, and ``*`` is a user like any other.
        """
        return self._facts.retrieve(query, tier=tier, scope_id=scope_id, limit=limit, outgoing=outgoing)

    def forget(self, *, tier: Tier = "user", scope_id: str = "", fact: str | int | None = None) -> int:
        """Remove one fact, given by its text or record id, or with ``None`` all of a scope; how many rows went.

        What turns that are still open learned in that scope is not kept.

        Raises:
            UsageError: it names nobody.
        """
        return self._facts.forget(tier=tier, scope_id=scope_id, fact=fact)

    def erase(self, user: str) -> Erased:
        """Remove everything kept of a user: facts, windows, summary, recall, saved files, and what `on_erase` adds.

        Turns that are still open, here and in other processes, keep nothing; other processes let go of the user's
        windows at their next turn. What stays is a mark with the user's id, which says that they were erased. Where a
        part cannot be removed the others are, and its error is raised: erasing again tries again.

        Raises:
            UsageError: it names nobody.
            StoreError: the store failed.
        """
        key = self._key(user)
        with self._tracing.write(operation="forget", scope=key.scope) as span:
            erased = self._kept.erase(key)
            span.stored(erased.facts, action="erased")
        return erased

    def on_erase(self, also: Callable[[str, str], object]) -> None:
        """Call this with the user and the project too when a user is erased; for what is kept outside of memory."""
        if also not in self._kept.others:
            self._kept.others.append(also)

    def learn_offline(
        self,
        *,
        scope: str = "agent",
        scope_id: str = "",
        agent: str = "",
        personal: bool = False,
        since: float = 0.0,
        max_traces: int = 100,
        dry_run: bool = False,
        outgoing: Callable[[str], str] = _unchanged,
    ) -> Mined:
        """Mine past turns of an agent (by default this one) for facts; see `memtrace.reference.offline`.

        Args:
            scope: whose facts they become: ``agent``, ``user`` or ``project``.
            scope_id: which user, or which project's.
            agent: whose turns are mined.
            personal: say ``True`` to file what people say about themselves, at user or project scope.
            since: seconds since the epoch; turns before are left alone.
            max_traces: turns to mine at most, the oldest first.
            dry_run: only tell what would be kept.
            outgoing: applied to every text that is sent to the model.

        Raises:
            UsageError: the options do not say whose facts to learn, or ask for personal data without saying so.
        """
        wanted = task(
            scope,
            scope_id,
            project=self.project_id,
            agent=agent or self.agent_id or "",
            personal=personal,
            since=since,
            max_traces=max_traces,
            dry_run=dry_run,
        )
        if self._turn_log is None or self._learn is None:
            raise UsageError("learn_offline() needs a memory made with turn_log= and learn=")
        extractor = self._extractor(self._learn, ABOUT_EVERYONE if scope == "agent" else ABOUT_THEMSELVES)
        return OfflineLearning(self._turn_log, extractor, self._learned, self._tracing, outgoing=outgoing).run(wanted)

    def close(self) -> None:
        """Let go of the store, where this memory opened it."""
        if self._owns_store:
            self.store.close()

    def _owner(self, key: Key, store: FactStore) -> Owner:
        marks = Marks(store, self._clock)
        try:
            seen = self._seen(key, marks)
        except StoreError:  # the blocks that read the store show it
            seen = None
        self._windows.touch(key.owner)
        return Owner(key, Guard(marks, key.scope, seen))

    def _seen(self, key: Key, marks: Marks | None = None) -> Seen:
        """What was forgotten of a user so far; where another process erased them, this one forgets them too."""
        seen = (marks or self._marks).seen(key.scope)
        if self._windows.synchronize(key.owner, seen.erased):
            self._kept.erased_elsewhere(key)
        return seen

    def _key(self, user: str, session: str = "") -> Key:
        if not user:
            raise UsageError("an empty user id names nobody")
        return Key(self.project_id, user, session)

    def _extractor(self, model: Model, instruction: str) -> Extractor:
        return Extractor(model, self._tracing, limit=self._facts_per_message, instruction=instruction)

    def _own_facts(self, search: FactSearch | None) -> Facts:
        """Facts by hand, of the user, the agent and the project that this memory is made for."""
        user = self._user_id if isinstance(self._user_id, str) else ""
        return Facts(
            self.store,
            self._marks,
            self._tracing,
            own={Level.USER: user, Level.AGENT: self.agent_id or "", Level.PROJECT: self.project_id},
            project=self.project_id,
            clock=self._clock,
            search=search,
            forgotten=self._kept.forgotten,
        )

    def _fact_blocks(self, limit: int, known: int) -> tuple[tuple[FactsBlock, ...], FactsBlock]:
        """The agent's, where there is an agent, and the user's."""
        make = partial(FactsBlock, store=self.store, limit=limit, known=known)
        user = make("persistent_facts.user", "Learned facts (user):", scope=lambda reading: reading.scope)
        if self.agent_id is None:
            return (), user
        agent = Scope(Level.AGENT, self.agent_id, self.project_id)
        heading = f"Learned facts (agent:{quoted(agent.id)[1:-1]}):"
        return (make("persistent_facts", heading, scope=lambda _: agent),), user


def _require_sound(agent_id: str | None, recall: object, store_timeout: float) -> None:
    if agent_id == "":
        raise UsageError("agent_id is empty, which names no agent: give one, or None for a memory without agent facts")
    if isinstance(recall, str) and recall != "auto":
        raise UsageError(f"recall={recall!r}: give 'auto' for recall in this process, or an index such as SqliteRecall")
    if not store_timeout > 0:
        raise UsageError(f"store_timeout={store_timeout}: give seconds, more than none")


def _require_counts(**counts: int) -> None:
    for name, count in counts.items():
        if count < 0:
            raise UsageError(f"{name}={count}: give a number, 0 for none")
