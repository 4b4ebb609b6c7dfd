"""Checks of the *export* boundary: what is recorded is what happened, and foreign exporters get no content."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from memtrace import prompts
from memtrace.harness.events import FactWritten, Opened, SpanEnded
from memtrace.harness.findings import Judgement, check, held, told, undecided, untested, violated
from memtrace.harness.history import Call, History, Turn, canaries_in, excerpt
from memtrace.harness.pairing import killed, pairing
from memtrace.model import Evidence, Message, Prompt

_NO_SPANS = "the system records no span for its model calls"
_GO_ON = ("resume", "fork")
"""Ways of a turn that goes on with a run, which may have read its memory already."""
_WRITES = {"add": "memory.persist", "update": "memory.update", "forget": "memory.forget"}


@check("export.span-equals-wire")
def span_equals_wire(history: History) -> Judgement:
    """The recorded prompt is what was sent."""
    if not history.can("own-spans") or not _records_content(history):
        return _no_spans(history)
    pairs = pairing(history).pairs
    for call, span in pairs:
        recorded = span.prompt or Prompt()
        if recorded.lost:
            return undecided(f"the prompt on span {span.name!r} is not whole: {recorded.lost[0]}", _sent(call))
        if _comparable(recorded) != _comparable(call.prompt):
            return violated(
                "the span shows another prompt than the model was sent", *_difference(call.prompt, recorded)
            )
    return held() if pairs else untested("no model call")


@check("export.every-call-has-one-span")
def every_call_has_one_span(history: History) -> Judgement:
    """One ended span per model call and per memory operation, whichever way it ended."""
    if not history.can("own-spans") or not _traced(history):
        return _no_spans(history)
    paired = pairing(history)
    if paired.calls:
        return violated("a model call has no ended span of its own", _sent(paired.calls[0]))
    if twice := [span for span in paired.spans if _recorded_again(span, paired.pairs)]:
        span = twice[0]
        return violated("one model call has two spans", Evidence("the span too many", f"{span.name}, {span.scope}"))
    if history.can("memory-spans") and (judgement := _memory_operations(history)):
        return judgement
    return held() if paired.pairs else untested("no model call")


def _no_spans(history: History) -> Judgement:
    """Not exercised; but undecided where the system claims spans, was to record them, and the model was called."""
    tracing = history.opened is None or history.opened.options.get("tracing", True)
    if history.can("own-spans") and tracing and not _foreign(history) and history.calls:
        return held(when=False, otherwise="the system claims own-spans, and recorded no span of a model call")
    return untested(_NO_SPANS)


def _recorded_again(span: SpanEnded, pairs: tuple[tuple[Call, SpanEnded], ...]) -> bool:
    """Whether another span of the turn shows the same prompt; a span alone may be of a call that was never sent."""
    return any(other.turn == span.turn and other.prompt == span.prompt for _, other in pairs)


def _memory_operations(history: History) -> Judgement | None:
    for turn in _whole_turns(history):
        spans = [span for span in history.spans if span.turn == turn.id]
        reads = [span for span in spans if prompts.memory_operation(span.name, span.attributes) == "search_memory"]
        if turn.answers and not reads and turn.via not in _GO_ON:
            return violated("a turn read memory without a span", told(turn))
    return next((violation for violation in map(_unseen, _writes(history)) if violation), None)


def _writes(history: History) -> Iterator[tuple[FactWritten, list[SpanEnded]]]:
    since: list[SpanEnded] = []
    for event in history.events:
        if isinstance(event, SpanEnded):
            since.append(event)
        elif isinstance(event, FactWritten):
            yield event, [span for span in since if span.process == event.process]
            since = []


def _unseen(write: tuple[FactWritten, list[SpanEnded]]) -> Judgement | None:
    event, spans = write
    expected = _WRITES.get(event.op)
    nothing_to_do = event.op == "forget" and event.count == 0
    if (
        expected is None
        or event.error
        or nothing_to_do
        or any(prompts.is_memory_operation(s.name, s.attributes) for s in spans)
    ):
        return None
    return violated(f"{event.op} left no span", Evidence(event.op, event.text or event.record))


@check("export.one-trace-per-turn")
def one_trace_per_turn(history: History) -> Judgement:
    """A turn's spans are one tree over threads, tasks, generators and forks, streamed or not."""
    if not history.can("own-spans") or not _traced(history):
        return _no_spans(history)
    recorded_by = {call.id: span for call, span in pairing(history).pairs}
    judged = 0
    for turn in _whole_turns(history):
        spans = {span.span: span for span in history.spans if span.turn == turn.id}
        spans |= {s.span: s for call in turn.calls if call.exact and (s := recorded_by.get(call.id))}
        if not spans:
            continue
        judged += 1
        if fault := _not_one_tree(list(spans.values())):
            return violated(fault, told(turn), Evidence("its spans", _outline(spans)))
    return held() if judged else untested("no turn has spans")


def _whole_turns(history: History) -> list[Turn]:
    """The turns whose spans have all had time to end: they ended, in a process that was not killed."""
    lost = killed(history)
    return [turn for turn in history.turns.values() if turn.outcome is not None and turn.process not in lost]


def _not_one_tree(spans: list[SpanEnded]) -> str:
    ids = {span.span for span in spans}
    roots = [span for span in spans if span.parent not in ids]
    detached = [span for span in roots if not any(link.rpartition("-")[2] in ids for link in span.links)]
    if len({span.trace for span in detached}) > 1:
        return "a turn's spans are in more than one trace"
    if len(detached) > 1:
        return "a turn's spans are not one tree: more than one has no parent among them"
    return ""


def _outline(spans: dict[str, SpanEnded]) -> str:
    ordered = sorted(spans.values(), key=lambda span: span.start)
    return "\n".join(f"{s.trace[:8]} {s.parent[:8] or '-' * 8} > {s.span[:8]} {s.name}" for s in ordered)


@check("export.safe-under-a-foreign-exporter")
def safe_under_a_foreign_exporter(history: History) -> Judgement:
    """An application with an exporter of its own gets no content and no raw id on memtrace's spans."""
    if not _foreign(history):
        return untested("no exporter of the application's own")
    spans = [span for span in history.spans if span.scope.split(".")[0] == "memtrace"]
    if not spans:
        return untested("the system has no spans of memtrace's")
    ids = {i for turn in history.turns.values() for i in (turn.caller.user, turn.caller.session) if i}
    for span in spans:
        text = _everything_on(span)
        for secret in [*canaries_in(text), *(i for i in ids if i.lower() in text.lower())]:
            what = "an id in clear" if secret in ids else "what somebody said"
            return violated(f"a foreign exporter got {what}", Evidence(f"span {span.name}", excerpt(text, secret)))
    return held(when=ids and history.canaries, otherwise="nobody said anything that could have been exported")


def _everything_on(span: SpanEnded) -> str:
    parts: list[Any] = [span.name, span.status_text, span.attributes, list(span.events)]
    return json.dumps(parts, ensure_ascii=False, default=str)


def _traced(history: History) -> bool:
    return any(span.prompt is not None for span in history.spans)


def _records_content(history: History) -> bool:
    """Unless the script stands for an application that lets no content onto its spans."""
    return _traced(history) and not _foreign(history)


def _foreign(history: History) -> bool:
    """The script stands for an application with an exporter of its own."""
    return any(opening.options.get("foreign_exporter") for opening in history.of(Opened))


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


def _sent(call: Call) -> Evidence:
    whose = f" of turn {call.turn}" if call.turn else ""
    last = call.prompt.messages[-1].text if call.prompt.messages else ""
    return Evidence(f"the {call.purpose} call{whose}, model {call.model}", excerpt(last, ""))
