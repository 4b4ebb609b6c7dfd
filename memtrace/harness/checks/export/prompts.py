"""Whether the recorded prompt is what was sent."""

from __future__ import annotations

import json
from typing import Any

from memtrace.harness.checks.export.spans import foreign, no_spans, sent, traced
from memtrace.harness.findings import Judgement, check, held, undecided, untested, violated
from memtrace.harness.record.excerpts import excerpt
from memtrace.harness.record.history import History
from memtrace.harness.seen.pairing import pairing
from memtrace.model import Evidence, Message, Prompt


@check("export.span-equals-wire")
def span_equals_wire(history: History) -> Judgement:
    """The recorded prompt is what was sent."""
    if not history.can("own-spans") or not _records_content(history):
        return no_spans(history)
    pairs = pairing(history).pairs
    for call, span in pairs:
        recorded = span.prompt or Prompt()
        if recorded.lost:
            return undecided(f"the prompt on span {span.name!r} is not whole: {recorded.lost[0]}", sent(call))
        if _comparable(recorded) != _comparable(call.prompt):
            return violated(
                "the span shows another prompt than the model was sent", *_difference(call.prompt, recorded)
            )
    return held() if pairs else untested("no model call")


def _records_content(history: History) -> bool:
    """Unless the script stands for an application that lets no content onto its spans."""
    return traced(history) and not foreign(history)


def _comparable(prompt: Prompt) -> list[tuple[Any, ...]]:
    """What two records of one prompt must have in common: authors, texts, calls; in order."""
    messages = (_one(message) for message in prompt.messages)
    return [message for message in messages if message[1] or message[2]]


def _one(message: Message) -> tuple[Any, ...]:
    calls = tuple((call.name, _parsed(call.arguments)) for call in message.tool_calls)
    return (message.author, message.text.strip(), calls)


def _parsed(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except ValueError:
        return arguments


def _difference(sent: Prompt, recorded: Prompt) -> tuple[Evidence, Evidence]:
    pairs = list(zip(_comparable(sent), _comparable(recorded), strict=False))
    first = next((n for n, (one, other) in enumerate(pairs) if one != other), len(pairs))
    return Evidence("sent", _message_at(sent, first)), Evidence("recorded", _message_at(recorded, first))


def _message_at(prompt: Prompt, place: int) -> str:
    messages = _comparable(prompt)
    if place >= len(messages):
        return f"nothing at message {place + 1}; {len(messages)} messages in all"
    author, text, calls = messages[place]
    return f"message {place + 1}, {author}: {excerpt(text, '')}{calls or ''}"
