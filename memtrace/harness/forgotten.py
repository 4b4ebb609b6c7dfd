"""What was forgotten, and where it turned up again all the same.

A word counts as forgotten where everything that its owner had said or stored of it by then was. Whoever says it again
afterwards brings it back lawfully. What was forgotten as a fact may go on standing in the conversation it was said in;
what was erased may not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from memtrace.harness.events import Closed, FactsRead, FactWritten, Opened, ProcessStarted, Scanned
from memtrace.harness.facts_seen import READS, listings
from memtrace.harness.findings import Judgement, accuse, shown, violated
from memtrace.harness.history import Call, History, Source, canaries_in, excerpt
from memtrace.model import Caller, Evidence

FORGETTING: Final = frozenset({"forget", "erase"})
_PROMPT: Final = ("prompt",)


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


@dataclass(frozen=True, slots=True, eq=False)
class Remnant:
    """A forgotten word that was seen again: in a prompt, in a read, or in files."""

    forgetting: Forgetting
    word: str
    at: int
    process: str
    call: Call | None = None
    read: FactsRead | None = None
    files: tuple[str, ...] = ()

    def accuse(self, reason: str) -> Judgement:
        """A violation seen here."""
        forgotten = Evidence("what was forgotten", f"{self.word}, by {self.forgetting}")
        if self.call is not None:
            return accuse(self.call, reason, shown(self.call, self.word), forgotten)
        if self.read is not None:
            text = next(text for text in self.read.texts if self.word in text.lower())
            return violated(reason, Evidence(f"what {self.read.op} gave", excerpt(text, self.word)), forgotten)
        return violated(reason, Evidence("still in the files", ", ".join(self.files)), forgotten)

    @property
    def where(self) -> str:
        """Where it was seen, in a few words."""
        if self.call is not None:
            return f"the {self.call.purpose} prompt of turn {self.call.turn}"
        return f"what {self.read.op} gave" if self.read is not None else f"the file {self.files[0]}"


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


# Where it turned up again


@lru_cache(maxsize=1)
def remnants(history: History) -> tuple[Remnant, ...]:
    """Every sighting of a forgotten word that nobody had brought back, in order."""
    found = [
        remnant
        for forgetting in forgettings(history)
        for seen in (_in_prompts, _in_reads, _in_files)
        for remnant in seen(history, forgetting)
    ]
    return tuple(sorted(found, key=lambda remnant: remnant.at))


def _in_prompts(history: History, forgetting: Forgetting) -> Iterator[Remnant]:
    """In calls of turns that its caller began afterwards."""
    for call in history.all_calls:
        turn = call.turn
        if turn is None or turn.started < forgetting.at or not history.same(turn.caller, forgetting.caller):
            continue
        for word in canaries_in(call.prompt.text):
            if word not in forgetting.spoken and _gone(history, forgetting, word, call.at, turn.caller):
                yield Remnant(forgetting, word, call.at, turn.process, call=call)


def _in_reads(history: History, forgetting: Forgetting) -> Iterator[Remnant]:
    for read in history.of(FactsRead):
        if read.at < forgetting.at or read.error or not history.same(read.caller, forgetting.caller):
            continue
        for word in canaries_in("\n".join(_texts(read, forgetting))):
            lawful = word in forgetting.spoken and read.op not in READS
            if not lawful and _gone(history, forgetting, word, read.at, read.caller):
                yield Remnant(forgetting, word, read.at, read.process, read=read)


def _texts(read: FactsRead, forgetting: Forgetting) -> Iterable[str]:
    # What was said in a turn may have been learned more than once, and one of the two superseded.
    if read.facts and forgetting.spoken:
        return [fact.text for fact in read.facts if not fact.superseded]
    return read.texts


def _in_files(history: History, forgetting: Forgetting) -> Iterator[Remnant]:
    """In files that hold memory: not in telemetry, nor where the application had a window saved."""
    for scan in history.of(Scanned):
        for word, files in scan.found.items():
            kept = tuple(file for file in files if not _no_memory(history, file))
            if scan.at > forgetting.at and kept and word not in forgetting.spoken:
                if _gone(history, forgetting, word, scan.at):
                    yield Remnant(forgetting, word, scan.at, scan.process, files=kept)


def _no_memory(history: History, file: str) -> bool:
    telemetry = history.declared("telemetry") or ()
    saved = {event.file for event in history.of(FactWritten) if event.op == "save"}
    return any(fnmatchcase(file, pattern) for pattern in telemetry) or any(
        file == name or file.startswith(f"{name}/") for name in saved if name
    )


def _gone(history: History, forgetting: Forgetting, word: str, at: int, viewer: Caller | None = None) -> bool:
    """Whether a word is forgotten still: nobody whose words the viewer may see has said it since."""
    if word not in forgetting.words:
        return False
    since = (source for source in history.sources(word) if forgetting.at < begun(history, source) < at)
    return not any(viewer is None or history.owns(source, viewer) for source in since)


def begun(history: History, source: Source) -> int:
    """When a word entered: of one from a turn, when that turn began."""
    return history.turns[source.turn].started if source.turn in history.turns else source.at


# How it can have come back


def in_flight(history: History, remnant: Remnant) -> bool:
    """Whether a turn that said the word was open as it was forgotten."""
    return any(
        turn.started < remnant.forgetting.at < turn.ended <= remnant.at
        for source in history.sources(remnant.word)
        if (turn := history.turns.get(source.turn)) is not None and source.at < remnant.forgetting.at
    )


def learned_offline(history: History, remnant: Remnant) -> bool:
    """Whether offline learning ran after it was forgotten, before it was seen."""
    runs = (event.at for event in history.of(FactWritten) if event.op == "learn_offline" and not event.error)
    return any(remnant.forgetting.at < at < remnant.at for at in runs)


def was_away(history: History, remnant: Remnant) -> bool:
    """Whether an earlier look of the same kind, at the same open system, did not show it: something brought it back.

    What its owner loaded from a file or resumed since had been kept there all the time.
    """
    if remnant.files or _fetched(history, remnant):
        return False
    kind = _PROMPT if remnant.read is None else _kind(remnant.read)
    sitting = _sitting(history, remnant.at, remnant.process)
    showing = {other.at for other in remnants(history) if other.word == remnant.word}
    return any(
        look.at < remnant.at
        and look.kind == kind
        and look.at not in showing
        and _sitting(history, look.at, look.process) == sitting
        for look in looks(history, remnant.forgetting)
    )


def _fetched(history: History, remnant: Remnant) -> bool:
    loads = ((e.at, e.caller) for e in history.of(FactWritten) if e.op == "load" and not e.error)
    resumed = ((turn.started, turn.caller) for turn in history.turns.values() if turn.of)
    return any(
        remnant.forgetting.at < at < remnant.at and history.same(caller, remnant.forgetting.caller)
        for at, caller in (*loads, *resumed)
    )


def in_stale_process(history: History, remnant: Remnant) -> bool:
    """Whether it was seen in a process that was there already as another process forgot it."""
    if remnant.process == remnant.forgetting.event.process:
        return False
    started = {event.process: event.at for event in history.of(ProcessStarted)}
    opened = max(_sitting(history, remnant.at, remnant.process), started.get(remnant.process, 0))
    return opened < remnant.forgetting.at


@dataclass(frozen=True, slots=True)
class Look:
    """A look at memory by the caller who had forgotten; of two of one ``kind`` the same can be expected."""

    at: int
    process: str
    kind: tuple[object, ...]


def looks(history: History, forgetting: Forgetting) -> Iterator[Look]:
    """Every look that its caller took afterwards."""
    for turn in history.turns.values():
        if turn.started > forgetting.at and turn.answers and history.same(turn.caller, forgetting.caller):
            yield Look(turn.answers[0].at, turn.process, _PROMPT)
    for read in history.of(FactsRead):
        if read.at > forgetting.at and not read.error and history.same(read.caller, forgetting.caller):
            yield Look(read.at, read.process, _kind(read))


def _kind(read: FactsRead) -> tuple[object, ...]:
    return read.op, read.query, read.record, read.limit, read.superseded


def _sitting(history: History, at: int, process: str) -> int:
    """When the system that a process had open at a moment was opened; other processes open theirs once."""
    if process != "main":
        return next((event.at for event in history.of(ProcessStarted) if event.process == process), 0)
    return max((event.at for event in history.of(Opened, Closed) if event.at < at), default=0)


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

