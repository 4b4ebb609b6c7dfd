"""What is kept of a conversation, as later prompts replay it and reads of the stored messages show it.

Only messages that repeat an utterance word for word count as replayed: a block of facts, a summary or recalled text
that holds the same words is memory too, but not conversation.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from memtrace.harness.findings import Judgement, accuse, clipped, violated
from memtrace.harness.record.events import Closed, FactsRead, FactWritten, Opened, TurnStarted
from memtrace.harness.record.history import Call, History, Turn, canaries_in
from memtrace.model import Author, Caller, Evidence, Message

EMAIL: Final = re.compile(r"[\w.+-]+@[\w-]+\.[\w.]*\w")
_OK: Final = 200
_RESETS: Final = frozenset({"erase", "forget", "load"})
"""What an application may do to a conversation between two turns; afterwards nothing follows from what was before."""
_LONGEST: Final = 10_000
"""Longer utterances are looked for as they are."""
_DECORATION: Final = 40
"""Characters that a replayed message may have more than the utterance, such as a time or a name."""


@dataclass(frozen=True, slots=True, eq=False)
class Exchange:
    """One turn as it should be kept.

    Attributes:
        turns: all that led to it: a resumed run began in another.
        asides: what the model said before its final answer.
        distinct: the answer has a planted word that was said in no other turn, and so can be told anywhere.
    """

    turn: Turn
    turns: tuple[str, ...]
    question: str
    answer: str
    asides: tuple[str, ...] = ()
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class Kept:
    """The places in a view of an exchange's question, and of its answer."""

    asked: tuple[int, ...]
    answered: tuple[int, ...]

    @property
    def nothing(self) -> bool:
        """The exchange is not there at all."""
        return not self.asked and not self.answered

    @property
    def whole(self) -> bool:
        """The question and then the answer, each once."""
        return len(self.asked) == 1 == len(self.answered) and self.asked < self.answered


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """A look at what is kept of earlier turns: the messages before a turn's own in its first answer prompt, or a read.

    Attributes:
        rest: the messages of the prompt that are no conversation: system prompt and blocks.
    """

    at: int
    messages: tuple[Message, ...]
    rest: tuple[Message, ...] = ()
    call: Call | None = None

    def accuse(self, reason: str) -> Judgement:
        """A violation seen here, with the messages as evidence."""
        where = f"replayed in turn {self.call.turn}" if self.call else "what the system says it stores"
        evidence = Evidence(where, listed(self.messages) or "(nothing)")
        return accuse(self.call, reason, evidence) if self.call else violated(reason, evidence)

    def kept(self, exchange: Exchange) -> Kept:
        """Where the exchange is. An answer that other turns may have had too is looked for after its question only."""
        asked = tuple(self._replaying(exchange.question, self._by(Author.USER)))
        told = self._by(Author.ASSISTANT)
        if exchange.distinct:
            return Kept(asked, tuple(self._replaying(exchange.answer, told)))
        behind = [place for place in told if any(place in self._after(question) for question in asked)]
        return Kept(asked, tuple(self._replaying(exchange.answer, behind))[: len(asked)])

    def _replaying(self, words: str, places: Sequence[int]) -> Iterator[int]:
        """Those places whose messages say these words again."""
        return (place for place in places if replays(self.messages[place].text, words))

    def _by(self, author: Author) -> list[int]:
        """The places of one author's messages, calls of tools left out."""
        return [n for n, message in enumerate(self.messages) if message.author is author and not message.tool_calls]

    def _after(self, place: int) -> range:
        """The places between a user's message and the next."""
        later = [other for other in self._by(Author.USER) if other > place]
        return range(place, later[0] if later else len(self.messages))


@dataclass(slots=True, eq=False)
class Conversation:
    """The turns of one caller in one process, as far as nothing reset what is kept of them; and the looks at it."""

    turns: list[Turn] = field(default_factory=list)
    views: list[View] = field(default_factory=list)

    def before(self, view: View) -> list[Turn]:
        """The turns that had ended when it was looked at."""
        return [turn for turn in self.turns if turn.ended < view.at]

    def alone(self, turn: Turn) -> bool:
        """Whether no other turn of the conversation overlapped with this one."""
        return not any(overlap(turn, other) for other in self.turns if other is not turn)


def overlap(one: Turn, other: Turn) -> bool:
    """Whether two turns were open at the same time."""
    return one.started < other.ended and other.started < one.ended


@lru_cache(maxsize=1)
def conversations(history: History) -> tuple[Conversation, ...]:
    """All conversations of a history, in the order they began."""
    found: dict[tuple[Any, ...], Conversation] = defaultdict(Conversation)
    opened, resets = 0, defaultdict[tuple[Any, ...], int](int)
    for event in history.events:
        if isinstance(event, (Opened, Closed)):
            opened += 1
        elif isinstance(event, FactWritten) and event.op in _RESETS:
            resets[_whose(history, event.caller)] += 1
        elif isinstance(event, (TurnStarted, FactsRead)) and event.caller.unresolved is None:
            whose = _whose(history, event.caller)
            sitting = opened if event.process == "main" else event.process
            _take(history, found[sitting, resets[whose], whose], event)
    return tuple(found.values())


def _take(history: History, conversation: Conversation, event: TurnStarted | FactsRead) -> None:
    if isinstance(event, FactsRead):
        if event.op == "messages" and not event.error:
            conversation.views.append(View(event.at, event.messages))
        return
    turn = history.turns[event.turn]
    conversation.turns.append(turn)
    if turn.answers:
        conversation.views.append(_view(history, turn.answers[0]))


def _whose(history: History, caller: Caller) -> tuple[Any, ...]:
    fields = [name for name, claim in (("session", "session"), ("agent", "agents")) if history.can(claim)]
    return history.identity(caller), *(getattr(caller, name) for name in fields)


def _view(history: History, call: Call) -> View:
    messages = call.prompt.messages
    own = own_input(history, call)
    earlier = messages[: len(messages) if own is None else own]
    spoken = tuple(message for message in earlier if message.author is not Author.SYSTEM)
    return View(call.at, spoken, tuple(message for message in messages if message.author is Author.SYSTEM), call)


def own_input(history: History, call: Call) -> int | None:
    """The place, in a turn's first answer prompt, of the last message of the user's that holds its question."""
    if call.turn is None:
        return None
    asked = question(history, call.turn)
    places = [n for n, m in enumerate(call.prompt.messages) if m.author is Author.USER and holds(m.text, asked)]
    return places[-1] if places else None


# Turns as they should be kept


def question(history: History, turn: Turn) -> str:
    """What a turn was asked; a resumed or forked run's question is that of the run it goes on with."""
    return next((text for led in led_to(history, turn) if (text := history.turns[led].text)), "")


@lru_cache(maxsize=1024)
def exchange(history: History, turn: Turn) -> Exchange:
    """A turn as it should be kept. The answer is the last thing the model said that was not on the way to a tool."""
    replies = [call for call in turn.answers if call.status == _OK]
    final = replies[-1].reply if replies and not replies[-1].tool_calls else ""
    asides = tuple(call.reply for call in replies if call.tool_calls and call.reply)
    turns = tuple(led_to(history, turn))
    return Exchange(
        turn, turns, question(history, turn), final, asides, distinct=_only_there(history, final, "reply", turns)
    )


def led_to(history: History, turn: Turn) -> Iterator[str]:
    """The ids of a turn and of those whose paused run it goes on with."""
    going: Turn | None = turn
    while going is not None:
        yield going.id
        going = history.turns.get(going.of)


def marked(history: History, exchange: Exchange) -> bool:
    """Whether the question has a planted word that no other turn was asked: then its messages can be told."""
    return _only_there(history, exchange.question, "turn", exchange.turns)


def _only_there(history: History, text: str, way: str, turns: Sequence[str]) -> bool:
    return any(
        all(source.turn in turns for source in history.sources(word) if source.way == way) for word in marks(text)
    )


def plain(conversation: Conversation, turn: Turn) -> bool:
    """Whether a turn is nothing but a question and an answer: no other rule says what is kept of it."""
    way = turn.via == "run" or (turn.via == "stream" and len(turn.answers) == 1)
    at_once = all(call.status == _OK and call.exact for call in turn.calls)
    return way and at_once and turn.ok and bool(turn.answers) and conversation.alone(turn)


# Words


@lru_cache(maxsize=1024)
def marks(text: str) -> list[str]:
    """The planted words of a text that redaction leaves alone."""
    return canaries_in(EMAIL.sub(" ", text))


def holds(text: str, words: str) -> bool:
    """Whether a text holds an utterance, its e-mail addresses perhaps redacted, or quoted as JSON."""
    return _found(text, words) is not None


def replays(text: str, words: str) -> bool:
    """Whether a message is an utterance said again, line for line, perhaps with a little in front of it or behind."""
    found = _found(text, words, by_line=True) if words.strip() else None
    if found is None:
        return False
    more = text[: found[0]].lstrip() + text[found[1] :].rstrip()
    return len(more) <= _DECORATION and "\n" not in more and not canaries_in(more)


def _found(text: str, words: str, *, by_line: bool = False) -> tuple[int, int] | None:
    """Where in a text an utterance begins and ends."""
    words = words.strip()
    if (at := text.find(words)) >= 0:
        return at, at + len(words)
    if any(word not in text.lower() for word in marks(words)):
        return None  # and so no pattern has to be made
    match = _as_sent(words, by_line).search(text) if len(words) <= _LONGEST else None
    return match.span() if match else None


@lru_cache(maxsize=4096)
def _as_sent(words: str, by_line: bool) -> re.Pattern[str]:
    """Finds an utterance whose blanks, quotes and e-mail addresses may have been changed on the way."""
    forms = dict.fromkeys((words, json.dumps(words)[1:-1], json.dumps(words, ensure_ascii=False)[1:-1]))
    return re.compile("|".join(_loosely(form, by_line) for form in forms))


def _loosely(form: str, by_line: bool) -> str:
    blank = {True: r"\s*\n\s*", False: r"\s+"}
    pieces = (
        "".join(
            blank[by_line and "\n" in part] if part.isspace() else re.escape(part) for part in re.split(r"(\s+)", piece)
        )
        for piece in EMAIL.split(form)
    )
    return r"[^\n]{1,60}?".join(pieces)


def listed(messages: Sequence[Message]) -> str:
    """Messages as lines."""
    return "\n".join(f"{message.author}: {clipped(message.text)}" for message in messages)
