"""Where forgotten words turned up again, and how they can have come back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final

from memtrace.harness.findings import Judgement, accuse, shown, violated
from memtrace.harness.record.events import FactsRead, FactWritten, Scanned
from memtrace.harness.record.excerpts import excerpt
from memtrace.harness.record.history import Call, History, canaries_in
from memtrace.harness.seen.facts import READS
from memtrace.harness.seen.forgotten import Forgetting, begun, forgettings
from memtrace.model import Caller, Evidence

_PROMPT: Final = ("prompt",)


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
    """In calls of turns that were begun afterwards."""
    for call in history.all_calls:
        turn = call.turn
        if turn is None or turn.started < forgetting.at:
            continue
        for word in canaries_in(call.prompt.text):
            if word not in forgetting.spoken and _gone(history, forgetting, word, call.at, turn.caller):
                yield Remnant(forgetting, word, call.at, turn.process, call=call)


def _in_reads(history: History, forgetting: Forgetting) -> Iterator[Remnant]:
    for read in history.of(FactsRead):
        if read.at < forgetting.at or read.error:
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
        for word in scan.found if scan.at > forgetting.at else ():
            kept = tuple(file for file in scan.found[word] if not _no_memory(history, file))
            if kept and word not in forgetting.spoken and _gone(history, forgetting, word, scan.at):
                yield Remnant(forgetting, word, scan.at, scan.process, files=kept)


def _no_memory(history: History, file: str) -> bool:
    telemetry = history.declared("telemetry") or ()
    saved = {event.file for event in history.of(FactWritten) if event.op == "save"}
    return any(fnmatchcase(file, pattern) for pattern in telemetry) or any(
        file == name or file.startswith(f"{name}/") for name in saved if name
    )


def _gone(history: History, forgetting: Forgetting, word: str, at: int, viewer: Caller | None = None) -> bool:
    """Whether a word is forgotten still, that the viewer had known: nobody whose words they may see has said it since.

    What they may not see at all is a leak, and is judged as one.
    """
    if word not in forgetting.words:
        return False
    sources = [s for s in history.sources(word) if viewer is None or history.owns(s, viewer)]
    known = any(source.at < forgetting.at for source in sources)
    return known and not any(forgetting.at < begun(history, source) < at for source in sources)


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
    sitting = history.sitting(remnant.process, remnant.at)
    showing = {other.at for other in remnants(history) if other.word == remnant.word}
    return any(
        look.at < remnant.at
        and look.kind == kind
        and look.at not in showing
        and history.sitting(look.process, look.at) == sitting
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
    elsewhere = remnant.process != remnant.forgetting.event.process
    return elsewhere and history.sitting(remnant.process, remnant.at) < remnant.forgetting.at


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
