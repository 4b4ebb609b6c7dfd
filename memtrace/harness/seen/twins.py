"""Turns that a script declared to be alike: the same thing done in two ways."""

from __future__ import annotations

import re
from collections.abc import Iterator

from memtrace.harness.findings import Judgement, clipped, held, outline, undecided, untested, violated
from memtrace.harness.record.events import FactsRead, Noted
from memtrace.harness.record.history import History, Turn
from memtrace.model import Author, Caller, Evidence, Message, Prompt

_Difference = tuple[str, tuple[Evidence, ...]]


def compared(history: History, rule: str, one_way: str, other_way: str) -> Judgement:
    """Whether the twins that a script declared for a rule sent the same prompts, and the same is stored after them."""
    pairs, control = list(twins(history, rule)), False
    for one, other in pairs:
        if one.outcome is not other.outcome:
            return undecided(f"turn {one} ended {one.outcome}, its twin {other} ended {other.outcome}")
        if found := _prompts_differ(one, other) or _stores_differ(history, one, other):
            what, evidence = found
            reason = f"{what} of turn {one} ({one_way}) and of its twin {other} ({other_way}) differ"
            return violated(reason, *evidence) if _exact(one, other) else undecided(reason, *evidence)
        control = control or _remembers(one)
    if not pairs:
        return untested("the script declared no twins")
    return held(when=control, otherwise="no twin was sent anything of an earlier turn")


def twins(history: History, rule: str) -> Iterator[tuple[Turn, Turn]]:
    """The pairs of turns that the script declared to be alike for a rule."""
    for note in history.of(Noted):
        if note.name == "twins" and note.value["rule"] == rule:
            one, other = note.value["turns"]
            yield history.turns[one], history.turns[other]


def difference(one: Prompt, other: Prompt) -> tuple[str, str] | None:
    """The first two messages in which two prompts differ, as lines; ``None`` where they do not.

    Ids of tool calls do not count, nor do numbers and digests in system messages, such as a date or a user's hash.
    """
    longest = max(len(one.messages), len(other.messages))
    for place in range(longest):
        mine, theirs = (p.messages[place] if place < len(p.messages) else None for p in (one, other))
        if mine is None or theirs is None or _plain(mine) != _plain(theirs):
            return _line(mine), _line(theirs)
    return None


def _plain(message: Message) -> tuple[object, ...]:
    text = re.sub(r"\b[0-9a-f]{8,}\b|\d+", "0", message.text) if message.author is Author.SYSTEM else message.text
    return message.author, text.strip(), tuple((call.name, call.arguments) for call in message.tool_calls)


def _line(message: Message | None) -> str:
    return "nothing" if message is None else f"{message.author}: {clipped(message.text)}"


def _remembers(turn: Turn) -> bool:
    return bool(turn.answers) and any(m.author is Author.ASSISTANT for m in turn.answers[0].prompt.messages)


def _exact(*turns: Turn) -> bool:
    return all(call.exact for turn in turns for call in turn.answers)


def _prompts_differ(one: Turn, other: Turn) -> _Difference | None:
    if len(one.answers) != len(other.answers):
        return f"the numbers of model calls ({len(one.answers)}, {len(other.answers)})", ()
    for mine, theirs in zip(one.answers, other.answers, strict=True):
        if found := difference(mine.prompt, theirs.prompt):
            return "the prompts", (Evidence("there", found[0]), Evidence("its twin", found[1]), outline(mine))
    return None


def _stores_differ(history: History, one: Turn, other: Turn) -> _Difference | None:
    mine, theirs = (_next_read(history, turn.caller, turn.ended) for turn in (one, other))
    if mine is None or theirs is None or mine.texts == theirs.texts:
        return None
    stored = [Evidence(title, "\n".join(read.texts)) for title, read in (("there", mine), ("its twin", theirs))]
    return "the stored messages", tuple(stored)


def _next_read(history: History, caller: Caller, after: int) -> FactsRead | None:
    reads = (read for read in history.of(FactsRead) if read.op == "messages" and read.at > after)
    return next((read for read in reads if read.caller == caller), None)
