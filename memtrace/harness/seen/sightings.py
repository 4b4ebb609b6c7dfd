"""Where planted words turned up again: in whose later prompt, or in which read of what is kept.

Only what its reader may see counts here; what they may not is a leak, and is judged as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from memtrace.harness.findings import Judgement, accuse, shown, told, violated
from memtrace.harness.record.events import FactsRead
from memtrace.harness.record.excerpts import excerpt
from memtrace.harness.record.history import NEVER, Call, History, Source, Turn, canaries_in
from memtrace.harness.seen.conversation import led_to
from memtrace.harness.system import FORGET_TOOL, REMEMBER_TOOL
from memtrace.model import Caller, Evidence, Outcome

UNKEPT: Final = frozenset({Outcome.FAILED, Outcome.BLOCKED, Outcome.LIMIT, Outcome.PAUSED})
"""The outcomes of turns of which nothing may be kept."""
TRAFFIC: Final = frozenset({"tool", "call"})
"""The ways in which tool traffic enters: results, and the arguments that the model wrote."""
_FROM_TURNS: Final = TRAFFIC | {"turn", "reply"}


@dataclass(frozen=True, slots=True, eq=False)
class Sighting:
    """A planted word in a prompt, or in what a read gave.

    Attributes:
        sources: where it had entered by then.
        said: the turns that had said it by then, in order, with those that a resumed run of them is; empty where it
            came from outside of turns too.
    """

    word: str
    caller: Caller
    sources: tuple[Source, ...]
    said: tuple[Turn, ...]
    call: Call | None = None
    read: FactsRead | None = None

    @property
    def at(self) -> int:
        """Its place in the order."""
        return self.call.at if self.call is not None else self.read.at if self.read is not None else 0

    @property
    def ways(self) -> set[str]:
        """How it had entered: turn, reply, tool, call."""
        return {source.way for source in self.sources}

    def accuse(self, reason: str) -> Judgement:
        """A violation seen here, with where the word came from."""
        came = [told(turn) for turn in self.said[-1:]]
        if self.call is not None:
            return accuse(self.call, reason, shown(self.call, self.word), *came)
        op, texts = (self.read.op, self.read.texts) if self.read is not None else ("a read", ())
        text = next((text for text in texts if self.word in text.lower()), "")
        return violated(reason, Evidence(f"what {op} gave", excerpt(text, self.word)), *came)


@lru_cache(maxsize=1)
def sightings(history: History) -> tuple[Sighting, ...]:
    """Every sighting, in order, that is not in a turn which said the word itself, or went on with one that did."""
    return tuple(sorted([*_in_prompts(history), *_in_reads(history)], key=lambda sighting: sighting.at))


def _in_prompts(history: History) -> Iterator[Sighting]:
    for call in history.all_calls:
        if call.turn is None:
            continue
        own = set(led_to(history, call.turn))
        for word in canaries_in(call.prompt.text):
            sources = _before(history, word, call.turn.caller, call.at)
            if sources and not any(source.turn in own for source in sources):
                yield Sighting(word, call.turn.caller, sources, _said(history, sources, call.at), call=call)


def _in_reads(history: History) -> Iterator[Sighting]:
    for read in history.of(FactsRead):
        for word in canaries_in("\n".join(read.texts)):
            if sources := _before(history, word, read.caller, read.at):
                yield Sighting(word, read.caller, sources, _said(history, sources, read.at), read=read)


def _before(history: History, word: str, caller: Caller, at: int) -> tuple[Source, ...]:
    """The sources of a word so far, if one of them is the caller's."""
    sources = tuple(source for source in history.sources(word) if source.at < at)
    return sources if any(history.owns(source, caller) for source in sources) else ()


def _said(history: History, sources: tuple[Source, ...], at: int) -> tuple[Turn, ...]:
    if any(source.way not in _FROM_TURNS for source in sources):
        return ()
    named = {source.turn for source in sources}
    turns = (turn for turn in history.turns.values() if turn.started < at)
    return tuple(turn for turn in turns if not named.isdisjoint(led_to(history, turn)))


def remnants(history: History) -> Iterator[Sighting]:
    """Words that only turns of which nothing may be kept had said when they were seen.

    What the model asked the memory tools to keep is left to the rule about those.
    """
    asked = remembered(history)
    for sighting in sightings(history):
        if sighting.said and sighting.word not in asked and all(turn.outcome in UNKEPT for turn in sighting.said):
            yield sighting


def remembered(history: History) -> set[str]:
    """The words that the model asked the memory tools to keep or drop."""
    calls = (tool_call for call in history.answers() for tool_call in call.tool_calls)
    return {word for call in calls if call.name in (REMEMBER_TOOL, FORGET_TOOL) for word in canaries_in(call.arguments)}


def unlearned_traffic(history: History, word: str, at: int) -> bool:
    """Whether a word was by then nothing but tool traffic, and no memory model had been shown it.

    Where it is kept all the same, that is a fault between turns; what a memory model makes of it is one of learning.
    """
    sources = [source for source in history.sources(word) if source.at < at]
    handed = any(history.turns[source.turn].via in ("handoff", "delegate") for source in sources if source.turn)
    shown = any(call.at < at and word in call.prompt.text.lower() for call in history.memory_calls())
    return bool(sources) and all(source.way in TRAFFIC for source in sources) and not handed and not shown


def shown_own(history: History, caller: Caller, *, after: int, before: int = NEVER) -> bool:
    """Whether a caller was shown, between two moments, what an earlier turn of theirs that ended well had said.

    It is the positive control of rules about what must not be kept: memory works at all.
    """
    return any(
        after < sighting.at < before
        and (sighting.call is None or sighting.call.purpose == "answer")
        and history.same(sighting.caller, caller)
        and any(turn.ok and turn.ended < sighting.at for turn in sighting.said)
        for sighting in sightings(history)
    )
