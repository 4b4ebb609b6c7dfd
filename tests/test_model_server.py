from __future__ import annotations

import asyncio
import base64
import json
import logging
import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from scripts_on_the_wire import CALLS, TEXT, Told
from starlette.exceptions import HTTPException

from memtrace.errors import UsageError
from memtrace.harness.record.attribution import TURN_HEADER, labelled
from memtrace.harness.running.embedding import embed
from memtrace.harness.scripted_model.calls import Calls
from memtrace.harness.scripted_model.openai_api import Step, chat_response, parse_chat
from memtrace.harness.scripted_model.server import ModelServer
from memtrace.model import Author, Message, ToolCall

USER = {"role": "user", "content": "hello"}
CHAT = {"model": "m", "messages": [USER]}
RESPONSES = {"model": "m", "input": "hello"}
API = {"chat/completions": CHAT, "responses": RESPONSES}
both_apis = pytest.mark.parametrize("path", API)


@pytest.fixture(scope="module")
def server():
    with ModelServer() as server:
        yield server


@pytest.fixture
def script():
    return Told()


@pytest.fixture
def url(server, script):
    url = server.register(script)
    yield url
    server.unregister(url)


@pytest.fixture
def client(url):
    with httpx.Client(base_url=url) as client:
        yield client


def events(response):
    """The data of server-sent events; the last may be the text ``[DONE]``."""
    assert response.headers["content-type"] == "text/event-stream"
    data = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
    return [json.loads(one) if one.startswith("{") else one for one in data]


def lines_until_dropped(response):
    """The lines that came before the connection was dropped."""
    lines = []
    try:
        for line in response.iter_lines():
            lines.append(line)  # noqa: PERF402  those before the error count
    except httpx.RemoteProtocolError:
        return lines
    pytest.fail("the connection was not dropped")


def received(client, path, body):
    """The events that came before the connection was dropped."""
    with client.stream("POST", path, json={**body, "stream": True}) as response:
        lines = lines_until_dropped(response)
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: {")]


# What the script is asked


def test_chat_messages_reach_the_script(client, script):
    call = {"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": '{"query": "x"}'}}
    image = {"type": "image_url", "image_url": {"url": "https://example.com/zqcat.png"}}
    messages = [
        {"role": "developer", "content": "Be kind."},
        {"role": "system", "content": [{"type": "text", "text": "One."}, {"type": "text", "text": "Two."}]},
        {"role": "user", "content": [{"type": "text", "text": "Look:"}, image]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "found"},
        {"role": "assistant", "refusal": "No."},
    ]
    body = {"model": "answer-model", "messages": messages, "temperature": 0}
    client.post("chat/completions", json=body)
    assert script.messages == (
        Message(Author.SYSTEM, "Be kind."),
        Message(Author.SYSTEM, "One.\nTwo."),
        Message(Author.USER, "Look:\n" + json.dumps(image)),
        Message(Author.ASSISTANT, "", (ToolCall("c1", "lookup", '{"query": "x"}'),)),
        Message(Author.TOOL, "found", tool_call_id="c1"),
        Message(Author.ASSISTANT, "No."),
    )
    request, labels = script.asked[0]
    assert (request.model, request.body) == ("answer-model", body)
    assert labels == {"turn": "", "span": "", "api": "chat", "streamed": False, "wire": True}


def test_responses_input_reaches_the_script_as_the_same_messages(client, script):
    items = [
        {"role": "developer", "content": "Be kind."},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look."}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I will."}]},
        {"type": "function_call", "call_id": "c1", "name": "lookup", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "lookup", "arguments": "[]"},
        {"type": "function_call_output", "call_id": "c1", "output": "found"},
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "more"}]},
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "zqthought"}]},
    ]
    client.post("responses", json={"model": "m", "instructions": "Short.", "input": items, "stream": True})
    *messages, reasoning = script.messages
    assert messages == [
        Message(Author.SYSTEM, "Short."),
        Message(Author.SYSTEM, "Be kind."),
        Message(Author.USER, "Look."),
        Message(Author.ASSISTANT, "I will.", (ToolCall("c1", "lookup", "{}"), ToolCall("c2", "lookup", "[]"))),
        Message(Author.TOOL, "found", tool_call_id="c1"),
        Message(Author.TOOL, "more", tool_call_id="c2"),
    ]
    assert "zqthought" in reasoning.text
    assert script.asked[0][1] == {"turn": "", "span": "", "api": "responses", "streamed": True, "wire": True}


def test_a_call_after_a_new_question_is_not_joined_to_the_answer_before_it(client, script):
    items = [
        {"role": "assistant", "content": "Earlier."},
        {"role": "user", "content": "Again?"},
        {"type": "function_call", "call_id": "c1", "name": "lookup", "arguments": "{}"},
    ]
    client.post("responses", json={"model": "m", "input": items})
    assert [len(message.tool_calls) for message in script.messages] == [0, 0, 1]


@pytest.mark.parametrize("path", [*API, "embeddings"])
def test_the_turn_of_a_request_reaches_the_script(client, script, path):
    with labelled("t7"):
        client.post(path, json=API.get(path, {"model": "m", "input": "hello"}))
    assert script.asked[0][1]["turn"] == "t7"


# What the client gets


def test_chat_answer_carries_text_calls_and_usage(client, script):
    script.step = Step(TEXT, CALLS)
    answer = client.post("chat/completions", json=CHAT).json()
    (choice,) = answer["choices"]
    assert choice["message"]["content"] == TEXT
    assert [call["function"]["arguments"] for call in choice["message"]["tool_calls"]] == ['{"query": "fox"}', "{}"]
    assert choice["finish_reason"] == "tool_calls"
    assert (
        answer["usage"]["total_tokens"] == answer["usage"]["prompt_tokens"] + answer["usage"]["completion_tokens"] > 2
    )


def test_every_answer_has_an_id_of_its_own(client):
    assert len({client.post("chat/completions", json=CHAT).json()["id"] for _ in range(3)}) == 3


def test_chat_stream_comes_in_pieces_that_join_to_the_answer(client, script):
    script.step = Step(TEXT, CALLS)
    *chunks, done = events(client.post("chat/completions", json={**CHAT, "stream": True}))
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    texts = [delta["content"] for delta in deltas if delta.get("content")]
    assert len(texts) > 2
    assert "".join(texts) == TEXT
    calls = {}
    for call in (call for delta in deltas for call in delta.get("tool_calls", [])):
        calls.setdefault(call["index"], []).append(call)
    joined = ["".join(part["function"]["arguments"] for part in parts) for parts in calls.values()]
    assert joined == [call.arguments for call in CALLS]
    assert [(parts[0]["id"], parts[0]["function"]["name"]) for parts in calls.values()] == [
        (c.id, c.name) for c in CALLS
    ]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks if chunk["choices"][0]["finish_reason"]] == [
        "tool_calls"
    ]
    assert done == "[DONE]"
    assert not any("usage" in chunk for chunk in chunks)


def test_chat_stream_ends_with_usage_where_it_is_asked_for(client):
    body = {**CHAT, "stream": True, "stream_options": {"include_usage": True}}
    *chunks, usage, _ = events(client.post("chat/completions", json=body))
    assert (usage["choices"], usage["usage"]["completion_tokens"]) == ([], len(TEXT.split()))
    assert {chunk["usage"] for chunk in chunks} == {None}


def test_responses_stream_tells_each_item_from_beginning_to_end(client, script):
    script.step = Step("Hi.", CALLS[:1])
    kinds = [event["type"] for event in events(client.post("responses", json={**RESPONSES, "stream": True}))]
    assert kinds == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ]


def texts_of(path, streamed):
    """The text pieces of a stream's events."""
    if path == "responses":
        return [event["delta"] for event in streamed if event["type"] == "response.output_text.delta"]
    deltas = [chunk["choices"][0]["delta"] for chunk in streamed if chunk != "[DONE]"]
    return [delta["content"] for delta in deltas if delta.get("content")]


def text_of(path, answer):
    """The text of a plain answer."""
    return (
        answer["output"][0]["content"][0]["text"] if path == "responses" else answer["choices"][0]["message"]["content"]
    )


@both_apis
@pytest.mark.parametrize("text", ["", "one", " two  words ", "line\nbreaks \n", "\ud800 half", "w " * 50])
def test_any_text_arrives_as_it_was_scripted(client, script, path, text):
    script.step = Step(text)
    assert text_of(path, client.post(path, json=API[path]).json()) == text
    assert "".join(texts_of(path, events(client.post(path, json={**API[path], "stream": True})))) == text


@pytest.mark.parametrize("encoding", [None, "float", "base64"])
def test_embeddings_come_in_the_encoding_that_was_asked_for(client, script, encoding):
    body = {"model": "m", "input": ["locker", "code"]} | ({"encoding_format": encoding} if encoding else {})
    answer = client.post("embeddings", json=body).json()
    vectors = [one["embedding"] for one in answer["data"]]
    if encoding == "base64":
        vectors = [struct.unpack("<64f", base64.b64decode(vector)) for vector in vectors]
    for vector, expected in zip(vectors, embed(["locker", "code"]), strict=True):
        assert vector == pytest.approx(expected, abs=1e-6)
    assert [one["index"] for one in answer["data"]] == [0, 1]
    assert script.asked == [(["locker", "code"], {"turn": "", "span": "", "wire": True})]


def test_models_are_listed(client):
    assert [model["id"] for model in client.get("models").json()["data"]] == [
        "answer-model",
        "memory-model",
        "embedding-model",
    ]


def test_the_model_in_process_says_the_same_as_on_the_wire(client):
    plain = client.post("chat/completions", json=CHAT).json()
    own = chat_response(parse_chat(CHAT), Step(TEXT))
    assert own | {"id": "", "created": 0} == plain | {"id": "", "created": 0}


# What goes wrong, on purpose or not


@both_apis
@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(
    ("status", "kind"), [(429, "rate_limit_error"), (500, "server_error"), (404, "invalid_request_error")]
)
def test_scripted_failure_is_an_error_as_the_api_words_it(client, script, path, streamed, status, kind):
    script.step = Step("no luck", status=status)
    answer = client.post(path, json={**API[path], "stream": streamed})
    assert answer.status_code == status
    assert answer.json()["error"] == {"message": "no luck", "type": kind, "param": None, "code": None}
    assert answer.headers["x-should-retry"] == "false"


@both_apis
@pytest.mark.parametrize("error", [KeyError("gone"), StopIteration(), pytest.fail.Exception("failed")])
def test_script_that_raises_is_a_server_error_that_says_so(client, script, path, error):
    script.step = error
    answer = client.post(path, json=API[path])
    assert answer.status_code == 500
    assert type(error).__name__ in answer.json()["error"]["message"]


@both_apis
@pytest.mark.parametrize("after", [0, 1, 3, 99])
def test_broken_stream_stops_after_its_pieces(client, script, path, after):
    script.step = Step(TEXT, break_after=after)
    found = received(client, path, API[path])
    texts = texts_of(path, found)
    assert len(texts) == min(after, 3)
    assert TEXT.startswith("".join(texts))
    assert "response.completed" not in [event.get("type") for event in found]
    assert not any(choice["finish_reason"] for event in found for choice in event.get("choices", []))


@both_apis
def test_broken_plain_answer_has_no_body(client, script, path):
    script.step = Step(TEXT, break_after=0)
    with client.stream("POST", path, json=API[path]) as response:
        assert response.status_code == 200
        assert lines_until_dropped(response) == []


def test_connection_dropped_on_purpose_is_no_error_in_the_log(client, script, caplog):
    script.step = Step(TEXT, break_after=0)
    with caplog.at_level(logging.ERROR), pytest.raises(httpx.RemoteProtocolError):
        client.post("chat/completions", json=CHAT)
    # Over a new connection, served after the old one's end was dealt with.
    httpx.get(f"{client.base_url}models")
    assert caplog.records == []


MALFORMED = [
    ("chat/completions", [], "the body must be an object, not a list"),
    ("chat/completions", {"messages": [USER]}, "model must be text, not nothing"),
    ("chat/completions", {"model": "m"}, "messages must be a list, not nothing"),
    ("chat/completions", {"model": "m", "messages": []}, "messages must not be empty"),
    ("chat/completions", {"model": "m", "messages": ["hello"]}, "messages[0] must be an object, not text"),
    ("chat/completions", {"model": "m", "messages": [USER, {"role": "robot"}]}, "messages[1].role is 'robot'"),
    (
        "chat/completions",
        {"model": "m", "messages": [{"role": "user", "content": 5}]},
        "messages[0].content must be text or",
    ),
    (
        "chat/completions",
        {"model": "m", "messages": [{"role": "user", "content": [5]}]},
        "messages[0].content[0] must be",
    ),
    (
        "chat/completions",
        {
            "model": "m",
            "messages": [
                {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {}}}]}
            ],
        },
        "messages[0].tool_calls[0].function.arguments must be text, not an object",
    ),
    ("responses", {"model": "m"}, "input must not be empty"),
    ("responses", {"input": "hello"}, "model must be text, not nothing"),
    ("responses", {"model": "m", "input": [5]}, "input[0] must be an object, not int"),
    ("responses", {"model": "m", "input": [{"type": "function_call"}]}, "input[0].call_id must be text, not nothing"),
    (
        "responses",
        {**RESPONSES, "previous_response_id": "resp_1"},
        "previous_response_id refers to what is not kept here",
    ),
    ("responses", {"model": "m", "input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0] refers to an item"),
    ("embeddings", {"model": "m", "input": []}, "input must not be empty"),
    ("embeddings", {"model": "m", "input": [[1, 2]]}, "input is token numbers"),
    ("embeddings", {"model": "m", "input": "hello", "dimensions": 1536}, "dimensions must be 64 or left out, not 1536"),
    (
        "embeddings",
        {"model": "m", "input": "hello", "encoding_format": "hex"},
        "encoding_format must be float or base64",
    ),
]


@pytest.mark.parametrize(("path", "body", "line"), MALFORMED)
def test_malformed_request_gets_one_line_that_says_where(client, script, path, body, line):
    answer = client.post(path, json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(line)
    assert "\n" not in answer.json()["error"]["message"]
    assert script.asked == []


def test_body_that_is_not_json_gets_one_line_too(client):
    answer = client.post("chat/completions", content=b"\xff{")
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("the body is not JSON")


def test_parsing_in_process_raises_the_same_line():
    with pytest.raises(UsageError, match=r"^messages must not be empty$"):
        parse_chat({"model": "m", "messages": []})


@pytest.mark.parametrize(("method", "path", "status"), [("POST", "completions", 404), ("GET", "chat/completions", 405)])
def test_what_is_not_served_is_an_error_of_the_apis_shape(client, method, path, status):
    answer = client.request(method, path)
    assert answer.status_code == status
    assert answer.json()["error"]["message"]


# Scripts come and go


def test_each_script_hears_only_its_own_requests(server, script, client):
    other = Told()
    url = server.register(other)
    httpx.post(f"{url}/chat/completions", json=CHAT)
    server.unregister(url)
    assert (len(script.asked), len(other.asked)) == (0, 1)


@pytest.mark.parametrize("path", ["v1/chat/completions", "v1/responses", "v1/embeddings", "callbacks/tool"])
def test_straggler_of_a_script_that_is_over_gets_410(server, path):
    script = Told()
    url = server.register(script)
    server.unregister(url)
    assert httpx.post(f"{url.removesuffix('v1')}{path}", json=CHAT).status_code == 410
    assert script.asked == []


def test_prefix_that_never_was_gets_404(url):
    origin = url.rsplit("/", 2)[0]
    assert httpx.get(f"{origin}/nobody/v1/models").status_code == 404


def test_callback_takes_and_gives_json(client, url, script):
    script.step = {"answer": [1, None]}
    with labelled("t3"):
        answer = client.post(f"{url.removesuffix('v1')}callbacks/tool", json={"query": "x"})
    assert answer.json() == {"answer": [1, None]}
    assert script.asked == [(("tool", {"query": "x"}), {"turn": "t3"})]


@pytest.mark.parametrize("step", [ValueError("no"), object()])
def test_callback_that_fails_says_how(client, url, script, step):
    script.step = step
    answer = client.post(f"{url.removesuffix('v1')}callbacks/tool", json=None)
    assert answer.status_code == 500
    assert answer.json()["error"] == ("ValueError" if isinstance(step, ValueError) else "TypeError")


# Holding


def test_any_number_of_held_requests_starve_nobody(url, script):
    go, arrived = threading.Event(), threading.Semaphore(0)

    def held():
        arrived.release()
        assert go.wait(30)
        return Step("late")

    async def main():
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(base_url=url, limits=limits, timeout=30) as client:
            script.step = held
            waiting = [asyncio.create_task(client.post("chat/completions", json=CHAT)) for _ in range(80)]
            for _ in waiting:
                assert await asyncio.to_thread(arrived.acquire, timeout=30)
            script.step = Step("soon")
            free = await client.post("chat/completions", json=CHAT)
            go.set()
            return free, await asyncio.gather(*waiting)

    free, late = asyncio.run(main())
    assert free.json()["choices"][0]["message"]["content"] == "soon"
    assert {answer.json()["choices"][0]["message"]["content"] for answer in late} == {"late"}


def test_server_stops_though_a_request_is_held():
    go, arrived = threading.Event(), threading.Event()
    script = Told()

    def held():
        arrived.set()
        assert go.wait(30)
        return Step("too late")

    script.step = held
    with ThreadPoolExecutor(1) as pool:
        with ModelServer() as server:
            answer = pool.submit(httpx.post, f"{server.register(script)}/chat/completions", json=CHAT, timeout=30)
            assert arrived.wait(30)
        assert not server._thread.is_alive()
        assert answer.result().status_code == 410
        go.set()


def test_server_stops_though_a_client_has_sent_half_a_request(caplog):
    with ModelServer() as server:
        url = httpx.URL(server.register(Told()))
        half = socket.create_connection((url.host, url.port))
        half.sendall(f"POST {url.path}/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\n".encode())
        assert httpx.get(f"{url}/models").status_code == 200
    assert not server._thread.is_alive()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
    half.close()


def test_request_that_is_read_only_after_the_stop_reaches_no_script():
    calls, called = Calls(), []
    calls.let_go()
    with pytest.raises(HTTPException) as raised:
        asyncio.run(calls.call(lambda: called.append(1)))
    assert (raised.value.status_code, called) == (410, [])


def test_stopped_server_answers_no_more():
    with ModelServer() as server, httpx.Client(base_url=server.register(Told())) as idle:
        idle.get("models")
        server.__exit__(None, None, None)
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{idle.base_url}models")


def test_requests_are_labelled_while_the_server_runs_and_no_longer():
    def sent(url):
        transport = httpx.MockTransport(lambda request: httpx.Response(200, json=dict(request.headers)))
        with labelled("t1"), httpx.Client(transport=transport) as client:
            return client.get(url).json()

    with ModelServer() as server:
        url = server.register(Told())
        assert TURN_HEADER in sent(url)
    assert TURN_HEADER not in sent(url)


def test_answers_are_not_held_back_to_fill_a_packet(server, client):
    client.get("models")
    sockets = [one.transport.get_extra_info("socket") for one in server._server.server_state.connections]
    assert sockets
    assert all(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for one in sockets)


def test_it_logs_no_request_and_leaves_the_logger_of_other_servers_as_it_is(client, caplog, monkeypatch):
    access = logging.getLogger("uvicorn.access")
    monkeypatch.setattr(access, "propagate", True)
    with caplog.at_level(logging.INFO):
        access.addHandler(caplog.handler)  # as pytest does with a logger that passes nothing on
        try:
            client.post("/chat/completions", json=CHAT).raise_for_status()
        finally:
            access.removeHandler(caplog.handler)
        assert "uvicorn.access" not in [record.name for record in caplog.records]
    ModelServer()
    assert access.propagate
