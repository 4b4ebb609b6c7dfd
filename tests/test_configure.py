"""One line sets it all up: whole spans here, redacted ones there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.metrics import _internal as metrics_module
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util._once import Once

import memtrace
from memtrace import redaction
from memtrace.capture import owned
from memtrace.errors import UsageError
from memtrace.export import RecentSpans, default_policy, erase, recorded, variables, withheld
from memtrace.harness.record.receiver import Inbox, Receiver
from memtrace.harness.seen.sweep import found_in
from memtrace.identity import id_key
from memtrace.model import Author, Message

WORD = "swordfish"


@pytest.fixture(autouse=True)
def _fresh_globals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    monkeypatch.setattr(metrics_module, "_METER_PROVIDER", None)
    monkeypatch.setattr(metrics_module, "_METER_PROVIDER_SET_ONCE", Once())
    monkeypatch.setattr(metrics_module, "_PROXY_METER_PROVIDER", metrics_module._ProxyMeterProvider())
    monkeypatch.setenv("MEMTRACE_ID_KEY", "k" * 32)
    id_key.cache_clear()
    variables.warn_once.cache_clear()
    withheld.reset()
    withheld._withheld_metric.cache_clear()
    withheld._lost_metric.cache_clear()
    yield
    id_key.cache_clear()
    withheld._withheld_metric.cache_clear()
    withheld._lost_metric.cache_clear()


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
def collector(inbox: Inbox) -> Iterator[str]:
    with Receiver() as receiver:
        yield receiver.register(inbox)


def a_turn() -> None:
    with memtrace.turn("pet-shop", user="alice@example.com"), memtrace.read(WORD) as read:
        with read.block("facts", type="facts") as block:
            block.rendered([WORD])
        with memtrace.model_call("gpt-4o", [Message(Author.USER, WORD)]):
            pass


def text(inbox: Inbox, signal: str) -> bytes:
    return b"".join(request.body for request in inbox.requests if request.signal == signal)


def test_the_record_is_whole_and_the_export_is_redacted(tmp_path: Path, inbox: Inbox, collector: str) -> None:
    pipeline = memtrace.configure(
        service="shop", names=["pet-shop"], local=tmp_path, endpoint=collector, protocol="http/protobuf"
    )
    a_turn()
    pipeline.shutdown()
    spans = str(list(recorded(tmp_path)))
    assert spans.count(WORD) >= 5
    assert "alice@example.com" in spans
    exported = text(inbox, "traces")
    assert found_in(exported, WORD) == found_in(exported, "alice@example.com") == ""
    for kept in (b"invoke_agent pet-shop", b"memory.read.facts", b"chat other", b"service.name", b"shop"):
        assert kept in exported
    assert erase(tmp_path, "alice@example.com") == 4


def test_what_was_withheld_is_a_metric_that_leaves(inbox: Inbox, collector: str) -> None:
    pipeline = memtrace.configure(endpoint=collector, protocol="http/protobuf", local="memory")
    a_turn()
    pipeline.shutdown()
    figures = text(inbox, "metrics")
    for name in (b"memtrace.export.withheld", b"gen_ai.request.messages", b"gen_ai.client.operation.duration"):
        assert name in figures
    assert found_in(figures, WORD) == ""


def test_without_a_local_record_no_content_is_recorded_at_all(collector: str) -> None:
    pipeline = memtrace.configure(endpoint=collector, protocol="http/protobuf")
    assert pipeline.record is None
    assert not owned(pipeline.tracer_provider)
    pipeline.shutdown()


def test_the_record_may_be_in_memory_and_nothing_need_leave() -> None:
    pipeline = memtrace.configure(local="memory", export=False)
    a_turn()
    pipeline.flush()
    assert isinstance(pipeline.record, RecentSpans)
    assert WORD in "".join(span.to_json() for span in pipeline.record.spans)
    assert pipeline.meter_provider is None
    pipeline.shutdown()


def test_somebody_elses_exporter_on_it_gets_no_word_and_no_id() -> None:
    pipeline = memtrace.configure(local="memory", export=False)
    theirs = InMemorySpanExporter()
    pipeline.tracer_provider.add_span_processor(SimpleSpanProcessor(theirs))
    a_turn()
    said = "".join(span.to_json() for span in theirs.get_finished_spans())
    assert "invoke_agent" in said
    assert WORD not in said
    assert "alice" not in said
    pipeline.shutdown()


def test_payloads_leave_where_asked_for_also_without_a_record(
    inbox: Inbox, collector: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMTRACE_TRACE_PAYLOADS", "1")
    pipeline = memtrace.configure(endpoint=collector, protocol="http/protobuf")
    a_turn()
    pipeline.shutdown()
    exported = text(inbox, "traces")
    assert exported.count(WORD.encode()) >= 5
    assert b"alice@example.com" not in exported


def test_a_provider_that_is_already_there_is_not_replaced() -> None:
    pipeline = memtrace.configure(local="memory", export=False)
    with pytest.raises(UsageError, match="already set"):
        memtrace.configure(local="memory")
    assert trace.get_tracer_provider() is pipeline.tracer_provider
    pipeline.shutdown()


def test_a_bad_argument_sets_nothing_up(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for bad in (
        {"protocol": "x"},
        {"endpoint": "x"},
        {"endpoint": "http://[::1"},
        {"names": "pet-shop"},
        {"local": tmp_path / "file", "export": False},
    ):
        with pytest.raises(UsageError):
            memtrace.configure(**bad)
    assert metrics_module._METER_PROVIDER is None
    assert trace._TRACER_PROVIDER is None


def test_what_a_policy_allows_arrives_and_so_do_the_names_beside_it(inbox: Inbox, collector: str) -> None:
    policy = default_policy().allowing({"app.tier": redaction.words("gold silver")})
    pipeline = memtrace.configure(
        service="shop", names=["pet-shop"], policy=policy, endpoint=collector, protocol="http/protobuf"
    )
    with pipeline.tracer_provider.get_tracer("app").start_as_current_span("pet-shop", attributes={"app.tier": "gold"}):
        a_turn()
    pipeline.shutdown()
    exported = text(inbox, "traces")
    for kept in (b"app.tier", b"gold", b"invoke_agent pet-shop", b"\x04shop"):
        assert kept in exported


@pytest.mark.parametrize(
    "name",
    [
        "OTEL_BSP_MAX_QUEUE_SIZE",
        "OTEL_METRIC_EXPORT_INTERVAL",
        "OTEL_METRICS_EXEMPLAR_FILTER",
        "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT",
        "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT",
        "OTEL_EXPORTER_OTLP_HEADERS",
    ],
)
def test_a_bad_variable_of_the_sdks_is_one_line_and_all_of_it_is_set_up(
    name: str, inbox: Inbox, collector: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(name, "-sesame")
    pipeline = memtrace.configure(endpoint=collector, protocol="http/protobuf", local="memory")
    a_turn()
    pipeline.shutdown()
    assert {request.signal for request in inbox.requests} == {"traces", "metrics"}
    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"{name} is ")
    assert "sesame" not in line
