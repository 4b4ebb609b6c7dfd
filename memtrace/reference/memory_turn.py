"""One turn's memory: read before the model is called, written once it has succeeded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from memtrace.model import Author, Message, Record, Scope
from memtrace.reference.blocks import Block, Reading
from memtrace.reference.facts import Facts
from memtrace.reference.learning import Extractor, Learned, Writer
from memtrace.reference.marks import Guard
from memtrace.reference.recall import Recall
from memtrace.reference.report import report, show_curated
from memtrace.reference.summary import Summary
from memtrace.reference.text import folded
from memtrace.reference.turnlog import PastTurn, TurnLog
from memtrace.reference.window import Key, Turn, Windows
from memtrace.stores.contract import FactStore
from memtrace.tracing import BlockSpan, ReadSpan, Tracing, WriteSpan


@dataclass(frozen=True, slots=True)
class Parts:
    """What a memory is made of. ``shared`` blocks are for every caller, ``personal`` ones for a resolved user."""

    tracing: Tracing
    agent_id: str
    shared: tuple[Block, ...]
    personal: tuple[Block, ...]
    windows: Windows
    facts: Facts
    learned: Learned
    clock: Callable[[], float]
    extractor: Extractor | None = None
    recall: Recall | None = None
    summary: Summary | None = None
    turn_log: TurnLog | None = None


@dataclass(frozen=True, slots=True)
class Owner:
    """The user of a turn: which conversation it is of, and whether what they say was forgotten since it opened."""

    key: Key
    guard: Guard

    @property
    def scope(self) -> Scope:
        """The scope of their facts."""
        return self.key.scope


class MemoryTurn:
    """The memory of one turn, for the caller it was resolved to as it opened.

    An unresolved caller (``requester`` is ``None``) reads the agent's facts, and nothing they say is kept.
    """

    def __init__(self, parts: Parts, owner: Owner | None, outgoing: Callable[[str], str], store: FactStore) -> None:
        self._parts = parts
        self._store = store
        self._owner = owner
        self._outgoing = outgoing
        self._queue: dict[str, tuple[str, bool]] = {}

    @property
    def requester(self) -> str | None:
        """The user this turn belongs to."""
        return self._owner.key.user if self._owner else None

    @property
    def session(self) -> str:
        """Which of the user's conversations."""
        return self._owner.key.session if self._owner else ""

    @property
    def erased(self) -> bool:
        """Whether the user was erased since the turn opened: nothing of it may be kept then, anywhere."""
        return self._owner is not None and self._owner.guard.erased()

    def read(self, query: str) -> list[Message]:
        """What memory puts into the prompt: a system message a block, in declared order, then the window.

        A block that fails is left out, or shows what it knew before; its span says so.
        """
        owner, parts = self._owner, self._parts
        key = owner.key if owner else None
        conversation = parts.windows.get(key) if key else None
        reading = Reading(query, self._outgoing, key, conversation, store=self._store)
        with parts.tracing.read(query) as span:
            blocks = parts.shared + parts.personal if owner else parts.shared
            messages = [message for block in blocks for message in self._rendered(span, block, reading)]
            if owner is not None:
                window = conversation.messages if conversation else []
                with span.block("window", type="window") as block:
                    block.rendered(window)
                messages += window
            span.messages(len(messages))
        return messages

    def write(self, question: str, answer: str) -> None:
        """Keep a turn that succeeded: the user's words and the final answer, and what follows from them.

        Each part fails alone and visibly; what the model queued takes effect last. What was forgotten since the turn
        opened is not brought back.
        """
        owner, parts = self._owner, self._parts
        if owner is None:
            return
        turn = Turn(question, answer)
        with parts.tracing.write() as span:
            self._step(span, "window", "window", partial(self._keep_turn, owner, turn, span))
            if parts.extractor is not None:
                self._step(span, "facts", "learning", partial(self._learn, owner, question, parts.extractor))
            if parts.recall is not None:
                self._step(span, "vector", "recall", partial(self._index, owner, turn, parts.recall))
            if parts.summary is not None:
                self._step(span, "summary", "summary", partial(self._summarize, owner, parts.summary))
            if parts.turn_log is not None:
                self._step(span, "turn_log", "log", partial(self._log, owner, question, parts.turn_log))
            if self._queue:
                self._step(span, "queued", "learning", partial(self._apply_queue, owner))

    def remember(self, text: str) -> None:
        """Keep a fact once the turn has succeeded; the last word on a text counts."""
        self._enqueue(text, keep=True)

    def forget(self, text: str) -> None:
        """Forget a fact once the turn has succeeded; the last word on a text counts."""
        self._enqueue(text, keep=False)

    def _enqueue(self, text: str, *, keep: bool) -> None:
        if text.strip():
            self._queue[folded(text)] = (text.strip(), keep)

    def _rendered(self, span: ReadSpan, block: Block, reading: Reading) -> Sequence[Message]:
        query = reading.query if block.type == "recall" else ""
        with span.block(block.name, type=block.type, scope=block.scope(reading), query=query) as shown:
            try:
                rendered = block.render(reading)
            except Exception as error:  # noqa: BLE001  an embedder or an index of the application's may raise anything
                report(shown, f"reading {block.name}", error)
                return ()
            shown.rendered(rendered.items, scores=rendered.scores, deduped=rendered.deduped)
            if rendered.failure is not None:
                report(shown, f"reading {block.name}", rendered.failure)
                shown.freshness("stale" if rendered.known else "missing")
            if rendered.curated is not None:
                show_curated(shown, rendered.curated)
            if rendered.refusal is not None:
                raise rendered.refusal
            return rendered.messages

    def _step(self, span: WriteSpan, name: str, kind: str, step: Callable[[BlockSpan], None]) -> None:
        with span.block(name, type=kind, scope=self._owner.scope if self._owner else None) as block:
            try:
                step(block)
            except Exception as error:  # noqa: BLE001  as above; the answer was given, the other parts go on
                report(block, f"writing {name}", error)

    def _keep_turn(self, owner: Owner, turn: Turn, write: WriteSpan, block: BlockSpan) -> None:
        windows, guard = self._parts.windows, owner.guard
        erasure = guard.opened.erased if guard.opened else None
        kept = not guard.erased() and windows.append(owner.key, turn, erasure)
        if kept and guard.erased():
            windows.remove(owner.key, turn)
            kept = False
        count = len(turn.messages) if kept else 0
        write.messages(count)
        block.stored(count, action="stored" if kept else "discarded")

    def _learn(self, owner: Owner, question: str, extractor: Extractor, block: BlockSpan) -> None:
        if owner.guard.forgotten():
            block.stored(0, action="discarded")
            return
        added = self._filed(owner, extractor.facts(self._outgoing(question)), block)
        block.stored(len(added), action="extracted_facts", author=Author.USER, records=added)

    def _filed(self, owner: Owner, facts: Sequence[str], block: BlockSpan) -> list[Record]:
        writer = Writer(block.trace_id, block.span_id)
        return self._parts.learned.keep(facts, owner.scope, writer, withdrawn=owner.guard.forgotten, store=self._store)

    def _index(self, owner: Owner, turn: Turn, recall: Recall, block: BlockSpan) -> None:
        if owner.guard.erased():
            block.stored(0, action="discarded")
            return
        kept = recall.keep(owner.key.owner, turn.messages)
        if owner.guard.erased():
            recall.index.delete(owner.key.owner, list(kept))
            block.stored(0, action="discarded")
            return
        block.stored(len(kept), action="embedded")
        recall.place(owner.key.owner, kept, self._outgoing)

    def _summarize(self, owner: Owner, summary: Summary, block: BlockSpan) -> None:
        turns = 0 if owner.guard.erased() else summary.update(owner.key, self._outgoing)
        block.stored(turns, action="summarized" if turns else "noop")

    def _log(self, owner: Owner, question: str, log: TurnLog, block: BlockSpan) -> None:
        if owner.guard.forgotten():
            block.stored(0, action="discarded")
            return
        parts, key = self._parts, owner.key
        past = PastTurn(key.project, parts.agent_id, key.user, question, parts.clock(), block.trace_id, block.span_id)
        number = log.add(past)
        if owner.guard.forgotten():
            log.remove(number)
        block.stored(1, action="stored", author=Author.USER)

    def _apply_queue(self, owner: Owner, block: BlockSpan) -> None:
        # What is kept first: forgetting marks the scope, and after a mark this turn keeps nothing more.
        added = self._filed(owner, [text for text, wanted in self._queue.values() if wanted], block)
        block.stored(len(added), action="remembered", author=Author.ASSISTANT, records=added)
        for text, wanted in self._queue.values():
            if not wanted:
                self._parts.facts.remove(owner.scope, text)
