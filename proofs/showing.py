"""Evidence as lines: what was asked, what the model was sent, what is kept."""

from __future__ import annotations

from memtrace.harness.record.events import FactsRead
from memtrace.harness.record.excerpts import excerpt
from memtrace.harness.record.history import Call, History, Turn
from memtrace.model import Author, Outcome


def turns(history: History) -> list[str]:
    """Each turn: what was said, how it ended, what came back."""
    return [_turn(turn) for turn in history.turns.values()]


def _turn(turn: Turn) -> str:
    said = one_line(turn.text) or f"({turn.via})"
    ended = one_line(turn.reply) if turn.outcome is Outcome.OK else (turn.outcome.value if turn.outcome else "open")
    return f"{_who(turn)}  {said}\n        → {ended}"


def _who(turn: Turn) -> str:
    caller = turn.caller
    return f"{caller.user.partition('@')[0] or caller.unresolved or '?':<8}"


def prompt(history: History, place: int = -1) -> list[str]:
    """What the answer model was sent in one turn, a line a message."""
    asked = [turn.answers[0] for turn in history.turns.values() if turn.answers]
    return _messages(asked[place]) if asked else ["(no prompt was recorded)"]


def _messages(call: Call) -> list[str]:
    return [f"{message.author:<10}{one_line(message.text)}" for message in call.prompt.messages]


def extractor(history: History) -> list[str]:
    """What the memory model was shown of each turn."""
    shown = [m for call in history.memory_calls() for m in call.prompt.messages if m.author is Author.USER]
    return [f"• {one_line(message.text)}" for message in shown]


def reads(history: History, *ops: str) -> list[str]:
    """What reads of the store gave."""
    return [_read(event) for event in history.of(FactsRead) if event.op in ops]


def _read(event: FactsRead) -> str:
    asked = event.query or event.caller.user.partition("@")[0]
    return f"{event.op} {asked} → {'; '.join(map(one_line, event.texts)) or 'nothing'}"


def one_line(text: str) -> str:
    """A text on one line, cut short."""
    return excerpt(text, "", around=120)
