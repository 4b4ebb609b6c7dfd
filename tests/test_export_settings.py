"""The standard variables: a bad value is one line that does not quote it, and the default."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from collectors import black_hole

from memtrace.export import otlp, variables
from memtrace.export.parting import LAST_SECONDS, Parting
from memtrace.export.pipeline import Batches
from memtrace.export.recent import RecentSpans

BAD = "sesame"


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MEMTRACE_ID_KEY", "k" * 32)
    variables.warn_once.cache_clear()
    yield
    variables.warn_once.cache_clear()


@pytest.mark.parametrize("protocol", ["grpc", "http/protobuf"])
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("OTEL_EXPORTER_OTLP_TIMEOUT", BAD, "is no number of seconds: 10 is used"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "-1", "is no number of seconds: 10 is used"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "nan", "is no number of seconds: 10 is used"),
        ("OTEL_EXPORTER_OTLP_COMPRESSION", BAD, ": none is used"),
    ],
)
def test_of_an_exporter(
    protocol: str, name: str, value: str, said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(name, value)
    for _ in range(3):
        otlp(protocol=protocol).shutdown()
    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith(f"{name} is no")
    assert line.endswith(said)
    assert value not in line.removeprefix(name)


def test_compression_may_be_turned_off_in_so_many_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
    for protocol in ("grpc", "http/protobuf"):
        otlp(protocol=protocol).shutdown()


def test_an_address_http_cannot_go_to(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318")
    otlp(protocol="http/protobuf").shutdown()
    assert [r.getMessage() for r in caplog.records] == [
        "OTEL_EXPORTER_OTLP_ENDPOINT is no http:// or https:// URL: nothing is sent"
    ]


@pytest.mark.parametrize(
    ("values", "read", "lines"),
    [
        ({}, {}, 0),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "100"}, {"max_queue_size": 100, "max_export_batch_size": 100}, 0),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": BAD}, {}, 1),
        ({"OTEL_BSP_MAX_QUEUE_SIZE": "0"}, {}, 1),
        ({"OTEL_BSP_SCHEDULE_DELAY": "-5"}, {}, 1),
        ({"OTEL_BSP_EXPORT_TIMEOUT": "1.5"}, {}, 1),
        ({"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "9999"}, {"max_export_batch_size": 2048}, 1),
    ],
)
def test_of_the_batches(
    values: dict[str, str],
    read: dict[str, int],
    lines: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    defaults = {
        "max_queue_size": 2048, "schedule_delay_millis": 5000,
        "max_export_batch_size": 512, "export_timeout_millis": 30_000,
    }  # fmt: skip
    assert variables.batches() == {**defaults, **read}
    Batches(RecentSpans(), "spans").shutdown()
    assert len(caplog.records) == lines
    assert all("\n" not in record.getMessage() and record.exc_info is None for record in caplog.records)


class Refusing:
    """An exporter of the SDK's that does not get through."""

    class Result:
        name = "FAILURE"

    def __init__(self, timeout: float, made: list[Any]) -> None:
        self.timeout, self.exported, self.ended = timeout, 0, False
        made.append(self)

    def export(self, _batch: object) -> Result:
        self.exported += 1
        return self.Result()

    def shutdown(self) -> None:
        self.ended = True


@pytest.mark.parametrize(("timeout", "last"), [(10.0, LAST_SECONDS), (0.5, 0.5)])
def test_when_the_process_ends_what_is_left_is_tried_once_and_shortly(timeout: float, last: float) -> None:
    made: list[Refusing] = []
    parting = Parting(lambda seconds: Refusing(seconds, made), timeout)
    for _ in range(2):
        parting.export([])
    parting.part()
    parting.part()
    for _ in range(5):
        assert parting.export([]).name == "FAILURE"
    parting.shutdown()
    assert [(each.timeout, each.exported, each.ended) for each in made] == [(timeout, 2, True), (last, 1, True)]


def test_an_application_ends_though_its_collector_never_answers(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("import memtrace\nwith memtrace.turn('shop'): print('done')\n")
    with black_hole() as url:
        ended = subprocess.run(
            [Path(sys.executable).parent / "opentelemetry-instrument", sys.executable, "app.py"],
            cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
            env={
                "PATH": str(Path(sys.executable).parent), "PYTHONPATH": str(Path(__file__).parent.parent),
                "OTEL_TRACES_EXPORTER": "memtrace_otlp", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none",
                "OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_TIMEOUT": "3600", "MEMTRACE_ID_KEY": "k" * 32,
            },
        )  # fmt: skip
    assert (ended.returncode, ended.stdout) == (0, "done\n")
