"""Middleware stands between the agent and its models: it changes what they are sent, and what they reply.

Memory keeps the user's words as they were said, and the reply as it was changed (*How memory works*, privacy).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from memtrace.model import Message, ToolCall

REDACTED: Final = "[REDACTED]"
_LOCAL: Final = r"[\w.!#$%&'*+/=?^`{|}~-]"
"""What an address may hold before its at sign, unquoted (RFC 5322, atext and dots), in any script."""
_EMAIL: Final = re.compile(rf"(?<!{_LOCAL}){_LOCAL}++@[\w-]++(?:\.[\w-]++)+")
"""Linear in the text: a match begins only where a word does, and never goes back."""

Text = Callable[[str], str]


class Middleware(Protocol):
    """Changes texts on their way to a model, and back."""

    def outgoing(self, text: str) -> str:
        """What leaves the process: to any model, the memory's own and its embedder included."""

    def reply(self, text: str) -> str:
        """The answer as its user gets it, and as memory keeps it."""


class RedactEmails:
    """Puts ``[REDACTED]`` in the place of each e-mail address, both ways."""

    def outgoing(self, text: str) -> str:
        """The text without addresses."""
        return _EMAIL.sub(REDACTED, text)

    def reply(self, text: str) -> str:
        """The text without addresses."""
        return _EMAIL.sub(REDACTED, text)


def chained(steps: Iterable[Text]) -> Text:
    """All steps, one after another."""
    steps = tuple(steps)

    def apply(text: str) -> str:
        for step in steps:
            text = step(text)
        return text

    return apply


def sent(messages: Iterable[Message], outgoing: Text) -> tuple[Message, ...]:
    """The messages as they leave the process: every text in them changed, tool calls' arguments too."""
    return tuple(
        replace(
            message,
            text=outgoing(message.text),
            tool_calls=tuple(replace(call, arguments=_arguments(call, outgoing)) for call in message.tool_calls),
        )
        for message in messages
    )


def _arguments(call: ToolCall, outgoing: Text) -> str:
    try:
        parsed = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return outgoing(call.arguments)
    changed = _each_text(parsed, outgoing)
    # As it was where nothing changed; and never cut inside an escape, which would make it unreadable.
    return call.arguments if changed == parsed else json.dumps(changed, ensure_ascii=False)


def _each_text(value: Any, outgoing: Text) -> Any:
    match value:
        case str():
            return outgoing(value)
        case dict():
            return {outgoing(name): _each_text(item, outgoing) for name, item in value.items()}
        case list():
            return [_each_text(item, outgoing) for item in value]
        case _:
            return value


def outgoing_of(middleware: Sequence[Middleware]) -> Text:
    """What all of them make of a text that leaves."""
    return chained(each.outgoing for each in middleware)


def reply_of(middleware: Sequence[Middleware]) -> Text:
    """What all of them make of an answer."""
    return chained(each.reply for each in middleware)
