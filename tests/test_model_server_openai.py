"""The scripted model as the published client sees it."""

from __future__ import annotations

import asyncio
import itertools

import pytest
from scripts_on_the_wire import CALLS, TEXT, Told

from memtrace.harness.record.attribution import labelled
from memtrace.harness.running.embedding import embed
from memtrace.harness.scripted_model.openai_api import Step
from memtrace.harness.scripted_model.server import ModelServer
from memtrace.model import Author, Message

openai = pytest.importorskip("openai")

MESSAGES = [{"role": "user", "content": "hello"}]
TOOLS = [{"type": "function", "function": {"name": "lookup", "parameters": {"type": "object", "properties": {}}}}]


@pytest.fixture(scope="module")
def server():
    with ModelServer() as server:
        yield server


@pytest.fixture
def script():
    script = Told()
    script.step = Step(TEXT, CALLS)
    return script


@pytest.fixture
def url(server, script):
    url = server.register(script)
    yield url
    server.unregister(url)


@pytest.fixture
def client(url):
    with openai.OpenAI(base_url=url, api_key="any") as client:
        yield client


def with_async_client(url, use):
    async def main():
        async with openai.AsyncOpenAI(base_url=url, api_key="any") as client:
            return await use(client)

    return asyncio.run(main())


def valid(answer):
    """The answer, held against its published type: the client itself takes anything."""
    return type(answer).model_validate(answer.model_dump(mode="json"))


def called(calls):
    return [(call.id, call.function.name, call.function.arguments) for call in calls]


EXPECTED_CALLS = [(call.id, call.name, call.arguments) for call in CALLS]


def check_chat(answer):
    (choice,) = valid(answer).choices
    assert (choice.message.content, choice.finish_reason) == (TEXT, "tool_calls")
    assert called(choice.message.tool_calls) == EXPECTED_CALLS


def check_response(answer):
    checked = valid(answer)
    assert (checked.status, checked.output_text) == ("completed", TEXT)
    calls = [(item.call_id, item.name, item.arguments) for item in checked.output if item.type == "function_call"]
    assert calls == EXPECTED_CALLS


def test_chat(client, url, script):
    check_chat(client.chat.completions.create(model="m", messages=MESSAGES, tools=TOOLS))
    check_chat(with_async_client(url, lambda c: c.chat.completions.create(model="m", messages=MESSAGES, tools=TOOLS)))
    assert [request.messages for request, _ in script.asked] == [(Message(Author.USER, "hello"),)] * 2


def test_chat_streamed_with_tools(client, url):
    options = {"model": "m", "messages": MESSAGES, "tools": TOOLS, "stream_options": {"include_usage": True}}

    async def streamed(asynchronous):
        async with asynchronous.chat.completions.stream(**options) as stream:
            return await stream.get_final_completion()

    with client.chat.completions.stream(**options) as stream:
        texts = [event.delta for event in stream if event.type == "content.delta"]
        final = stream.get_final_completion()
    assert len(texts) > 2
    for answer in (final, with_async_client(url, streamed)):
        (choice,) = answer.choices
        assert (choice.message.content, choice.finish_reason) == (TEXT, "tool_calls")
        assert called(choice.message.tool_calls) == EXPECTED_CALLS
        assert answer.usage.total_tokens > 2


def test_each_chat_chunk_is_of_the_published_type(client):
    options = {"include_usage": True}
    chunks = list(client.chat.completions.create(model="m", messages=MESSAGES, stream=True, stream_options=options))
    assert "".join(valid(chunk).choices[0].delta.content or "" for chunk in chunks if chunk.choices) == TEXT


def test_responses(client, url, script):
    check_response(client.responses.create(model="m", instructions="Short.", input="hello"))
    check_response(
        with_async_client(url, lambda c: c.responses.create(model="m", instructions="Short.", input="hello"))
    )
    assert script.messages == (Message(Author.SYSTEM, "Short."), Message(Author.USER, "hello"))


def test_responses_streamed(client, url):
    async def streamed(asynchronous):
        async with asynchronous.responses.stream(model="m", input="hello") as stream:
            return await stream.get_final_response()

    with client.responses.stream(model="m", input="hello") as stream:
        texts = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert "".join(texts) == TEXT
    for answer in (final, with_async_client(url, streamed)):
        assert answer.output_text == TEXT
        assert [item.arguments for item in answer.output if item.type == "function_call"] == [
            c.arguments for c in CALLS
        ]


def test_each_responses_event_is_of_the_published_type(client):
    events = list(client.responses.create(model="m", input="hello", stream=True))
    assert [valid(event).sequence_number for event in events] == list(range(len(events)))
    check_response(events[-1].response)


def test_an_answer_goes_back_as_the_next_input(client, script):
    first = client.responses.create(model="m", input="hello")
    outputs = [{"type": "function_call_output", "call_id": call.id, "output": "found"} for call in CALLS]
    client.responses.create(model="m", input=[*MESSAGES, *first.output, *outputs])
    assert script.messages == (
        Message(Author.USER, "hello"),
        Message(Author.ASSISTANT, TEXT, CALLS),
        *(Message(Author.TOOL, "found", tool_call_id=call.id) for call in CALLS),
    )


def test_embeddings(client, url):
    for answer in (
        client.embeddings.create(model="m", input=["locker", "code"]),
        with_async_client(url, lambda c: c.embeddings.create(model="m", input=["locker", "code"])),
    ):
        vectors = [one.embedding for one in valid(answer).data]
        for vector, expected in zip(vectors, embed(["locker", "code"]), strict=True):
            assert vector == pytest.approx(expected, abs=1e-6)


def test_models(client):
    assert [model.id for model in client.models.list()] == ["answer-model", "memory-model", "embedding-model"]


def test_scripted_failure_is_asked_for_once(client, script):
    script.step = Step(status=429)
    with pytest.raises(openai.RateLimitError):
        client.chat.completions.create(model="m", messages=MESSAGES)
    assert len(script.asked) == 1


def test_broken_stream_raises_in_the_middle(client, script):
    script.step = Step(TEXT, break_after=2)
    stream = client.chat.completions.create(model="m", messages=MESSAGES, stream=True)
    chunks = itertools.islice(stream, 3)
    assert TEXT.startswith("".join(chunk.choices[0].delta.content for chunk in chunks))
    with pytest.raises(openai.APIConnectionError):
        next(stream)


def test_turns_are_told_apart_over_one_client(client, url, script):
    for turn in ("t1", "t2"):
        with labelled(turn):
            client.chat.completions.create(model="m", messages=MESSAGES)

    async def both(asynchronous):
        async def ask(turn):
            with labelled(turn):
                await asynchronous.responses.create(model="m", input=turn)

        await asyncio.gather(ask("t3"), ask("t4"))

    with_async_client(url, both)
    assert sorted((request.messages[0].text, labels["turn"]) for request, labels in script.asked) == [
        ("hello", "t1"),
        ("hello", "t2"),
        ("t3", "t3"),
        ("t4", "t4"),
    ]
