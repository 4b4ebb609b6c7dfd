"""Where facts can be seen: in reads of them, and in the blocks of a prompt.

A block is a system message. Where recall or a summary is on, blocks may lawfully hold words that are no facts, and only
reads count.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from memtrace.harness.findings import Judgement, accuse, shown, violated
from memtrace.harness.record.events import FactsRead, FactWritten, Opened
from memtrace.harness.record.excerpts import excerpt
from memtrace.harness.record.history import NEVER, Call, History, canaries_in
from memtrace.model import Author, Evidence, Fact

READS = ("facts", "get", "search")


@dataclass(frozen=True, slots=True)
class Seen:
    """A planted word in a fact: in a block of a prompt, or in a read, with the fact itself where that tells it."""

    word: str
    text: str
    at: int
    call: Call | None = None
    read: FactsRead | None = None
    fact: Fact | None = None

    def accuse(self, reason: str, *evidence: Evidence) -> Judgement:
        """A violation seen here."""
        if self.call is not None:
            return accuse(self.call, reason, shown(self.call, self.word), *evidence)
        op = self.read.op if self.read is not None else "a read"
        return violated(reason, Evidence(f"what {op} gave", excerpt(self.text, self.word)), *evidence)


def seen_facts(history: History) -> Iterator[Seen]:
    """Every sighting of a planted word in a fact, in order within reads and within prompts."""
    yield from seen_in_reads(history)
    if not _blocks_hold_more_than_facts(history):
        for call in history.answers():
            for message in call.prompt.messages:
                if message.author is Author.SYSTEM:
                    for word in canaries_in(message.text):
                        yield Seen(word, message.text, call.at, call=call)


def seen_in_reads(history: History) -> Iterator[Seen]:
    """Those in reads alone."""
    for read in history.of(FactsRead):
        if read.op not in READS or read.error:
            continue
        facts = read.facts or (None,) * len(read.texts)
        for text, fact in zip(read.texts, facts, strict=True):
            for word in canaries_in(text):
                yield Seen(word, text, read.at, read=read, fact=fact)


def listings(history: History) -> list[FactsRead]:
    """The complete listings of facts, in order."""
    return [read for read in history.of(FactsRead) if read.op == "facts" and read.limit is None and not read.error]


def learned(history: History) -> bool:
    """Whether anything that a user said in a turn was seen as a fact: learning works at all."""
    return any(
        any(source.way == "turn" and source.at < seen.at for source in history.sources(seen.word))
        and all(source.way != "fact" for source in history.sources(seen.word))
        for seen in seen_facts(history)
    )


def first_offline(history: History) -> int:
    """When something was first learned offline; far in the future where nothing was."""
    runs = (event.at for event in history.of(FactWritten) if event.op == "learn_offline")
    return next(runs, NEVER)


def _blocks_hold_more_than_facts(history: History) -> bool:
    return any(opening.options.get("recall") or opening.options.get("summary") for opening in history.of(Opened))
