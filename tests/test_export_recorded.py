"""Spans that other instrumentations really made: nothing they say leaves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry._logs import LogRecord
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode
from recorded_spans import FILES, cases

from memtrace.export.rebuilding import Rebuilder
from memtrace.harness.seen.sweep import found_in
from memtrace.identity import IdKey
from memtrace.redaction import Policy

SERVERS = sorted((Path(__file__).parent / "recorded_servers").glob("*.json"))
WORD = "zqtestxmarlins"
SAID = ("quokka", "locker", "szafka", "kookaburra", "wombat")
"""What people say in the recordings of GenAI instrumentations."""
POLICY = Policy(names=frozenset({"gpt-test"}), key=IdKey(b"k" * 32))


def span(recorded: dict[str, Any]) -> ReadableSpan:
    status, text = recorded.get("status") if isinstance(recorded.get("status"), list) else ("UNSET", None)
    return ReadableSpan(
        name=recorded["name"],
        context=SpanContext(1, 2, is_remote=False),
        resource=Resource.get_empty(),
        attributes=recorded["attributes"],
        events=[Event(name, fields, 5) for name, fields in recorded["events"]],
        kind=SpanKind[recorded.get("kind", "INTERNAL")],
        status=Status(StatusCode[status], text),
        start_time=1,
        end_time=2,
        instrumentation_scope=InstrumentationScope(recorded["scope"]),
    )


def log(name: str, fields: dict[str, Any]) -> ReadableLogRecord:
    record = LogRecord(
        timestamp=1, observed_timestamp=1, context=Context(), body=fields, attributes=fields, event_name=name
    )
    return ReadableLogRecord(record, Resource.get_empty(), InstrumentationScope("x"))


def leaving(spans: list[dict[str, Any]]) -> bytes:
    rebuild = Rebuilder(POLICY, lambda *_: None)
    clean = [rebuild.span(span(each)) for each in spans]
    logs = [rebuild.log(log(name, fields)) for each in spans for name, fields in each.get("logs", [])]
    return encode_spans(clean).SerializeToString() + encode_logs(logs).SerializeToString()


def emitters() -> Iterator[Any]:
    for emitter, case in cases():
        yield pytest.param(case, id=f"{emitter}: {case['case']}")


@pytest.mark.parametrize("case", list(emitters()))
def test_nothing_said_to_a_model_leaves(case: dict[str, Any]) -> None:
    left = leaving(case["spans"])
    assert {word: found for word in SAID if (found := found_in(left, word))} == {}


@pytest.mark.parametrize("file", SERVERS, ids=lambda file: file.stem)
def test_nothing_in_a_statement_a_url_or_an_error_leaves(file: Path) -> None:
    spans = json.loads(file.read_text())["spans"]
    assert WORD in json.dumps(spans)
    assert found_in(leaving(spans), WORD) == ""


def test_what_may_leave_does() -> None:
    spans = {file.stem: json.loads(file.read_text())["spans"] for file in SERVERS}
    assert b"postgresql" in leaving(spans["psycopg"])
    assert b"UniqueViolation" in json.dumps(spans["psycopg"]).encode()
    assert b"INSERT" in leaving(spans["psycopg"])
    assert b"HSET" in leaving(spans["redis"])
    assert b"GET" in leaving(spans["httpx"])


def test_the_recordings_hold_what_is_looked_for() -> None:
    text = "".join(file.read_text() for file in FILES)
    assert all(word in text for word in SAID)
