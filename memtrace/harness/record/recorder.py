"""Everything that happens in a script becomes an event here, in one order.

The recorder also knows which turns are open, and so to which turn a request belongs. A request that carries the label
of an open turn is attributed exactly. Without a label it belongs, exactly too, to the only open turn. Anything else
(several turns open, or the label of a turn that has ended, as a library's own worker thread may carry it) is a guess.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import format_span_id, format_trace_id

from memtrace import prompts, semconv
from memtrace.harness.record.attribution import SpanLabel
from memtrace.harness.record.events import AnyEvent, SpanEnded
from memtrace.harness.record.history import History
from memtrace.model import Prompt


class Recorder:
    """The events of one script, written from any thread."""

    def __init__(self) -> None:
        self._events: list[AnyEvent] = []
        self._open: dict[str, None] = {}
        self._paused = False
        self._lock = threading.Lock()

    def add(self, kind: type[AnyEvent], /, **fields: Any) -> int:
        """Append an event; returns its place."""
        with self._lock:
            at = len(self._events)
            if not self._paused:
                self._events.append(kind(at=at, **fields))
            return at

    @contextmanager
    def paused(self) -> Iterator[None]:
        """What happens meanwhile is no part of the history."""
        self._paused = True
        try:
            yield
        finally:
            self._paused = False

    def begin(self, turn: str) -> None:
        """From now on requests may belong to this turn."""
        with self._lock:
            self._open[turn] = None

    def end(self, turn: str) -> None:
        """And no longer."""
        with self._lock:
            self._open.pop(turn, None)

    def attribute(self, label: str) -> tuple[str, str]:
        """The turn a request with this label belongs to (``""``: none), and ``exact`` or ``guessed``."""
        with self._lock:
            if label in self._open:
                return label, "exact"
            if not self._open:
                return "", "exact" if not label else "guessed"
            turn = next(reversed(self._open))
            return turn, "exact" if len(self._open) == 1 and not label else "guessed"

    def history(self) -> History:
        """All that has happened so far."""
        with self._lock:
            return History(self._events)


class SpanRecorder(SpanLabel):
    """Stamps each span with the turn it was started in, and records it as it ends."""

    def __init__(self, recorder: Recorder, process: str = "main") -> None:
        self._recorder = recorder
        self._process = process

    def on_end(self, span: ReadableSpan) -> None:
        """Record the span."""
        self._recorder.add(SpanEnded, process=self._process, **span_fields(span))


def span_fields(span: ReadableSpan) -> dict[str, Any]:
    """A span as the fields of a `SpanEnded`, but for its place and process."""
    attributes = {name: _plain(value) for name, value in (span.attributes or {}).items()}
    events = tuple((event.name, {k: _plain(v) for k, v in (event.attributes or {}).items()}) for event in span.events)
    context = span.get_span_context()
    return {
        "name": span.name,
        "scope": span.instrumentation_scope.name if span.instrumentation_scope else "",
        "trace": format_trace_id(context.trace_id) if context else "",
        "span": format_span_id(context.span_id) if context else "",
        "parent": format_span_id(span.parent.span_id) if span.parent else "",
        "turn": str(attributes.get(semconv.TURN, "")),
        "start": span.start_time or 0,
        "end": span.end_time or 0,
        "attributes": attributes,
        "status": span.status.status_code.name,
        "status_text": span.status.description or "",
        "links": tuple(
            f"{format_trace_id(link.context.trace_id)}-{format_span_id(link.context.span_id)}" for link in span.links
        ),
        "events": tuple({"name": name, **fields} for name, fields in events),
        "prompt": _prompt(span, attributes, events),
        "dropped": span.dropped_attributes + span.dropped_events,
    }


def _prompt(span: ReadableSpan, attributes: dict[str, Any], events: tuple[tuple[str, dict[str, Any]], ...]) -> Any:
    if not prompts.is_model_call(span.name, attributes):
        return None
    read = prompts.read_prompt(
        attributes, events=events, dropped=span.dropped_attributes, dropped_events=span.dropped_events
    )
    return read if read is not None else Prompt(lost=("the span holds no prompt",))


def _plain(value: Any) -> Any:
    """An attribute value as JSON has it."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, (str, bool, int, float, type(None))) else str(value)
