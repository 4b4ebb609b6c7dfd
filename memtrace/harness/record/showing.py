"""A recorded history as a tree: each turn, its prompts, and where each planted word in them came from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from memtrace.harness.record.events import CalledBack, FactsRead, FactWritten, ProcessEnded, ProcessStarted
from memtrace.harness.record.history import Call, History, Turn, canaries_in
from memtrace.model import Message

_WIDEST: Final = 160


def tree(history: History) -> str:
    """All turns, writes and reads of a history, in order."""
    return "\n".join(_lines(history))


def _lines(history: History) -> Iterator[str]:
    if history.opened is not None:
        yield f"{history.opened.system}: {', '.join(history.opened.capabilities)}"
    happened: list[tuple[int, list[str]]] = [
        (turn.started, list(_turn(history, turn))) for turn in history.turns.values()
    ]
    others = history.of(FactWritten, FactsRead, ProcessStarted, ProcessEnded)
    happened += [(event.at, list(_other(event))) for event in others]
    for _, lines in sorted(happened, key=lambda item: item[0]):
        yield from lines


def _turn(history: History, turn: Turn) -> Iterator[str]:
    outcome = turn.outcome.value if turn.outcome else "open"
    yield f"turn {turn}: {outcome}{f', {turn.error}' if turn.error else ''}"
    yield f"  said: {_one_line(turn.text)}"
    for call in turn.calls:
        yield from (f"  {line}" for line in _call(history, call))
    for event in history.of(CalledBack):
        if event.turn == turn.id and event.point in ("tool", "guard") and event.result not in ("", "passed"):
            yield f"  {event.point}: {_one_line(event.result)}"
    if turn.reply:
        yield f"  got:  {_one_line(turn.reply)}"


def _call(history: History, call: Call) -> Iterator[str]:
    yield f"{call.purpose} prompt{'' if call.exact else ' (whose it was is a guess)'}"
    for message in call.prompt.messages:
        yield f"  {message.author:<9} {_one_line(message.text or _asked(message))}"
        for canary in canaries_in(message.text):
            yield f"            {canary}: {_origin(history, canary, call.at)}"
    for lost in call.prompt.lost:
        yield f"  lost: {lost}"
    if call.reply or call.tool_calls:
        asked = ", ".join(f"{each.name}({each.arguments})" for each in call.tool_calls)
        yield f"  -> {_one_line(call.reply)}{asked}"


def _origin(history: History, canary: str, before: int) -> str:
    sources = [source for source in history.sources(canary) if source.at < before]
    if not sources:
        return "planted elsewhere"
    first = sources[0]
    return f"{first.author} words ({first.way}{first.turn and f' {first.turn}'}) of {first.caller.user or 'everyone'}"


def _other(event: FactWritten | FactsRead | ProcessStarted | ProcessEnded) -> Iterator[str]:
    match event:
        case FactWritten():
            what = _one_line(event.text or event.record)
            yield f"{event.op} by {_who(event)} ({event.scope}): {what}{_failed(event)}"
        case FactsRead():
            yield f"{event.op} of {_who(event)}{_failed(event)}"
            yield from (f"  {_one_line(text)}" for text in event.texts)
        case ProcessStarted():
            yield f"{event.process} started"
        case ProcessEnded():
            yield f"{event.process} ended: {event.how}"


def _who(event: FactWritten | FactsRead) -> str:
    return event.caller.unresolved or event.caller.user or "nobody"


def _failed(event: FactWritten | FactsRead) -> str:
    return f" -> {_one_line(event.error)}" if event.error else ""


def _asked(message: Message) -> str:
    return ", ".join(f"{call.name}({call.arguments})" for call in message.tool_calls)


def _one_line(text: str) -> str:
    """A text cut to one line, without what a terminal would take for a command."""
    line = "".join(c if c.isprintable() else ("⏎" if c == "\n" else repr(c)[1:-1]) for c in text[:_WIDEST])
    return line if len(text) <= _WIDEST else f"{line}…"
