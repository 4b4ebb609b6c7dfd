"""How facts stand in a prompt."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache

from memtrace.harness.findings import Judgement, accuse, check, held, shown, untested
from memtrace.harness.record.events import Curated, FactsRead, FactWritten, Opened
from memtrace.harness.record.excerpts import excerpt
from memtrace.harness.record.history import Call, History, canaries_in
from memtrace.harness.seen.conversation import EMAIL, holds
from memtrace.model import Author, Evidence


@check("authors.once-in-prompt")
def once_in_prompt(history: History) -> Judgement:
    """Each fact reaches a prompt once, under its heading."""
    if any(opening.options.get("recall") or opening.options.get("summary") for opening in history.of(Opened)):
        return untested("recall or a summary may say a fact again")
    texts, judged = _facts(history), False
    for call in history.answers():
        blocks = "\n".join(message.text for message in call.prompt.messages if message.author is Author.SYSTEM)
        for word in canaries_in(blocks):
            counts = [
                _times(blocks, text, texts[word]) - _redacted_into(text, texts[word]) for text in texts.get(word, ())
            ]
            judged = judged or any(counts)
            if max(counts, default=0) > 1:
                blocks_with = [m for m in call.prompt.messages if m.author is Author.SYSTEM and word in m.text.lower()]
                where = [Evidence("a block of the prompt", excerpt(message.text, word)) for message in blocks_with]
                return accuse(call, f"one fact is in the prompt {max(counts)} times", *where)
    return held() if judged else untested("no fact was in a prompt")


def _times(blocks: str, text: str, texts: set[str]) -> int:
    """How often a fact is in the blocks, apart from where it is part of a longer one."""
    longer = [other for other in texts if text in other and other != text]
    return max(
        blocks.count(form) - sum(blocks.count(part) for other in longer for part in _forms(other))
        for form in _forms(text)
    )


def _redacted_into(text: str, texts: set[str]) -> int:
    """How many other facts read like this one once their e-mail addresses are redacted."""
    return sum(1 for other in texts if other != text and EMAIL.search(other) and holds(text, other))


def _facts(history: History) -> dict[str, set[str]]:
    """The texts of facts by their planted words: as written, as listed, or as said by users."""
    found: dict[str, set[str]] = {}
    texts = [turn.text for turn in history.turns.values()]
    texts += [event.text for event in history.of(FactWritten)]
    texts += [text for read in history.of(FactsRead) if read.op == "facts" for text in read.texts]
    for text in texts:
        for word in canaries_in(text):
            found.setdefault(word, set()).add(text.strip())
    return found


@lru_cache(maxsize=4096)
def _forms(text: str) -> frozenset[str]:
    """A text as it stands, or as JSON quotes it."""
    return frozenset({text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]})


@check("authors.text-stays-data")
def text_stays_data(history: History) -> Judgement:
    """No stored text can forge a heading, a role or another author's line in a prompt."""
    lines, judged = dict(_lines_of_texts(history)), False
    if not lines:
        return untested("nobody said anything of more than one line")
    for call in history.answers():
        for word, line in _lines_in_blocks(call):
            if word in lines:
                judged = True
                if line in lines[word]:
                    said = Evidence("what was said", lines[word][line])
                    return accuse(
                        call,
                        "a line that somebody said stands in the prompt as a line of memory's own",
                        shown(call, word),
                        said,
                    )
    return held(when=judged, otherwise="no text of more than one line reached a block of a prompt")


def _lines_of_texts(history: History) -> Iterator[tuple[str, dict[str, str]]]:
    """For each planted word that stands behind a line break: its line, and the whole text."""
    texts = [turn.text for turn in history.turns.values()] + [call.reply for call in history.answers()]
    texts += [event.text for event in history.of(FactWritten, Curated)]
    for text in texts:
        for line in text.splitlines()[1:]:
            for word in canaries_in(line):
                yield word, {line.rstrip(): text}


def _lines_in_blocks(call: Call) -> Iterator[tuple[str, str]]:
    for message in call.prompt.messages:
        if message.author is Author.SYSTEM:
            for line in message.text.splitlines():
                for word in canaries_in(line):
                    yield word, line.rstrip()
