"""What redaction costs on the way out: CPU per span, ours beside the plain OTLP exporter, in one run.

``python -m benchmarks.export_cost`` prints the ratios, what memory 100,000 spans take while the collector is down, and
what a turn takes while it is a black hole. Spans are those of a turn whose model call has a prompt of 12 kB. The two
sides take turns, a batch each, in CPU time of the whole process; the receiver is another process. A ratio is the median
over the rounds.
"""

from __future__ import annotations

import gc
import os
import resource
import socket
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, process_time_ns

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as PlainGrpc
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as PlainHttp
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from memtrace.export import RedactingSpanExporter, default_policy, losses, otlp
from memtrace.export.pipeline import Batches
from memtrace.model import Author, Level, Message, Record, Scope
from memtrace.tracing import Tracing, own

ROUNDS = 60
TURNS = 20
SPANS = 100_000
PROMPT = [Message(Author.USER if n % 2 else Author.ASSISTANT, "one two three four five six " * 7) for n in range(60)]
SCOPE = Scope(Level.USER, "alice@example.com")
FACTS = [Record(SCOPE, f"Fact {n} about Alice.", id=n) for n in range(1, 11)]
RECEIVER = """
import sys
from memtrace.harness.record.receiver import Inbox, Receiver, grpc_receiver
class Forgetful(Inbox):
    def put(self, signal, body, *, headers): pass
with Receiver() as receiver, grpc_receiver(Forgetful()) as grpc:
    print(receiver.register(Forgetful()), grpc, flush=True)
    sys.stdin.read()
"""


class Encoded(SpanExporter):
    """All of an exporter's work but the sending."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Encode and forget."""
        encode_spans(spans).SerializeToString()
        return SpanExportResult.SUCCESS


def a_turn(tracing: Tracing) -> None:
    """Six spans: the turn, a read with two blocks, a model call, a write."""
    with tracing.turn("pet-shop", user=SCOPE.id, session="s-1"):
        with tracing.read("What is my code?") as read:
            with read.block("facts", type="facts", scope=SCOPE) as block:
                block.rendered(FACTS)
            with read.block("window", type="window") as block:
                block.rendered(PROMPT[:20])
        with tracing.model_call("gpt-4o", PROMPT) as call:
            call.replied("It is 4711.", input_tokens=3000, output_tokens=5)
        with tracing.write() as write:
            write.stored(2, action="stored")


def spans_of(turns: int) -> list[ReadableSpan]:
    """The spans of so many turns, with everything on them."""
    memory, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    own(provider)
    for _ in range(turns):
        a_turn(Tracing(tracer_provider=provider))
    return list(memory.get_finished_spans())


def compare(name: str, plain: SpanExporter, ours: SpanExporter, spans: Sequence[ReadableSpan]) -> None:
    """Print what a span costs on either side."""
    for exporter in (plain, ours):
        assert exporter.export(spans) is SpanExportResult.SUCCESS, f"{name}: nothing was exported"
    rounds = [(_cost(plain, spans), _cost(ours, spans)) for _ in range(ROUNDS)]
    ratio = statistics.median(b / a for a, b in rounds)
    each = [statistics.median(side) / 1000 for side in zip(*rounds, strict=True)]
    print(f"{name:<44} plain {each[0]:6.1f} µs   redacted {each[1]:6.1f} µs   ratio {ratio:.2f}")


def _cost(exporter: SpanExporter, spans: Sequence[ReadableSpan]) -> float:
    began = process_time_ns()
    exporter.export(spans)
    return (process_time_ns() - began) / len(spans)


@contextmanager
def receivers() -> Iterator[tuple[str, str]]:
    """The URLs of an HTTP and of a gRPC receiver in a process of their own."""
    command = [sys.executable, "-c", RECEIVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:  # noqa: S603
        assert process.stdout is not None
        http, grpc = process.stdout.readline().split()
        yield http, grpc


def turn_time(exporter: SpanExporter) -> Callable[[], float]:
    """A function that plays some turns and gives what one took, in milliseconds."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(Batches(exporter, "spans", max_export_batch_size=64, schedule_delay_millis=10))
    own(provider)
    tracing = Tracing(tracer_provider=provider)

    def play() -> float:
        began = perf_counter()
        for _ in range(TURNS):
            a_turn(tracing)
        return (perf_counter() - began) / TURNS * 1000

    return play


def memory() -> None:
    """What is resident after 10,000 and after 100,000 spans that nobody takes, and what became of them."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
    provider = TracerProvider(shutdown_on_exit=False)
    batches = Batches(otlp(endpoint=url, protocol="http/protobuf"), "spans")
    provider.add_span_processor(batches)
    own(provider)
    tracing, resident = Tracing(tracer_provider=provider), []
    for turn in range(SPANS // 6):
        a_turn(tracing)
        if turn in (SPANS // 60, SPANS // 6 - 1):
            resident.append(_resident())
    batches.shutdown()
    first, last = resident
    name = f"{SPANS:,} spans, collector is down"
    print(f"{name:<44} after a tenth {first:.0f} MB   after all {last:.0f} MB   lost {losses().get('spans', 0):,}")


def _resident() -> float:
    """Megabytes, where the system tells; else the most there ever were."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    """Print the figures."""
    os.environ.setdefault("MEMTRACE_ID_KEY", "no secret, only here to be long enough")
    policy = default_policy(["pet-shop", "gpt-4o"])
    spans = spans_of(TURNS)
    chats = [span for span in spans if span.name.startswith("chat")]
    gc.disable()
    compare("all spans of a turn, encoded", Encoded(), RedactingSpanExporter(Encoded(), policy), spans)
    compare("model calls, 12 kB prompts, encoded", Encoded(), RedactingSpanExporter(Encoded(), policy), chats)
    with receivers() as (http, grpc):
        ours = otlp(endpoint=http, protocol="http/protobuf", policy=policy)
        compare("all spans of a turn, over HTTP", PlainHttp(f"{http}/v1/traces"), ours, spans)
        compare(
            "all spans of a turn, over gRPC", PlainGrpc(grpc, insecure=True), otlp(endpoint=grpc, policy=policy), spans
        )
    gc.enable()
    memory()
    _black_hole()


def _black_hole() -> None:
    """A turn with an exporter that goes nowhere, and with one whose collector never answers, taking turns."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        sides = turn_time(InMemorySpanExporter()), turn_time(otlp(endpoint=url, protocol="http/protobuf"))
        rounds = [(sides[0](), sides[1]()) for _ in range(ROUNDS)]
        here, hole = (statistics.median(side) for side in zip(*rounds, strict=True))
        name = "a turn, collector is a black hole"
        print(f"{name:<44} without {here:5.2f} ms   with {hole:5.2f} ms   ratio {hole / here:.2f}")
        sys.stdout.flush()
        os._exit(0)  # the hole would hold the exit up for some seconds


if __name__ == "__main__":
    main()
