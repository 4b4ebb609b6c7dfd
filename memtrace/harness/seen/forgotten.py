"""What was forgotten: which words, of whom, when.

A word counts as forgotten where everything that its owner had said or stored of it by then was. Whoever says it again
afterwards brings it back lawfully. What was forgotten as a fact may go on standing in the conversation it was said in;
what was erased may not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from memtrace.harness.record.events import FactsRead, FactWritten
from memtrace.harness.record.history import History, Source, canaries_in
from memtrace.harness.seen.facts import READS, listings
from memtrace.model import Caller

FORGETTING: Final = frozenset({"forget", "erase"})


@dataclass(frozen=True, slots=True, eq=False)
class Forgetting:
    """A call by which a caller forgot something.

    Attributes:
        words: the words that are gone since, as facts; of an erasure altogether.
        spoken: those among them that were said in a turn too, and so may go on standing in a conversation.
    """

    event: FactWritten
    words: frozenset[str]
    spoken: frozenset[str]

    @property
    def at(self) -> int:
        """Its place in the order."""
        return self.event.at

    @property
    def caller(self) -> Caller:
        """Who forgot."""
        return self.event.caller

    @property
    def all_of_them(self) -> bool:
        """Whether everything kept of the caller was to go, not facts alone."""
        return self.event.op == "erase"

    def __str__(self) -> str:
        which = f" of record {self.event.record}" if self.event.record else ""
        return f"{self.event.op}{which} by {self.caller.user or self.caller.session:.60}"


@lru_cache(maxsize=1)
def forgettings(history: History) -> tuple[Forgetting, ...]:
    """Every call that forgot something of its caller's own, in order."""
    done = (e for e in history.of(FactWritten) if e.op in FORGETTING and not e.error and e.count != 0)
    return tuple(found for event in done if (found := _forgetting(history, event)).words)


def _forgetting(history: History, event: FactWritten) -> Forgetting:
    if event.op == "forget" and event.record:
        return _of_record(history, event)
    words = {word for word, sources in history.canaries.items() if _all_own(history, sources, event)}
    spoken = words if event.op == "forget" else set()
    return Forgetting(event, frozenset(words), _said(history, spoken, event.at))


def _all_own(history: History, sources: list[Source], event: FactWritten) -> bool:
    """Whether a word had entered by then, and only as this caller's own."""
    before = [source for source in sources if source.at < event.at]
    return bool(before) and all(not s.shared and history.same(s.caller, event.caller) for s in before)


def _said(history: History, words: Iterable[str], at: int) -> frozenset[str]:
    return frozenset(w for w in words if any(s.way != "fact" for s in history.sources(w) if s.at < at))


def _of_record(history: History, event: FactWritten) -> Forgetting:
    """One record and all it superseded."""
    records = _chain(history, event)
    writes = {w.at for w in history.of(FactWritten) if w.op in ("add", "update") and _made(w) in records}
    reads = [read for read in history.of(FactsRead) if read.at < event.at and history.same(read.caller, event.caller)]
    texts = [w.text for w in history.of(FactWritten) if w.at in writes]
    texts += [fact.text for read in reads for fact in read.facts if fact.id in records]
    words, spoken = set(), set()
    for word in canaries_in("\n".join(texts)):
        before = [source for source in history.sources(word) if source.at < event.at]
        if all(source.way == "fact" and source.at in writes for source in before):
            words.add(word)
        elif all(s.way != "fact" or s.at in writes for s in before) and _only_in(history, word, records, event):
            spoken.add(word)
    return Forgetting(event, frozenset(words | spoken), frozenset(spoken))


def _chain(history: History, event: FactWritten) -> set[str]:
    """The record of a forgetting, and those it superseded."""
    records = {event.record}
    for update in reversed(list(history.of(FactWritten))):
        own = update.op == "update" and update.at < event.at and not update.error
        if own and update.returned in records and history.same(update.caller, event.caller):
            records.add(update.record)
    return records


def _made(event: FactWritten) -> str:
    return event.returned if event.op == "update" else event.record


def _stored_by(history: History, source: Source) -> int:
    """When a word may be in the store: of one from a turn, once that turn has ended."""
    return history.turns[source.turn].ended if source.turn in history.turns else source.at


def _only_in(history: History, word: str, records: set[str], event: FactWritten) -> bool:
    """Whether the last listing before shows a word that was said in a turn in these records, and in no other."""
    before = [r for r in listings(history) if r.at < event.at and history.same(r.caller, event.caller) and r.facts]
    if not before or any(before[-1].at < _stored_by(history, s) < event.at for s in history.sources(word)):
        return False
    holding = {fact.id for fact in before[-1].facts if word in fact.text.lower()}
    return bool(holding) and holding <= records


def begun(history: History, source: Source) -> int:
    """When a word entered: of one from a turn, when that turn began."""
    return history.turns[source.turn].started if source.turn in history.turns else source.at


def seen_before(history: History, forgetting: Forgetting) -> bool:
    """Whether memory had shown any of it before it was forgotten: then that it is gone means something."""
    own = [turn for turn in history.turns.values() if history.same(turn.caller, forgetting.caller)]
    said_in = {word: {s.turn for s in history.sources(word) if s.turn} for word in forgetting.words}
    prompts = (
        word in forgetting.words - forgetting.spoken and turn.id not in said_in[word]
        for turn in own
        for call in turn.calls
        if call.at < forgetting.at
        for word in canaries_in(call.prompt.text)
    )
    reads = (
        word in forgetting.words and (word not in forgetting.spoken or read.op in READS)
        for read in history.of(FactsRead)
        if read.at < forgetting.at and history.same(read.caller, forgetting.caller)
        for word in canaries_in("\n".join(read.texts))
    )
    return any(prompts) or any(reads)
