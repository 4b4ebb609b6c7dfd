"""What only the SDK reads: a bad value is one line that does not quote it, and the default, however it is set up."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from memtrace.errors import UsageError
from memtrace.export import losses, otlp, otlp_logs, otlp_metrics, variables, withheld
from memtrace.export.collector import OTLPLogs, OTLPMetrics, OTLPSpans
from memtrace.harness.record.receiver import Inbox, Receiver, grpc_receiver
from memtrace.identity import id_key

BAD = "sesame"
PROTOCOLS = ["grpc", "http/protobuf"]


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # What is set right in the environment is put back: a variable that a test set, by its own; others here.
    before = dict(os.environ)
    monkeypatch.setenv("MEMTRACE_ID_KEY", "k" * 32)
    for each in (variables.warn_once, id_key):
        each.cache_clear()
    withheld.reset()
    yield
    variables.warn_once.cache_clear()
    id_key.cache_clear()
    os.environ.clear()
    os.environ.update(before)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize(
    ("given", "left"),
    [
        (f"{BAD} without an equals sign", ""),
        (f"in valid={BAD}", ""),
        (f"auth!={BAD}", ""),
        (f"auth=%C3%A9{BAD}", ""),
        (f"auth=a%0A{BAD}", ""),
        (f'auth="{BAD}"', ""),
        (f"a=1,{BAD},b=Bearer 2", "a=1,b=Bearer 2"),
    ],
)
def test_a_header_that_is_none_is_left_out_and_not_printed(
    protocol: str, given: str, left: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", given)
    for make in (otlp, otlp_logs, otlp_metrics):
        make(protocol=protocol).shutdown()
    assert lines(caplog) == ["OTEL_EXPORTER_OTLP_HEADERS is no list of name=value, in printable ASCII: 1 left out"]
    assert os.environ["OTEL_EXPORTER_OTLP_HEADERS"] == left


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_good_headers_are_sent(
    protocol: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "api-key=s%20e,Authorization=Basic YQ==")
    inbox = Inbox()
    with receiving(inbox, protocol) as url:
        exporter = otlp(endpoint=url, protocol=protocol)
        exporter.export([a_span()])
        exporter.shutdown()
    [request] = inbox.requests
    assert request.headers["api-key"] == "s e"
    assert request.headers["authorization"] == "Basic YQ=="
    assert lines(caplog) == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("address", ["http://", "http://[::1", "http://127.0.0.1:99999", f"ftp://{BAD}"])
def test_an_address_that_is_none_is_never_tried(
    protocol: str, address: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", address)
    exporter = otlp(protocol=protocol)
    exporter.export([a_span()])
    exporter.shutdown()
    assert lines(caplog) == ["OTEL_EXPORTER_OTLP_ENDPOINT is no http:// or https:// URL: nothing is sent"]
    assert losses() == {"spans": 1}
    with pytest.raises(UsageError, match="is no http:// or https:// URL"):
        otlp(endpoint=address, protocol=protocol)


def test_a_password_in_an_address_is_not_printed_by_grpc(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://user:{BAD}@127.0.0.1:9")
    exporter = otlp(protocol="grpc")
    exporter.export([a_span()])
    exporter.shutdown()
    assert len(lines(caplog)) == 1
    assert BAD not in caplog.text


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("setting", ["CERTIFICATE", "CLIENT_KEY", "CLIENT_CERTIFICATE"])
@pytest.mark.parametrize("name", [BAD, "."])
def test_without_its_certificate_nothing_is_sent(
    protocol: str, setting: str, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "https://127.0.0.1:9")
    monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{setting}", name)
    for make in (otlp, otlp_logs, otlp_metrics):
        make(protocol=protocol).shutdown()
    [line] = lines(caplog)
    assert line.startswith(f"OTEL_EXPORTER_OTLP_{setting} is no file that can be read (")
    assert line.endswith("nothing is sent")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("given", ["https://127.0.0.1:9", ""])
def test_each_file_that_cannot_be_read_is_named_and_only_by_memtrace(
    given: str, protocol: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "https://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_INSECURE", "false")
    names = [f"OTEL_EXPORTER_OTLP_{setting}" for setting in ("CERTIFICATE", "CLIENT_KEY", "CLIENT_CERTIFICATE")]
    for name in names:
        monkeypatch.setenv(name, BAD)
    otlp(endpoint=given, protocol=protocol).shutdown()
    assert [line.split()[0] for line in lines(caplog)] == names


def test_without_tls_a_certificate_is_not_looked_at(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", BAD)
    otlp().shutdown()
    otlp(endpoint="http://127.0.0.1:9").shutdown()
    assert lines(caplog) == []


@pytest.mark.parametrize(
    ("name", "value", "left"),
    [
        ("OTEL_BSP_MAX_QUEUE_SIZE", BAD, "2048"),
        ("OTEL_BSP_SCHEDULE_DELAY", "-5", "5000"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "9999", "2048"),
        ("OTEL_BLRP_MAX_QUEUE_SIZE", "0", "2048"),
        ("OTEL_BLRP_EXPORT_TIMEOUT", BAD, "30000"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "-1", "60000"),
        ("OTEL_METRIC_EXPORT_INTERVAL", "nan", "60000"),
        ("OTEL_METRIC_EXPORT_TIMEOUT", BAD, "30000"),
        ("OTEL_METRICS_EXEMPLAR_FILTER", BAD, "trace_based"),
        ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", BAD, "cumulative"),
        ("OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION", BAD, "explicit_bucket_histogram"),
        ("OTEL_EXPORTER_OTLP_INSECURE", BAD, "false"),
    ],
)
def test_what_the_sdk_reads_after_its_exporters_were_made_is_set_right_before(
    name: str, value: str, left: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(name, value)
    for make in (OTLPSpans, OTLPLogs, OTLPMetrics):
        make().shutdown()
    [line] = lines(caplog)
    assert line.startswith(f"{name} is ")
    assert BAD not in line
    assert os.environ[name] == left


def test_a_small_queue_has_no_larger_batches(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "100")
    monkeypatch.delenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", raising=False)
    OTLPSpans().shutdown()
    assert os.environ["OTEL_BSP_MAX_EXPORT_BATCH_SIZE"] == "100"
    assert lines(caplog) == []


def test_what_is_good_stays_as_it_is(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    for name, value in {
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "OTEL_METRIC_EXPORT_INTERVAL": "1e3",
        "OTEL_METRICS_EXEMPLAR_FILTER": "Always_On",
        "OTEL_EXPORTER_OTLP_INSECURE": "TRUE",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "collector:4317",
    }.items():
        monkeypatch.setenv(name, value)
    before = dict(os.environ)
    for make in (OTLPSpans, OTLPLogs, OTLPMetrics):
        make().shutdown()
    assert dict(os.environ) == before
    assert lines(caplog) == []


APP = """
import memtrace
from opentelemetry import metrics
metrics.get_meter("app").create_counter("process.cpu.time").add(1)
with memtrace.turn("shop"): print("done")
"""


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_under_opentelemetry_instrument_all_of_them_at_once(protocol: str, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    bad = {
        "OTEL_BSP_MAX_QUEUE_SIZE": "0", "OTEL_BLRP_SCHEDULE_DELAY": "-1", "OTEL_METRIC_EXPORT_INTERVAL": "0",
        "OTEL_METRICS_EXEMPLAR_FILTER": BAD, "OTEL_EXPORTER_OTLP_HEADERS": BAD, "OTEL_EXPORTER_OTLP_TIMEOUT": BAD,
        "MEMTRACE_TRACE_PAYLOADS": BAD, "MEMTRACE_ID_KEY": BAD, "MEMTRACE_EXPORT_NAMES": "x" * 200,
    }  # fmt: skip
    inbox = Inbox()
    with receiving(inbox, protocol) as url:
        ended = subprocess.run(
            [Path(sys.executable).parent / "opentelemetry-instrument", sys.executable, "app.py"],
            cwd=tmp_path, capture_output=True, text=True, check=False,
            env={
                "PATH": str(Path(sys.executable).parent), "PYTHONPATH": str(Path(__file__).parent.parent),
                **{f"OTEL_{signal}_EXPORTER": "memtrace_otlp" for signal in ("TRACES", "LOGS", "METRICS")},
                "OTEL_EXPORTER_OTLP_PROTOCOL": protocol, "OTEL_EXPORTER_OTLP_ENDPOINT": url, **bad,
            },
        )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (0, "done\n")
    assert {request.signal for request in inbox.requests} == {"traces", "metrics"}
    said = ended.stderr.splitlines()
    assert len(said) == len(bad), ended.stderr
    for name in bad:
        assert sum(name in line for line in said) == 1
    assert BAD not in ended.stderr


def a_span() -> object:
    from opentelemetry.sdk.trace import TracerProvider

    return TracerProvider(shutdown_on_exit=False).get_tracer("application").start_span("memory.read")


@contextmanager
def receiving(inbox: Inbox, protocol: str) -> Iterator[str]:
    """The URL of a collector that keeps what comes."""
    if protocol == "grpc":
        with grpc_receiver(inbox) as url:
            yield url
    else:
        with Receiver() as receiver:
            yield receiver.register(inbox)
