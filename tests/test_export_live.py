"""One trace with the spans of other instrumentations on real servers in it: nothing that was said leaves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from record_servers import WORD, httpx, psycopg, redis

from memtrace.export import otlp
from memtrace.harness.record.receiver import Inbox, Receiver
from memtrace.harness.seen.sweep import found_in
from memtrace.identity import IdKey
from memtrace.model import Author, Message
from memtrace.redaction import Policy
from memtrace.tracing import Tracing, own

INSTRUMENTED = ("psycopg", "redis", "httpx")


@pytest.fixture
def instrumentors() -> Iterator[None]:
    """Those that are installed; taken off again."""
    pytest.importorskip("psycopg")
    pytest.importorskip("redis")
    modules = [pytest.importorskip(f"opentelemetry.instrumentation.{name}") for name in INSTRUMENTED]
    yield
    names = ("PsycopgInstrumentor", "RedisInstrumentor", "HTTPXClientInstrumentor")
    for module, name in zip(modules, names, strict=True):
        getattr(module, name)().uninstrument()


@pytest.mark.usefixtures("instrumentors")
def test_a_turn_on_real_servers_leaves_without_a_word(postgres_url: str, redis_url: str) -> None:
    inbox, whole = Inbox(), InMemorySpanExporter()
    with Receiver() as receiver:
        exporter = otlp(
            endpoint=receiver.register(inbox), protocol="http/protobuf", policy=Policy(key=IdKey(b"k" * 32))
        )
        provider = TracerProvider(shutdown_on_exit=False)
        for each in (whole, exporter):
            provider.add_span_processor(SimpleSpanProcessor(each))
        own(provider)
        tracing = Tracing(tracer_provider=provider)
        with suppress(ValueError), tracing.turn("shop", user=WORD), tracing.read(WORD):
            psycopg(postgres_url, provider)
            redis(redis_url, provider)
            httpx("", provider)
            with tracing.model_call("gpt", [Message(Author.USER, WORD)]):
                raise ValueError(WORD)
        provider.shutdown()
    spans = whole.get_finished_spans()
    assert len({span.context.trace_id for span in spans if span.context}) == 1
    scopes = {span.instrumentation_scope.name.rpartition(".")[2] for span in spans if span.instrumentation_scope}
    assert scopes == {*INSTRUMENTED, "memtrace"}
    for scope in scopes:
        said = "".join(
            s.to_json() for s in spans if s.instrumentation_scope and s.instrumentation_scope.name.endswith(scope)
        )
        assert found_in(said.encode(), WORD), f"the spans of {scope} hold nothing that could have left"
    left = b"".join(request.body for request in inbox.requests)
    assert found_in(left, WORD) == ""
    for kept in (b"postgresql", b"INSERT", b"UniqueViolation", b"redis", b"HSET", b"GET"):
        assert kept in left
