"""From the SDK to a collector, over the wire."""

from __future__ import annotations

import gzip
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest
from collectors import black_hole, free_port, rotel
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, LogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExporter, PeriodicExportingMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from memtrace.errors import UsageError
from memtrace.export import (
    RedactingLogExporter,
    RedactingSpanExporter,
    default_policy,
    losses,
    otlp,
    otlp_logs,
    otlp_metrics,
    report,
    variables,
    withheld,
)
from memtrace.export.pipeline import Batches
from memtrace.harness.record.receiver import SIGNALS, Inbox, Received, Receiver, grpc_receiver
from memtrace.harness.seen.sweep import found_in
from memtrace.identity import id_key
from memtrace.redaction import Policy

WORD = "swordfish"
PROTOCOLS = ["grpc", "http/protobuf"]


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MEMTRACE_ID_KEY", "k" * 32)
    id_key.cache_clear()
    withheld.reset()
    variables.warn_once.cache_clear()
    yield
    id_key.cache_clear()
    variables.warn_once.cache_clear()


@contextmanager
def receiving(protocol: str, inbox: Inbox) -> Iterator[str]:
    with ExitStack() as stack:
        if protocol == "grpc":
            yield stack.enter_context(grpc_receiver(inbox))
        else:
            yield stack.enter_context(Receiver()).register(inbox)


def record(exporter: SpanExporter, count: int = 1) -> Batches:
    """Spans that say the word wherever they can, queued for export."""
    batches = Batches(exporter, "spans", schedule_delay_millis=60_000)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(batches)
    tracer = provider.get_tracer("application")
    for _ in range(count):
        with suppress(ValueError), tracer.start_as_current_span(f"about {WORD}", attributes={"user.id": WORD, WORD: 1}):
            raise ValueError(WORD)
    return batches


def logged(exporter: LogRecordExporter) -> None:
    """A GenAI event, which is a log record, that says the word wherever it can."""
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    event = LogRecord(
        timestamp=1, event_name="gen_ai.choice", body={"content": WORD}, attributes={"user.id": WORD, WORD: 1}
    )
    provider.get_logger("application").emit(event)
    provider.shutdown()


def measured(exporter: MetricExporter) -> None:
    """A figure that leaves, and one whose name is the word."""
    provider = MeterProvider([PeriodicExportingMetricReader(exporter, 3_600_000)], shutdown_on_exit=False)
    for name in ("gen_ai.client.token.usage", WORD):
        provider.get_meter("application").create_counter(name, WORD, WORD).add(1, {"user.id": WORD, WORD: WORD})
    provider.shutdown()


def a_span() -> list[ReadableSpan]:
    kept: list[ReadableSpan] = []
    _to(kept, Policy()).get_tracer("application").start_span("memory.read").end()
    return kept


def spans_in(inbox: Inbox) -> int:
    requests = [ExportTraceServiceRequest.FromString(r.body) for r in inbox.requests if r.signal == "traces"]
    return sum(len(s.spans) for request in requests for r in request.resource_spans for s in r.scope_spans)


@pytest.mark.parametrize("protocol", PROTOCOLS)
class TestOverTheWire:
    def test_spans_arrive_and_nothing_said_is_in_them(self, protocol: str) -> None:
        inbox = Inbox()
        with receiving(protocol, inbox) as url:
            record(otlp(endpoint=url, protocol=protocol), 3).shutdown()
        assert spans_in(inbox) == 3
        assert {found_in(request.body, WORD) for request in inbox.requests} == {""}
        assert losses() == {}

    def test_with_payloads_on_all_of_it_arrives(self, protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MEMTRACE_TRACE_PAYLOADS", "1")
        inbox = Inbox()
        with receiving(protocol, inbox) as url:
            record(otlp(endpoint=url, protocol=protocol)).shutdown()
        (request,) = inbox.requests
        assert request.body.count(WORD.encode()) >= 4

    @pytest.mark.parametrize("spelling", ["", "0", "true", "True", "yes", "on", " 1", "1 ", "01", "2"])
    def test_payloads_need_exactly_one_spelling(
        self, protocol: str, spelling: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setenv("MEMTRACE_TRACE_PAYLOADS", spelling)
        assert not default_policy().payloads
        assert len(caplog.records) == (spelling not in ("", "0"))

    def test_the_standard_variables_are_honoured(self, protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
        inbox = Inbox()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
        with receiving(protocol, inbox) as url:
            monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
            record(otlp(), 3).shutdown()
        assert spans_in(inbox) == 3

    @pytest.mark.parametrize("compression", ["none", "gzip"])
    def test_all_three_signals_go_through_a_real_collector_without_a_word(
        self, protocol: str, compression: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", compression)
        inbox, arrived = Inbox(), threading.Event()
        inbox.on_request = lambda _: arrived.set() if {r.signal for r in inbox.requests} == set(SIGNALS) else None
        with (
            receiving(protocol, inbox) as out,
            rotel(out, protocol.partition("/")[0], compression=compression) as collector,
        ):
            to = {"endpoint": collector[protocol], "protocol": protocol}
            record(otlp(**to)).shutdown()
            logged(otlp_logs(**to))
            measured(otlp_metrics(**to))
            assert arrived.wait(20), f"{[request.signal for request in inbox.requests]} arrived"
        assert {found_in(request.body, WORD) for request in inbox.requests} == {""}
        sent = b"".join(request.body for request in inbox.requests)
        for kept in (b"ValueError", b"gen_ai.choice", b"gen_ai.client.token.usage"):
            assert kept in sent
        assert losses() == {}

    def test_a_real_collector_in_between_gets_and_sends_no_word(self, protocol: str) -> None:
        inbox, arrived = Inbox(), threading.Event()
        inbox.on_request = lambda _: arrived.set() if spans_in(inbox) == 500 else None
        with receiving(protocol, inbox) as out, rotel(out, protocol.partition("/")[0]) as collector:
            record(otlp(endpoint=collector[protocol], protocol=protocol), 500).shutdown()
            assert arrived.wait(20), f"{spans_in(inbox)} of 500 spans arrived"
        assert {found_in(request.body, WORD) for request in inbox.requests} == {""}


@pytest.mark.parametrize("protocol", PROTOCOLS)
class TestACollectorInTrouble:
    """The application goes on, memory stays bounded, and what is lost is counted."""

    @pytest.fixture(autouse=True)
    def _impatient(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")

    def test_that_is_down(self, protocol: str, caplog: pytest.LogCaptureFixture) -> None:
        url = f"http://127.0.0.1:{free_port()}"
        record(otlp(endpoint=url, protocol=protocol), 3).shutdown()
        assert losses() == {"spans": 3}
        assert WORD not in caplog.text

    def test_that_refuses(self, protocol: str) -> None:
        inbox = Inbox(status=503)
        with receiving(protocol, inbox) as url:
            record(otlp(endpoint=url, protocol=protocol), 3).shutdown()
        assert losses() == {"spans": 3}

    def test_that_never_answers(self, protocol: str) -> None:
        with black_hole() as url:
            record(otlp(endpoint=url, protocol=protocol), 3).shutdown()
        assert losses() == {"spans": 3}

    def test_that_restarts(self, protocol: str) -> None:
        inbox, port, arrived = Inbox(), free_port(), threading.Event()
        inbox.on_request = lambda _: arrived.set()
        ports = {"grpc": port} if protocol == "grpc" else {"http": port}
        exporter = otlp(endpoint=f"http://127.0.0.1:{port}", protocol=protocol)
        with receiving("http/protobuf", inbox) as out:
            for _ in range(2):
                arrived.clear()
                with rotel(out, "http", **ports):
                    # At first the channel may still back off, from when the collector was gone.
                    assert any(exporter.export(a_span()) is SpanExportResult.SUCCESS for _ in range(50))
                    assert arrived.wait(20)
        exporter.shutdown()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_collector_that_is_slow_holds_up_nothing_and_loses_nothing(protocol: str) -> None:
    inbox, entered, go_on = Inbox(), threading.Event(), threading.Event()
    inbox.on_request = lambda _: (entered.set(), go_on.wait(20))
    with receiving(protocol, inbox) as url:
        batches = Batches(
            otlp(endpoint=url, protocol=protocol), "spans", max_export_batch_size=4, schedule_delay_millis=60_000
        )
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(batches)
        for _ in range(4):
            provider.get_tracer("application").start_span("x").end()
        assert entered.wait(20)
        for _ in range(100):
            provider.get_tracer("application").start_span("x").end()  # returns at once, though no answer came yet
        go_on.set()
        batches.shutdown()
    assert spans_in(inbox) == 104
    assert losses() == {}


def test_the_application_never_waits_for_an_export_and_the_queue_is_bounded() -> None:
    entered, go_on = threading.Event(), threading.Event()

    class Stuck(SpanExporter):
        def export(self, spans: object) -> SpanExportResult:
            entered.set()
            go_on.wait(20)
            return SpanExportResult.SUCCESS

    batches = Batches(Stuck(), "spans", max_queue_size=16, max_export_batch_size=4, schedule_delay_millis=60_000)
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(batches)
    tracer = provider.get_tracer("application")
    for _ in range(4):
        tracer.start_span("x").end()
    assert entered.wait(20)
    for _ in range(100):
        tracer.start_span("x").end()  # returns at once, though no batch is taken
    assert losses() == {"spans": 100 - 16}
    go_on.set()
    batches.shutdown()


class TestWhatCannotBeRedacted:
    def test_is_dropped_and_counted_and_not_quoted(self, caplog: pytest.LogCaptureFixture) -> None:
        def raising(value: object, policy: Policy) -> object:
            raise ValueError(value)

        policy = Policy().allowing({"note": raising})
        kept: list[ReadableSpan] = []
        provider = _to(kept, policy)
        provider.get_tracer("a").start_span("x", attributes={"note": WORD}).end()
        provider.get_tracer("a").start_span("memory.read").end()
        assert [span.name for span in kept] == ["memory.read"]
        assert losses() == {"spans": 1}
        assert WORD not in caplog.text

    def test_nor_is_what_the_other_exporter_raises(self, caplog: pytest.LogCaptureFixture) -> None:
        class Raising(SpanExporter):
            def export(self, spans: object) -> SpanExportResult:
                raise ValueError(WORD)

        exporter = RedactingSpanExporter(Raising(), Policy())
        record(exporter).shutdown()
        assert losses() == {"spans": 1}
        assert WORD not in caplog.text


def test_what_was_withheld_is_reported_with_its_key() -> None:
    provider = _to([], Policy())
    provider.get_tracer("memtrace").start_span("memory.read", attributes={"note": WORD, "memory.query": WORD}).end()
    assert report() == {"note: unknown-key": 1, "memory.query: unknown-key": 1, **_shared(report())}
    assert WORD not in str(report())


def test_the_line_that_tells_what_was_withheld_is_not_exported_in_its_turn(caplog: pytest.LogCaptureFixture) -> None:
    exported = InMemoryLogRecordExporter()
    provider = LoggerProvider(shutdown_on_exit=False)
    provider.add_log_record_processor(SimpleLogRecordProcessor(RedactingLogExporter(exported, Policy())))

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            severity = SeverityNumber.DEBUG if record.levelno == logging.DEBUG else SeverityNumber.WARN
            log = LogRecord(timestamp=1, body=record.getMessage(), severity_number=severity)
            provider.get_logger(record.name).emit(log)

    handler = Handler()
    logging.getLogger().addHandler(handler)
    try:
        with caplog.at_level(logging.DEBUG):
            for name in ("app", "memtrace.export"):
                logging.getLogger(name).warning("%s", WORD)
    finally:
        logging.getLogger().removeHandler(handler)
    assert len(exported.get_finished_logs()) == 2
    assert len([record for record in caplog.records if record.levelno == logging.DEBUG]) == 2


FORKING = """
import os, signal
from memtrace.export import losses, withheld
with withheld._lock:
    child = os.fork()
    if not child:
        signal.alarm(20)
        withheld.lost("spans", 1)
        os._exit(losses() != {"spans": 1})
print(os.waitpid(child, 0)[1])
"""


def test_a_child_process_counts_on_though_its_parent_counted_when_it_forked() -> None:
    environment = {"PYTHONPATH": str(Path(__file__).parent.parent)}
    ended = subprocess.run([sys.executable, "-c", FORKING], env=environment, capture_output=True, text=True, check=True)
    assert ended.stdout == "0\n"


def test_a_report_is_bounded_whatever_the_keys() -> None:
    provider = _to([], Policy())
    for number in range(1100):
        provider.get_tracer("memtrace").start_span("x", attributes={f"{number}{'k' * 10_000}": 1}).end()
    assert len(report()) <= withheld.MOST_KEYS + 1
    assert max(map(len, report())) < 300


def test_a_span_says_how_much_was_withheld() -> None:
    kept: list[ReadableSpan] = []
    provider = _to(kept, Policy())
    provider.get_tracer("memtrace").start_span("memory.read", attributes={"note": WORD, "memory.count": 1}).end()
    provider.get_tracer("memtrace").start_span("memory.read", attributes={"memory.count": 1}).end()
    assert [dict(span.attributes or {}) for span in kept] == [
        {"memory.count": 1, "memtrace.withheld": 1},
        {"memory.count": 1},
    ]


class TestBadSettings:
    def test_a_protocol_there_is_not(self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
        with pytest.raises(UsageError, match="protocol='carrier-pigeon'"):
            otlp(protocol="carrier-pigeon")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")
        otlp().shutdown()
        assert [r.getMessage() for r in caplog.records if r.name == "memtrace.export"] == [
            "OTEL_EXPORTER_OTLP_PROTOCOL is neither grpc nor http/protobuf: grpc is used"
        ]

    def test_an_endpoint_that_is_no_url(self) -> None:
        with pytest.raises(UsageError, match="is no http:// or https:// URL"):
            otlp(endpoint="collector:4317")

    def test_names_from_the_environment(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setenv("MEMTRACE_EXPORT_NAMES", f"pet-shop, gpt-4o,,{'x' * 200}")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
        monkeypatch.setenv(
            "OTEL_RESOURCE_ATTRIBUTES", "service.namespace=pets,deployment.environment.name=eu%201,team=a"
        )
        assert default_policy(["mine"]).names == {"mine", "pet-shop", "gpt-4o", "shop", "pets", "eu 1"}
        assert "longer than 128" in caplog.text


APP = """
import logging, memtrace
from opentelemetry import metrics
with memtrace.turn("pet-shop", user="swordfish"), memtrace.read("swordfish"):
    logging.getLogger("app").warning("%s", "swordfish")
metrics.get_meter("app").create_counter("swordfish").add(1, {"swordfish": "swordfish"})
"""


def test_environment_variables_alone_do_it_for_all_three_signals(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    inbox = Inbox()
    with receiving("http/protobuf", inbox) as url:
        ended = subprocess.run(
            [Path(sys.executable).parent / "opentelemetry-instrument", sys.executable, "app.py"],
            cwd=tmp_path, capture_output=True, text=True, check=False,
            env={
                "PATH": str(Path(sys.executable).parent), "PYTHONPATH": str(Path(__file__).parent.parent),
                "OTEL_TRACES_EXPORTER": "memtrace_otlp", "OTEL_LOGS_EXPORTER": "memtrace_otlp",
                "OTEL_METRICS_EXPORTER": "memtrace_otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
                "OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_PYTHON_LOGGING_AUTO_INSTRUMENTATION_ENABLED": "true",
                "MEMTRACE_EXPORT_NAMES": "pet-shop", "MEMTRACE_ID_KEY": "k" * 32, "OTEL_SERVICE_NAME": "shop",
            },
        )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert {request.signal for request in inbox.requests} == {"traces", "logs", "metrics"}
    assert {found_in(request.body, WORD) for request in inbox.requests} == {""}
    (traces,) = [request.body for request in inbox.requests if request.signal == "traces"]
    assert b"invoke_agent pet-shop" in traces
    assert b"shop" in traces


def test_an_application_that_did_not_ask_is_left_alone(tmp_path: Path) -> None:
    code = "import memtrace, sys; print([m for m in sys.modules if m.startswith('memtrace.export')])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def test_the_receiver_unpacks_what_came_compressed() -> None:
    import httpx

    inbox = Inbox()
    with Receiver() as receiver:
        url = receiver.register(inbox)
        headers = {"Content-Encoding": "gzip"}
        assert httpx.post(f"{url}/v1/logs", content=gzip.compress(b"hello"), headers=headers).status_code == 200
        assert httpx.post(f"{url}/v1/nothing", content=b"").status_code == 410
        receiver.unregister(url)
        assert httpx.post(f"{url}/v1/logs", content=b"late").status_code == 410
    assert inbox.requests == [Received("logs", b"hello")]


class _Keeping(SpanExporter):
    def __init__(self, kept: list[ReadableSpan]) -> None:
        self._kept = kept

    def export(self, spans: object) -> SpanExportResult:
        self._kept += spans
        return SpanExportResult.SUCCESS


def _to(kept: list[ReadableSpan], policy: Policy) -> TracerProvider:
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(RedactingSpanExporter(_Keeping(kept), policy)))
    return provider


def _shared(found: dict[str, int]) -> dict[str, int]:
    """What the resource of every span withholds."""
    return {line: number for line, number in found.items() if line.startswith("service.")}
