"""What the checks of the export boundary ask of a history's spans."""

from __future__ import annotations

from memtrace.harness.findings import Judgement, held, untested
from memtrace.harness.record.events import Opened, SpanEnded
from memtrace.harness.record.excerpts import excerpt
from memtrace.harness.record.history import Call, History
from memtrace.model import Evidence


def no_spans(history: History) -> Judgement:
    """Not exercised; but undecided where the system claims spans, was to record them, and the model was called."""
    tracing = history.opened is None or history.opened.options.get("tracing", True)
    if history.can("own-spans") and tracing and not foreign(history) and history.calls:
        return held(when=False, otherwise="the system claims own-spans, and recorded no span of a model call")
    return untested("the system records no span for its model calls")


def traced(history: History) -> bool:
    """Some model call has a span."""
    return any(span.prompt is not None for span in history.spans)


def foreign(history: History) -> bool:
    """The script stands for an application with an exporter of its own."""
    return any(opening.options.get("foreign_exporter") for opening in history.of(Opened))


def memtraces(history: History) -> list[SpanEnded]:
    """The spans that memtrace itself recorded."""
    return [span for span in history.spans if span.scope.partition(".")[0] == "memtrace"]


def sent(call: Call) -> Evidence:
    """Which call it was, by what it sent last."""
    whose = f" of turn {call.turn}" if call.turn else ""
    last = call.prompt.messages[-1].text if call.prompt.messages else ""
    return Evidence(f"the {call.purpose} call{whose}, model {call.model}", excerpt(last, ""))
