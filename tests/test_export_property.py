"""Whatever an application records, nothing of it is in the bytes that leave; with payloads on, all of it is."""

from __future__ import annotations

import logging
import os

import pytest
from anything import WORD, Anything
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.json.common.trace_encoder import encode_spans as spans_as_json
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from memtrace.export.rebuilding import Rebuilder
from memtrace.export.withheld import Tally
from memtrace.harness.seen.sweep import found_in
from memtrace.identity import IdKey
from memtrace.redaction import Policy

ITEMS = 20_000 if os.environ.get("MEMTRACE_SLOW") == "1" else 2_000
A_BATCH = 20
POLICY = Policy(names=frozenset({"pet-shop"}), key=IdKey(b"k" * 32))
any_seed = st.integers(0, 2**32)
often = settings(max_examples=ITEMS // A_BATCH, deadline=None, database=None)


def bytes_of(seed: int, policy: Policy | None, *, ids: bool = True) -> list[bytes]:
    """A batch of each signal, encoded; as it is where there is no policy."""
    draw, tally = Anything(seed, ids=ids), Tally()
    spans = [draw.span() for _ in range(A_BATCH // 2)]
    logs = [draw.log() for _ in range(A_BATCH // 4)]
    metrics = [draw.metrics() for _ in range(A_BATCH // 4)]
    if policy is not None:
        rebuild = Rebuilder(policy, tally)
        spans, logs = [rebuild.span(span) for span in spans], [rebuild.log(log) for log in logs]
        metrics = [rebuild.metrics(each) for each in metrics]
        tally.publish("anything")
    bodies = [encode_spans(spans), encode_logs(logs), *map(encode_metrics, metrics)]
    return [body.SerializeToString() for body in bodies] + [spans_as_json(spans).to_json().encode()]


@given(seed=any_seed)
@often
def test_nothing_that_was_planted_anywhere_leaves(seed: int) -> None:
    assert [found for body in bytes_of(seed, POLICY) if (found := found_in(body, WORD))] == []


@given(seed=any_seed)
@settings(max_examples=20, deadline=None, database=None)
def test_the_sweep_finds_what_was_planted_where_nothing_is_withheld(seed: int) -> None:
    assert any(found_in(body, WORD) for body in bytes_of(seed, None))


@given(seed=any_seed)
@settings(max_examples=max(20, ITEMS // A_BATCH // 4), deadline=None, database=None)
def test_with_payloads_on_everything_leaves_byte_for_byte(seed: int) -> None:
    assert bytes_of(seed, Policy(payloads=True), ids=False) == bytes_of(seed, None, ids=False)


@given(seed=any_seed)
@settings(max_examples=20, deadline=None, database=None)
def test_without_a_key_nothing_leaves_either(seed: int) -> None:
    assert [found for body in bytes_of(seed, Policy()) if (found := found_in(body, WORD))] == []


def test_nothing_that_was_planted_is_in_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        for seed in range(20):
            bytes_of(seed, POLICY)
    assert "withheld from a batch of anything" in caplog.text
    assert found_in(caplog.text.encode(), WORD) == ""
