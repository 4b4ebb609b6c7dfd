"""How far a turn has come: all that a paused run needs to go on, in another process too.

What memory put into its prompt is no part of it. That is read again when the run goes on, for whoever it belongs to, so
that nothing forgotten meanwhile comes back.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from memtrace.errors import TraceFormatError
from memtrace.model import Author, Message, ToolCall

Verb = Literal["remember", "forget"]


@dataclass(frozen=True, slots=True)
class Queued:
    """Something that the model asked memory to do, at the end of the turn."""

    verb: Verb
    text: str


@dataclass(slots=True)
class Progress:
    """A turn that has begun.

    Attributes:
        question: the user's input, in their own words.
        role: the name of the agent whose turn it is to speak.
        heir: the name of the one it has handed over to, who speaks once all tool calls have their results.
        history: messages that were passed in before the input.
        trail: what came after it: the model's tool calls and their results.
        queued: what is to be done to memory if the turn succeeds.
        calls: model calls made.
    """

    question: str
    role: str
    history: tuple[Message, ...] = ()
    trail: list[Message] = field(default_factory=list)
    queued: list[Queued] = field(default_factory=list)
    calls: int = 0
    heir: str = ""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The turn's own messages: its input, and what came after it."""
        return (Message(Author.USER, self.question), *self.trail)

    def pending(self) -> tuple[ToolCall, ...]:
        """The tool calls of the model's last message that have no result yet."""
        for results, message in enumerate(reversed(self.trail)):
            if message.author is not Author.TOOL:
                return message.tool_calls[results:]
        return ()


def dumped(progress: Progress) -> str:
    """As JSON, in ASCII: any text survives, a lone surrogate too."""
    return json.dumps(asdict(progress))


def loaded(text: str) -> Progress:
    """What `dumped` made.

    Raises:
        TraceFormatError: the text is something else.
    """
    try:
        raw = json.loads(text)
        return Progress(
            question=raw["question"],
            role=raw["role"],
            history=tuple(_message(each) for each in raw["history"]),
            trail=[_message(each) for each in raw["trail"]],
            queued=[Queued(**each) for each in raw["queued"]],
            calls=raw["calls"],
            heir=raw["heir"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise TraceFormatError("the paused run cannot be read: it was not saved by this version") from error


def _message(raw: dict[str, Any]) -> Message:
    calls = tuple(ToolCall(**call) for call in raw["tool_calls"])
    return Message(Author(raw["author"]), raw["text"], calls, raw["tool_call_id"])
