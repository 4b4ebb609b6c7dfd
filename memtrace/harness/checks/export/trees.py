"""Whether everything has its span, and a turn's spans are one tree."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from memtrace import prompts
from memtrace.harness.checks.export.spans import no_spans, sent, traced
from memtrace.harness.findings import Judgement, check, held, told, untested, violated
from memtrace.harness.record.events import FactWritten, SpanEnded
from memtrace.harness.record.history import Call, History, Turn
from memtrace.harness.seen.pairing import pairing
from memtrace.model import Evidence

_GO_ON = ("resume", "fork")
"""Ways of a turn that goes on with a run, which may have read its memory already."""
_WRITES = frozenset({"add", "update", "forget"})
_READS = frozenset({None, "search_memory"})
"""The memory operations that a write is not seen by: none, and a read."""


@check("export.every-call-has-one-span")
def every_call_has_one_span(history: History) -> Judgement:
    """One ended span per model call and per memory operation, whichever way it ended."""
    if not history.can("own-spans") or not traced(history):
        return no_spans(history)
    paired = pairing(history)
    if paired.calls:
        return violated("a model call has no ended span of its own", sent(paired.calls[0]))
    if twice := [span for span in paired.spans if _recorded_again(span, paired.pairs)]:
        span = twice[0]
        return violated("one model call has two spans", Evidence("the span too many", f"{span.name}, {span.scope}"))
    if history.can("memory-spans") and (judgement := _memory_operations(history)):
        return judgement
    return held() if paired.pairs else untested("no model call")


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
    """Each write, with the spans of its process since the write before it there."""
    since: dict[str, list[SpanEnded]] = defaultdict(list)
    for event in history.events:
        if isinstance(event, SpanEnded):
            since[event.process].append(event)
        elif isinstance(event, FactWritten):
            yield event, since.pop(event.process, [])


def _unseen(write: tuple[FactWritten, list[SpanEnded]]) -> Judgement | None:
    event, spans = write
    nothing_to_do = event.op == "forget" and event.count == 0
    if event.op not in _WRITES or event.error or nothing_to_do:
        return None
    if any(prompts.memory_operation(span.name, span.attributes) not in _READS for span in spans):
        return None
    return violated(f"{event.op} left no span", Evidence(event.op, event.text or event.record))


@check("export.one-trace-per-turn")
def one_trace_per_turn(history: History) -> Judgement:
    """A turn's spans are one tree over threads, tasks, generators and forks, streamed or not."""
    if not history.can("own-spans") or not traced(history):
        return no_spans(history)
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
    return [turn for turn in history.turns.values() if turn.outcome is not None and turn.process not in history.killed]


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
