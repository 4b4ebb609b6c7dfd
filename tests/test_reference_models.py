"""The client of OpenAI-compatible servers, against a real HTTP server and against bytes cut anywhere."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import threading
from collections import Counter
from contextlib import aclosing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import FakeMemory, assistant, recorded, user

from memtrace.model import Author, Message, ToolCall
from memtrace.reference import models
from memtrace.reference.agent import Agent
from memtrace.reference.models import ChatModel, Completion, ModelError, ToolSpec
from memtrace.reference.wire import StreamedReply, request_body

pytestmark = pytest.mark.filterwarnings("ignore::memtrace.identity.IdKeyWarning")

HELLO = [Message(Author.USER, "hello")]
SPEC = ToolSpec("lookup", "Looks.", {"type": "object", "properties": {}})


def answer(text="hi", tool_calls=None, finish="stop"):
    message = {"role": "assistant", "content": text}
    if tool_calls:
        message["tool_calls"] = tool_calls
    return {"choices": [{"index": 0, "message": message, "finish_reason": finish}]}


def event(delta=None, finish=None):
    return {"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}]}


def sse(*events, done=True):
    lines = [f"data: {json.dumps(each, ensure_ascii=False)}\n\n" for each in events]
    return ("".join(lines) + ("data: [DONE]\n\n" if done else "")).encode()


class Server(ThreadingHTTPServer):
    """Answers in order with (status, body); counts connections."""

    daemon_threads = True

    def __init__(self):
        self.answers = []
        self.requests = []
        self.connections = Counter()
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self):
        self.server.connections[self.client_address] += 1
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.requests.append((self.path, dict(self.headers), body))
        status, content = self.server.answers.pop(0)
        if status == "drop":
            self.close_connection = True
            return
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join(10)
    server.server_close()


@pytest.fixture
def model(server):
    model = ChatModel(server.url + "/", "gpt", api_key="key")
    yield model
    model.close()


class Plain:
    name = "plain"

    def complete(self, model, messages=HELLO, tools=()):
        return model.complete(messages, tools)

    def stream(self, model, messages=HELLO, tools=()):
        return list(model.stream(messages, tools))


class OnLoop:
    name = "async"

    def complete(self, model, messages=HELLO, tools=()):
        return asyncio.run(model.acomplete(messages, tools))

    def stream(self, model, messages=HELLO, tools=()):
        async def read():
            async with aclosing(model.astream(messages, tools)) as items:
                return [item async for item in items]

        return asyncio.run(read())


both_faces = pytest.mark.parametrize("face", [Plain(), OnLoop()], ids=lambda face: face.name)


@both_faces
def test_a_plain_call(face, model, server):
    server.answers.append((200, answer("hi there")))
    assert face.complete(model) == Completion("hi there")
    path, headers, body = server.requests[0]
    assert path == "/v1/chat/completions"
    assert headers["authorization"] == "Bearer key"
    assert body == {"model": "gpt", "messages": [{"role": "user", "content": "hello"}]}


@both_faces
def test_tools_both_ways(face, model, server):
    call = {"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": '{"q": 1}'}}
    server.answers.append((200, answer(None, [call], "tool_calls")))
    sent = [
        *HELLO,
        Message(Author.ASSISTANT, "", (ToolCall("c0", "lookup", "{}"),)),
        Message(Author.TOOL, "found", tool_call_id="c0"),
    ]
    got = face.complete(model, sent, [SPEC])
    assert got == Completion("", (ToolCall("c1", "lookup", '{"q": 1}'),), "tool_calls")
    body = server.requests[0][2]
    assert body["tools"] == [
        {"type": "function", "function": {"name": "lookup", "description": "Looks.", "parameters": SPEC.parameters}}
    ]
    assert body["messages"][1:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c0", "type": "function", "function": {"name": "lookup", "arguments": "{}"}}],
        },
        {"role": "tool", "content": "found", "tool_call_id": "c0"},
    ]


@both_faces
def test_a_streamed_call(face, model, server):
    server.answers.append(
        (
            200,
            sse(
                event({"role": "assistant", "content": ""}),
                event({"content": "hi "}),
                event({"content": "there"}),
                event(finish="stop"),
            ),
        )
    )
    assert face.stream(model) == ["hi ", "there", Completion("hi there")]
    assert server.requests[0][2]["stream"] is True


@both_faces
def test_a_text_with_a_lone_surrogate_can_be_sent(face, model, server):
    server.answers.append((200, answer()))
    face.complete(model, [Message(Author.USER, "cut \ud83d")])
    assert server.requests[0][2]["messages"][0]["content"] == "cut \ud83d"


FAILURES = {
    "refused": (401, {"error": {"message": "bad key for hello"}}, 401, "bad key for hello"),
    "broken": (500, b"<html>hello</html>", 500, "<html>hello</html>"),
    "redirected": (302, b"", 302, ""),
    "no json": (200, b"hello", None, "hello"),
    "no completion": (200, {"choices": []}, None, "{'choices': []}"),
    "strange": (200, ["hello"], None, "['hello']"),
    "dropped": ("drop", b"", None, ""),
}


@both_faces
@pytest.mark.parametrize("failure", FAILURES)
def test_a_failed_call_is_a_model_error_that_quotes_nobody(face, model, server, failure):
    status, body, expected, detail = FAILURES[failure]
    server.answers.append((status, body))
    with pytest.raises(ModelError) as raised:
        face.complete(model)
    assert (raised.value.status, raised.value.detail) == (expected, detail)
    assert "hello" not in str(raised.value)
    assert len(server.requests) == 1


STREAM_FAILURES = {
    "refused": (429, {"error": {"message": "slow down"}}),
    "cut": (200, sse(event({"content": "hi"}), done=False)),
    "error inside": (200, sse(event({"content": "hi"}), {"error": {"message": "hello"}})),
    "not json": (200, b"data: hello\n\n"),
    "strange": (200, b"data: [1]\n\n"),
    "dropped": ("drop", b""),
}


@both_faces
@pytest.mark.parametrize("failure", STREAM_FAILURES)
def test_a_failed_stream_is_a_model_error_that_quotes_nobody(face, model, server, failure):
    server.answers.append(STREAM_FAILURES[failure])
    with pytest.raises(ModelError) as raised:
        face.stream(model)
    assert "hello" not in str(raised.value)


@both_faces
def test_a_server_that_is_not_there_is_a_model_error(face):
    model = ChatModel("http://127.0.0.1:9/v1", "gpt")
    with pytest.raises(ModelError, match="could not be asked: ConnectError"):
        face.complete(model)
    model.close()


@both_faces
@pytest.mark.parametrize("way", ["complete", "stream"])
def test_only_a_server_error_is_tried_again_and_only_so_often(face, server, way, monkeypatch):
    monkeypatch.setattr(models, "_FIRST_WAIT", 0)
    model = ChatModel(server.url, "gpt", retries=2)
    good = answer() if way == "complete" else sse(event({"content": "hi"}), event(finish="stop"))
    server.answers += [(500, b""), (503, b""), (200, good)]
    got = getattr(face, way)(model)
    assert (got if way == "complete" else got[-1]) == Completion("hi")
    server.answers += [(500, b"")] * 3
    with pytest.raises(ModelError, match="status 500"):
        getattr(face, way)(model)
    server.answers += [(400, b"")]
    with pytest.raises(ModelError, match="status 400"):
        getattr(face, way)(model)
    assert len(server.requests) == 7
    model.close()


def test_a_waits_grows(server):
    model = ChatModel(server.url, "gpt", retries=3)
    assert list(model._waits()) == [0.25, 0.5, 1.0, None]


@both_faces
def test_a_call_that_was_tried_again_is_one_kept_turn_and_one_span(face, server, monkeypatch):
    monkeypatch.setattr(models, "_FIRST_WAIT", 0)
    server.answers += [(500, b""), (200, answer("hi") | {"usage": {"prompt_tokens": 3, "completion_tokens": 1}})]
    model, memory, spans = ChatModel(server.url, "gpt", retries=1), FakeMemory(), recorded()
    agent = Agent("shop", model, memory, tracing=spans.tracing)
    agent.run("hello", context="alice") if face.name == "plain" else asyncio.run(agent.arun("hello", context="alice"))
    assert memory.windows == {"alice": [user("hello"), assistant("hi")]}
    (chat,) = [span for span in spans.ended() if span.name == "chat gpt"]
    assert chat.attributes["gen_ai.usage.input_tokens"] == 3
    model.close()


# Threads, loops, forks


def test_one_model_serves_many_event_loops_one_after_another(model, server):
    """A connection of a loop that is gone is never used again, nor left open."""
    server.answers += [(200, answer(str(n))) for n in range(6)]

    async def twice():
        return [(await model.acomplete(HELLO)).text, (await model.acomplete(HELLO)).text]

    assert [asyncio.run(twice()) for _ in range(3)] == [["0", "1"], ["2", "3"], ["4", "5"]]
    assert sorted(server.connections.values()) == [2, 2, 2]
    gc.collect()
    assert model._clients._open == {}


def test_one_model_serves_many_event_loops_at_once(model, server):
    server.answers += [(200, answer())] * 8
    meet, got = threading.Barrier(4), []

    async def twice():
        await model.acomplete(HELLO)
        await asyncio.to_thread(meet.wait, 10)
        return (await model.acomplete(HELLO)).text

    threads = [threading.Thread(target=lambda: got.append(asyncio.run(twice()))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert got == ["hi"] * 4
    assert sorted(server.connections.values()) == [2] * 4


def test_loops_that_were_closed_without_notice_are_let_go_of(model, server):
    server.answers += [(200, answer())] * 2
    loop = asyncio.new_event_loop()
    loop.run_until_complete(model.acomplete(HELLO))
    loop.run_until_complete(model._clients._open[loop][1].aclose())
    loop.close()
    asyncio.run(model.acomplete(HELLO))
    assert loop not in model._clients._open


def test_threads_share_kept_connections(model, server):
    server.answers += [(200, answer())] * 3
    for _ in range(3):
        thread = threading.Thread(target=model.complete, args=(HELLO,))
        thread.start()
        thread.join(10)
    assert list(server.connections.values()) == [3]


def test_a_closed_model_can_be_used_again(model, server):
    server.answers += [(200, answer())] * 2
    model.complete(HELLO)
    model.close()
    assert model.complete(HELLO).text == "hi"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_model_used_before_a_fork_works_in_parent_and_child(model, server):
    server.answers += [(200, answer())] * 3
    model.complete(HELLO)
    child = os.fork()
    if not child:
        os._exit(0 if model.complete(HELLO).text == "hi" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert model.complete(HELLO).text == "hi"
    assert sorted(server.connections.values()) == [1, 2]


def test_a_cancelled_call_ends_its_request(server):
    """The task is cancelled while the server thinks; the model answers the next one on the same loop."""
    arrived, thinking = threading.Event(), threading.Event()

    async def main():
        model = ChatModel(server.url, "gpt")

        class Waits(list):
            def pop(self, place):
                arrived.set()
                thinking.wait(10)
                return (200, answer("late"))

        server.answers = Waits()
        task = asyncio.create_task(model.acomplete(HELLO))
        await asyncio.to_thread(arrived.wait, 10)
        task.cancel()
        await asyncio.wait({task})
        thinking.set()
        server.answers = [(200, answer("next"))]
        return task.cancelled(), (await model.acomplete(HELLO)).text

    assert asyncio.run(main()) == (True, "next")


def test_the_key_is_in_no_repr(model):
    assert "key" not in repr(model)


def test_the_client_follows_httpx_patches(model, server, monkeypatch):
    """Whoever labels requests does it by wrapping ``send``."""
    sent = []
    original = httpx.Client.send
    monkeypatch.setattr(
        httpx.Client, "send", lambda self, request, **o: sent.append(request) or original(self, request, **o)
    )
    server.answers.append((200, answer()))
    model.complete(HELLO)
    assert len(sent) == 1


# The stream's bytes


TEXT = st.text(st.characters(codec="utf-8"), max_size=12)


@given(st.lists(TEXT, max_size=5), st.data())
def test_a_stream_may_be_cut_anywhere(texts, data):
    stream = b": keep-alive\r\n\r\n" + sse(*(event({"content": text}) for text in texts), event(finish="stop"))
    if data.draw(st.booleans()):
        stream = stream.replace(b"\n", b"\r\n")
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reply = StreamedReply()
    pieces = [
        piece
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
        for piece in reply.feed(stream[start:end])
    ]
    assert pieces == [text for text in texts if text]
    assert reply.completion() == Completion("".join(texts))


def test_only_line_feeds_end_a_line():
    text = "a\u2028b\x85c\x0bd"
    reply = StreamedReply()
    assert reply.feed(sse(event({"content": text}), event(finish="stop"))) == [text]


def test_tool_calls_are_put_together_from_their_fragments():
    def call(index, arguments, **more):
        return {"index": index, **more, "function": {"arguments": arguments, **more.pop("function", {})}}

    first = {"index": 0, "id": "a", "function": {"name": "one", "arguments": '{"x"'}}
    second = {"index": 1, "id": "b", "function": {"name": "two"}}
    # Some servers repeat id and name in every fragment.
    again = {"index": 0, "id": "a", "function": {"name": "one", "arguments": ": 1}"}}
    reply = StreamedReply()
    reply.feed(sse(*(event({"tool_calls": [each]}) for each in (first, second, again)), event(finish="tool_calls")))
    assert reply.completion() == Completion(
        "", (ToolCall("a", "one", '{"x": 1}'), ToolCall("b", "two", "{}")), "tool_calls"
    )


def test_the_tokens_that_a_model_counts_are_told():
    usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
    told = Completion("hi", input_tokens=3, output_tokens=1)
    reply = StreamedReply()
    reply.feed(sse(event({"content": "hi"}), event(finish="stop"), {"choices": [], "usage": usage}))
    assert reply.completion() == models.completion(answer() | {"usage": usage}) == told


def test_a_refusal_is_text():
    assert models.completion({"choices": [{"message": {"content": None, "refusal": "no"}}]}) == Completion("no")


def test_a_request_without_tools_names_none():
    assert "tools" not in request_body("m", HELLO, (), stream=False)
