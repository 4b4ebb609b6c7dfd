"""Which span recorded which model call.

A request says which span was current where it was sent. That span, or the nearest one above it that is a model call's,
recorded the call. What is left over is paired in order within its turn.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from memtrace.harness.record.events import SpanEnded
from memtrace.harness.record.history import Call, History


@dataclass(frozen=True, slots=True)
class Pairing:
    """Model calls with their spans, and what is left of either."""

    pairs: tuple[tuple[Call, SpanEnded], ...]
    calls: tuple[Call, ...]
    spans: tuple[SpanEnded, ...]


def pairing(history: History) -> Pairing:
    """Pair a history's model calls with its model calls' spans."""
    calls = [call for call in history.calls if _process(call) not in history.killed and _answered(history, call)]
    spans = [span for span in history.spans if span.prompt is not None and span.process not in history.killed]
    by_id = {span.span: span for span in history.spans}
    taken: dict[str, Call] = {}
    pairs: list[tuple[Call, SpanEnded]] = []
    for call in calls:
        span = _model_span_above(call, by_id)
        if span is not None and span.span not in taken:
            taken[span.span] = call
            pairs.append((call, span))
    paired = {call.id for call, _ in pairs}
    rest = _in_order(
        [call for call in calls if call.id not in paired], [span for span in spans if span.span not in taken]
    )
    pairs += rest
    paired |= {call.id for call, _ in rest}
    taken |= {span.span: call for call, span in rest}
    return Pairing(
        tuple(pairs),
        tuple(call for call in calls if call.id not in paired),
        tuple(span for span in spans if span.span not in taken),
    )


def _process(call: Call) -> str:
    return call.turn.process if call.turn is not None else call.process


def _answered(history: History, call: Call) -> bool:
    """A call that was still open when the script ended has no span yet to be judged."""
    return call.replied_at < len(history.events)


def _model_span_above(call: Call, by_id: dict[str, SpanEnded]) -> SpanEnded | None:
    span = by_id.get(call.span.rpartition("-")[2])
    while span is not None and span.prompt is None:
        span = by_id.get(span.parent)
    return span


def _in_order(calls: list[Call], spans: list[SpanEnded]) -> list[tuple[Call, SpanEnded]]:
    by_turn: dict[str, list[SpanEnded]] = defaultdict(list)
    for span in sorted(spans, key=lambda span: span.start):
        by_turn[span.turn].append(span)
    pairs = []
    for call in calls:
        waiting = by_turn[call.turn.id if call.turn else ""]
        if waiting:
            pairs.append((call, waiting.pop(0)))
    return pairs
