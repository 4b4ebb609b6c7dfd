"""Where an extra was not installed, whoever asks for what it brings is told which, in one line."""

from __future__ import annotations

import subprocess
import sys

import pytest

SDK = "opentelemetry.sdk"
OTLP = "opentelemetry.exporter.otlp.proto.grpc.trace_exporter"
LINES = "opentelemetry.exporter.otlp.json.common.trace_encoder"


def run(code: str, absent: str) -> subprocess.CompletedProcess[str]:
    before = f"import sys\nsys.modules.update(dict.fromkeys({absent!r}.split()))\n"
    return subprocess.run([sys.executable, "-c", before + code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("code", "absent", "extra"),
    [
        ("import memtrace; memtrace.configure(service='shop', endpoint='http://collector:4317')", SDK, "export"),
        ("from memtrace import configure; configure()", SDK, "export"),
        ("import memtrace.export", SDK, "export"),
        ("from memtrace.export import otlp", SDK, "export"),
        ("from memtrace.export import otlp; otlp()", OTLP, "export"),
        ("import memtrace; memtrace.configure(local='/nowhere', export=False)", LINES, "export"),
        ("from memtrace.plane import PlaneFacts", "httpcore", "reference"),
        ("import memtrace.reference", "httpcore", "reference"),
        ("import memtrace.reference", "httpx", "reference"),
        ("import memtrace.reference", "numpy", "reference"),
    ],
)
def test_the_extra_is_named_in_one_line(code: str, absent: str, extra: str) -> None:
    *_, last = run(code, absent).stderr.splitlines()
    assert last.startswith("memtrace.errors.UsageError: ")
    assert last.endswith(f": pip install 'memtrace-otel[{extra}]'")


def test_memtrace_itself_needs_none_of_them() -> None:
    code = "from memtrace import *\nimport memtrace\nprint(callable(configure), hasattr(memtrace, 'nothing'))"
    done = run(code, f"{SDK} httpcore httpx numpy")
    assert (done.stdout, done.stderr) == ("True False\n", "")
