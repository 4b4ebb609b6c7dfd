from __future__ import annotations

import asyncio
import contextvars
import importlib
import threading

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from memtrace import semconv
from memtrace.harness.record import attribution
from memtrace.harness.record.attribution import SPAN_HEADER, TURN, TURN_HEADER, SpanLabel, labelled, unwatch, watch

MODEL = "http://127.0.0.1:59999"
NO_SPAN = trace.NonRecordingSpan(trace.INVALID_SPAN_CONTEXT)


@pytest.fixture(params=["httpx", "httpx2"])
def http(request):
    if request.param == "httpx2":
        pytest.importorskip("httpx2")
    return importlib.import_module(request.param)


@pytest.fixture
def watched(http):
    watch(f"{MODEL}/script/v1")
    yield http
    unwatch(MODEL)


@pytest.fixture
def tracer():
    return TracerProvider().get_tracer("tests")


def echo(http):
    """A transport whose every answer is the request's own headers."""
    return http.MockTransport(lambda request: http.Response(200, json=dict(request.headers)))


def sent(http, url):
    with http.Client(transport=echo(http)) as client:
        return client.post(url, json={}).json()


async def asent(http, url):
    async with http.AsyncClient(transport=echo(http)) as client:
        return (await client.post(url, json={})).json()


def test_request_to_the_model_carries_the_turn_and_the_span(watched, tracer):
    with labelled("t1"), tracer.start_as_current_span("chat") as span:
        sync = sent(watched, f"{MODEL}/any/path")
        asynchronous = asyncio.run(asent(watched, f"{MODEL}/any/path"))
    context = span.get_span_context()
    for headers in (sync, asynchronous):
        assert headers[TURN_HEADER] == "t1"
        assert headers[SPAN_HEADER] == f"{context.trace_id:032x}-{context.span_id:016x}"


def test_request_outside_a_turn_and_a_span_carries_neither(watched):
    with labelled("t1"):
        pass
    with trace.use_span(NO_SPAN):
        headers = sent(watched, MODEL)
    assert TURN_HEADER not in headers
    assert SPAN_HEADER not in headers


@pytest.mark.parametrize("url", ["http://127.0.0.1:59998/", "http://localhost:59999/", "https://api.example.com/v1"])
def test_request_to_anyone_else_is_left_as_it_is(watched, url, tracer):
    with labelled("t1"), tracer.start_as_current_span("chat"):
        headers = [sent(watched, url), asyncio.run(asent(watched, url))]
    assert [set(found) & {TURN_HEADER, SPAN_HEADER} for found in headers] == [set(), set()]


def test_what_else_the_caller_asked_of_the_client_is_kept(watched):
    async def main():
        async with watched.AsyncClient(transport=echo(watched)) as client:
            return (await client.get(MODEL, auth=("user", "word"))).json()

    with labelled("t1"), watched.Client(transport=echo(watched)) as client:
        for headers in (client.get(MODEL, auth=("user", "word")).json(), asyncio.run(main())):
            assert {TURN_HEADER, "authorization"} <= headers.keys()


def test_turns_side_by_side_keep_their_own_labels(watched):
    async def turn(label, mine, others):
        with labelled(label):
            mine.set()
            await others.wait()
            return (await asent(watched, MODEL))[TURN_HEADER]

    async def both():
        one, two = asyncio.Event(), asyncio.Event()
        return await asyncio.gather(turn("t1", one, two), turn("t2", two, one))

    assert asyncio.run(both()) == ["t1", "t2"]


def test_label_is_read_in_the_context_a_request_is_awaited_in(watched):
    async def main():
        with labelled("t1"):
            inside = contextvars.copy_context()
        async with watched.AsyncClient(transport=echo(watched)) as client:
            coroutine = client.send(client.build_request("POST", MODEL))
            return (await asyncio.create_task(coroutine, context=inside)).json()

    assert asyncio.run(main())[TURN_HEADER] == "t1"


def test_thread_that_was_given_no_context_carries_no_label(watched):
    found = []
    thread = threading.Thread(target=lambda: found.append(sent(watched, MODEL)))
    with labelled("t1"):
        thread.start()
        thread.join()
    assert TURN_HEADER not in found[0]


def test_nested_label_gives_way_to_the_outer_one_even_after_an_error():
    def inner():
        with labelled("t2"):
            raise KeyError(TURN.get())

    with labelled("t1"):
        with pytest.raises(KeyError, match="t2"):
            inner()
        assert TURN.get() == "t1"
    assert TURN.get() == ""


@pytest.fixture
def nothing_watched():
    """Whatever else runs in this session, such as the suite's own model server, is not watched meanwhile."""
    addresses = attribution._PATCH.addresses
    for address in addresses:
        attribution._PATCH.unwatch(address)
    yield
    for address in addresses:
        attribution._PATCH.watch(address)


@pytest.mark.usefixtures("nothing_watched")
def test_clients_are_as_they_were_once_nothing_is_watched(http):
    before = http.Client.send, http.AsyncClient.send
    watch(MODEL)
    watch("http://127.0.0.1:59998")
    assert http.Client.send is not before[0]
    assert http.AsyncClient.send is not before[1]
    assert asyncio.iscoroutinefunction(http.AsyncClient.send)
    unwatch(MODEL)
    with labelled("t1"):
        assert TURN_HEADER not in sent(http, MODEL)
        assert TURN_HEADER in sent(http, "http://127.0.0.1:59998")
    unwatch("http://127.0.0.1:59998")
    assert (http.Client.send, http.AsyncClient.send) == before


def test_clients_are_wrapped_once_however_much_is_watched(http):
    watch(MODEL)
    once = http.Client.send
    watch(MODEL)
    watch("http://127.0.0.1:59998")
    assert http.Client.send is once
    unwatch(MODEL)
    unwatch("http://127.0.0.1:59998")


def test_wrapper_that_someone_put_around_ours_stays(http, monkeypatch):
    original = http.Client.send
    watch(MODEL)
    ours = http.Client.send

    def theirs(client, request, **options):
        request.headers["x-theirs"] = "1"
        return ours(client, request, **options)

    monkeypatch.setattr(http.Client, "send", theirs)
    unwatch(MODEL)
    with labelled("t1"):
        headers = sent(http, MODEL)
    assert "x-theirs" in headers
    assert TURN_HEADER not in headers
    monkeypatch.undo()
    http.Client.send = original


def test_span_carries_the_label_of_the_turn_it_was_started_in():
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SpanLabel())
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("tests")
    with labelled("t1"):
        begun = tracer.start_span("begun in the turn")
    begun.end()
    tracer.start_span("after it").end()
    inside, after = exporter.get_finished_spans()
    assert inside.attributes == {semconv.TURN: "t1"}
    assert after.attributes == {}
