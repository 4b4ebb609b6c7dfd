"""Turns that a script declared to be alike: the same thing done in two ways."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memtrace.harness.events import Noted
from memtrace.harness.findings import clipped
from memtrace.harness.history import History, Turn
from memtrace.model import Author, Message, Prompt


def twins(history: History, rule: str) -> Iterator[tuple[Turn, Turn]]:
    """The pairs of turns that the script declared to be alike for a rule."""
    for note in history.of(Noted):
        if note.name == "twins" and note.value["rule"] == rule:
            one, other = note.value["turns"]
            yield history.turns[one], history.turns[other]


def alike(one: Message, other: Message) -> bool:
    """Whether two messages are the same but for tool-call ids and, in system messages, numbers such as a date."""
    return _plain(one) == _plain(other)


def difference(one: Prompt, other: Prompt) -> tuple[str, str] | None:
    """The first two messages in which two prompts differ, as lines; ``None`` where they do not."""
    longest = max(len(one.messages), len(other.messages))
    for place in range(longest):
        mine, theirs = (p.messages[place] if place < len(p.messages) else None for p in (one, other))
        if mine is None or theirs is None or not alike(mine, theirs):
            return _line(mine), _line(theirs)
    return None


def _plain(message: Message) -> tuple[object, ...]:
    text = re.sub(r"\d+", "0", message.text) if message.author is Author.SYSTEM else message.text
    return message.author, text.strip(), tuple((call.name, call.arguments) for call in message.tool_calls)


def _line(message: Message | None) -> str:
    return "nothing" if message is None else f"{message.author}: {clipped(message.text)}"
