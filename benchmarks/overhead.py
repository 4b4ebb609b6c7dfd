"""What instrumentation costs: ours beside a plain OpenTelemetry span with the same attributes, in one run.

``python -m benchmarks.overhead`` prints the ratios. The two sides take turns, fifty calls each, in CPU time of the
calling thread, so that what else the machine does falls on neither or on both. A ratio is the median over the rounds.
"""

from __future__ import annotations

import gc
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter, thread_time_ns

from opentelemetry.metrics import Histogram, NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, Sampler

import memtrace
from memtrace import semconv
from memtrace.model import Level, Record, Scope
from memtrace.tracing import Tracing

SCOPE = Scope(Level.USER, "alice")
RECORDS = [
    Record(SCOPE, f"Fact {n} about Alice.", id=n, source_trace_id=f"{n:032x}", source_span_id=f"{n:016x}")
    for n in range(1, 6)
]

Call = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Pair:
    """The same work plainly and with memtrace.

    ``ratio`` or ``added`` (nanoseconds a call) is what it must stay within; with neither it is for information.
    """

    name: str
    plain: Call
    ours: Call
    ratio: float | None = None
    added: int | None = None


class _Nowhere(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002  the SDK's signature
        return SpanExportResult.SUCCESS


def pairs() -> list[Pair]:
    """Everything that is compared."""
    os.environ.setdefault("MEMTRACE_ID_KEY", "no secret, only here to be long enough")
    sampled, unsampled, nowhere = _provider(), _provider(ALWAYS_OFF), NoOpMeterProvider()
    meters = MeterProvider(metric_readers=[InMemoryMetricReader()])
    ours = Tracing(tracer_provider=sampled, meter_provider=nowhere)
    return [
        Pair("a read, recording", _plain_read(sampled, content=False), _read(ours), ratio=1.3),
        Pair(
            "a read, unsampled",
            _plain_read(unsampled, content=False),
            _read(Tracing(tracer_provider=unsampled, meter_provider=nowhere)),
            ratio=1.1,
        ),
        Pair(
            "a read, recording, with its duration metric",
            _plain_read(sampled, content=False, meters=meters),
            _read(Tracing(tracer_provider=sampled, meter_provider=meters)),
        ),
        Pair(
            "a read, unsampled, with its duration metric",
            _plain_read(unsampled, content=False, meters=meters),
            _read(Tracing(tracer_provider=unsampled, meter_provider=meters)),
        ),
        Pair(
            "a read, recording content",
            _plain_read(sampled, content=True),
            _read(Tracing(tracer_provider=sampled, meter_provider=nowhere, content=True)),
        ),
        Pair("a wrapped read, no SDK", _get_context, memtrace.traced("read")(_get_context), added=1000),
        Pair("a read by hand, no SDK", _nothing, _read_without_blocks, added=1000),
        Pair("a read by hand with a block, no SDK", _nothing, _read(memtrace.tracing.default)),
    ]


def compare(pair: Pair, *, rounds: int = 400, calls: int = 50) -> tuple[float, float, float]:
    """Nanoseconds a call plainly, with memtrace, and the median ratio of the two in the same round."""
    _time(pair.plain, calls), _time(pair.ours, calls)
    gc.collect()
    gc.disable()
    try:
        plain, ours = zip(*((_time(pair.plain, calls), _time(pair.ours, calls)) for _ in range(rounds)), strict=True)
    finally:
        gc.enable()
    ratios = [mine / theirs for theirs, mine in zip(plain, ours, strict=True)]
    return statistics.median(plain), statistics.median(ours), statistics.median(ratios)


def main() -> None:
    """Print the table."""
    for pair in pairs():
        plain, ours, ratio = compare(pair)
        target = "" if pair.ratio is None else f"target <= {pair.ratio} x"
        if pair.added is not None:
            target = f"target <= {pair.added} ns over the call"
        sys.stdout.write(
            f"{pair.name:<46}{plain:>9.0f} ns{ours:>9.0f} ns{ratio:>7.2f} x{ours - plain:>+9.0f} ns  {target}\n"
        )


def _time(call: Call, calls: int) -> float:
    began = thread_time_ns()
    for _ in range(calls):
        call()
    return (thread_time_ns() - began) / calls


def _provider(sampler: Sampler = ALWAYS_ON) -> TracerProvider:
    provider = TracerProvider(sampler=sampler)
    provider.add_span_processor(BatchSpanProcessor(_Nowhere()))
    return provider


def _read(tracing: Tracing) -> Call:
    """A read of one block of five facts, each written by a span of its own."""

    def read() -> None:
        with tracing.read("What do I like?") as span:
            with span.block("persistent_facts.user", type="facts", scope=SCOPE) as block:
                block.rendered(RECORDS)
            span.messages(1)

    return read


def _plain_read(provider: TracerProvider, *, content: bool, meters: MeterProvider | None = None) -> Call:
    """The same two spans by hand: their names, attributes and links, none of which has to be worked out."""
    tracer = provider.get_tracer("plain")
    inner, outer = _recorded(content=content)
    inside, outside = dict(inner.attributes or {}), dict(outer.attributes or {})
    links = [link.context for link in inner.links]

    def read() -> None:
        with tracer.start_as_current_span(outer.name) as parent:
            with tracer.start_as_current_span(inner.name) as child:
                child.set_attributes(inside)
                for link in links:
                    child.add_link(link)
            parent.set_attributes(outside)

    return read if meters is None else _timed(read, meters.get_meter("plain").create_histogram("duration", unit="s"))


def _timed(call: Call, histogram: Histogram) -> Call:
    def timed() -> None:
        began = perf_counter()
        call()
        histogram.record(perf_counter() - began, {semconv.OPERATION_NAME: semconv.SEARCH_MEMORY})

    return timed


def _recorded(*, content: bool) -> tuple[ReadableSpan, ...]:
    """The spans of one instrumented read, as they are recorded."""
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    _read(Tracing(tracer_provider=provider, meter_provider=NoOpMeterProvider(), content=content))()
    return exporter.get_finished_spans()


def _get_context(query: str = "What do I like?") -> list[str]:
    return [query]


def _read_without_blocks() -> None:
    with memtrace.read("What do I like?") as span:
        span.rendered(RECORDS)


def _nothing() -> None:
    return None


if __name__ == "__main__":
    main()
