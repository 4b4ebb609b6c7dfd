"""Histories written by hand, in as few words as they take.

write = HistoryWriter("turns", "conv")
write.turn(ALICE, f"My code is {A}.", prompt=["system: Help.", f"user: My code is {A}."], says="Noted.")
history = write.history()
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from memtrace.harness.record.events import (
    CalledBack,
    FactsRead,
    FactWritten,
    ModelCalled,
    ModelReplied,
    Opened,
    SpanEnded,
    TurnEnded,
    TurnStarted,
)
from memtrace.harness.record.history import History
from memtrace.harness.record.recorder import Recorder
from memtrace.model import Author, Caller, Message, Prompt, ToolCall

ALICE = Caller("alice@example.com", "s-alice", "", "agent")
BOB = Caller("bob@example.com", "s-bob", "", "agent")
A, B, C, D = ("zqtestxaaaaaaa", "zqtestxbbbbbbb", "zqtestxccccccc", "zqtestxddddddd")
"""Planted words."""

Line = str | Message
"""A message: ``"user: Hello."``, or a `Message` where it has tool calls."""


def call(number: str, arguments: str = "{}", *, said: str = "", name: str = "lookup") -> Message:
    """An assistant's message that calls a tool."""
    return Message(Author.ASSISTANT, said, (ToolCall(number, name, arguments),))


def result(number: str, text: str) -> Message:
    """The tool's answer to that call."""
    return Message(Author.TOOL, text, tool_call_id=number)


class HistoryWriter:
    """Writes the events of a script one by one, as the harness would."""

    def __init__(self, *claims: str, identity: tuple[str, ...] = ("user",), **declares: Any) -> None:
        self._recorder = Recorder()
        self._numbers = itertools.count(1)
        self.process = "main"
        self.opened(claims or ("turns", "ids", "conv"), identity=identity, declares=declares)

    def opened(
        self, claims: Sequence[str], *, identity: tuple[str, ...] = ("user",), declares: Any = None, **options: Any
    ) -> None:
        """A system is opened."""
        self.add(
            Opened, system="ByHand", agent="agent", capabilities=tuple(claims), identity=identity,
            declares=declares or {}, options=options,
        )  # fmt: skip

    def add(self, kind: type[Any], **fields: Any) -> int:
        """Any event, of the process that is set."""
        return self._recorder.add(kind, **{"process": self.process, **fields})

    def turn(
        self, caller: Caller, text: str, *, prompt: Sequence[Line] | None = None, says: str = "Noted.",
        calls: Sequence[ToolCall] = (), outcome: str = "ok", via: str = "run", of: str = "", exact: bool = True,
        reply: str | None = None, status: int = 200,
    ) -> str:  # fmt: skip
        """A whole turn of one model call (of none, where ``prompt`` is not given and it did not end well)."""
        turn = self.begin(caller, text, via=via, of=of)
        if prompt is not None or outcome == "ok":
            lines = [f"user: {text}"] if prompt is None else prompt
            self.model(turn, lines, says=says, calls=calls, exact=exact, status=status)
        return self.end(turn, outcome, text=says if reply is None else reply)

    def begin(self, caller: Caller, text: str, *, via: str = "run", of: str = "") -> str:
        """A turn begins."""
        turn = f"t{next(self._numbers)}"
        self.add(TurnStarted, turn=turn, caller=caller, text=text, via=via, of=of)
        return turn

    def model(
        self, turn: str, prompt: Sequence[Line], *, says: str = "Noted.", calls: Sequence[ToolCall] = (),
        purpose: str = "answer", exact: bool = True, status: int = 200, span: str = "",
    ) -> str:  # fmt: skip
        """A model is called in a turn, and answers."""
        number = f"call{next(self._numbers)}"
        self.add(
            ModelCalled, call=number, turn=turn, attribution="exact" if exact else "guessed", purpose=purpose,
            model=f"{purpose}-model", prompt=Prompt(tuple(map(_message, prompt))), span=span,
        )  # fmt: skip
        self.add(ModelReplied, call=number, text=says if status == 200 else "", tool_calls=tuple(calls), status=status)
        return number

    def tool(self, turn: str, query: str, gives: str) -> None:
        """The tool is called in a turn."""
        self.add(CalledBack, point="tool", turn=turn, attribution="exact", given=query, result=gives)

    def end(self, turn: str, outcome: str = "ok", *, text: str = "", expected: Sequence[str] = ()) -> str:
        """A turn ends, as the script took for possible."""
        self.add(TurnEnded, turn=turn, outcome=outcome, expected=tuple(expected) or (outcome,), text=text)
        return turn

    def fact(self, caller: Caller, text: str, *, op: str = "add", scope: str = "user", record: str = "") -> None:
        """A fact is written by the application."""
        self.add(FactWritten, op=op, caller=caller, scope=scope, text=text, record=record)

    def read(self, caller: Caller, *texts: str, op: str = "facts", query: str = "") -> None:
        """The application reads what is kept."""
        self.add(FactsRead, op=op, caller=caller, texts=texts, query=query)

    def stored(self, caller: Caller, *lines: Line) -> None:
        """The application reads the conversation that is stored."""
        found = tuple(map(_message, lines))
        self.add(FactsRead, op="messages", caller=caller, texts=tuple(m.text for m in found), messages=found)

    def span(
        self, name: str, turn: str = "", *, trace: str = "1", span: str = "", parent: str = "", **more: Any
    ) -> None:
        """A span of the system's ends."""
        number = span or f"{next(self._numbers):x}"
        fields = {"scope": "by-hand", "start": 0, "end": 0, "attributes": {}} | more
        self.add(SpanEnded, name=name, trace=trace, span=number, parent=parent, turn=turn, **fields)

    def history(self) -> History:
        """What was written."""
        return self._recorder.history()


def _message(line: Line) -> Message:
    if isinstance(line, Message):
        return line
    author, _, text = line.partition(": ")
    return Message(Author(author), text)
