"""A stream that is left before its end: nothing is kept, nothing of it is left behind, wherever it is closed."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import threading

import pytest
from opentelemetry import trace
from scripted import FACES, Endless, FakeMemory, ScriptedModel, assistant, calls, recorded, user

from memtrace.errors import UsageError
from memtrace.model import Outcome
from memtrace.reference.agent import Agent
from memtrace.reference.effects import Core, Proceed
from memtrace.reference.models import Completion, ModelError
from memtrace.reference.tools import Tool

pytestmark = pytest.mark.filterwarnings("ignore::memtrace.identity.IdKeyWarning")


@pytest.fixture
def spans():
    return recorded()


@pytest.fixture(autouse=True)
def nothing_is_logged(caplog):
    yield
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


@pytest.fixture
def memory():
    return FakeMemory()


def agent_with(memory, spans, *replies, **options):
    return Agent("shop", ScriptedModel(*replies), memory, tracing=spans.tracing, **options)


def was_abandoned(spans, *, model_calls=1):
    ended = spans.ended()
    assert sum(span.name == "chat scripted" for span in ended) == model_calls
    (root,) = [span for span in ended if span.name == "invoke_agent shop"]
    assert root.attributes["memtrace.outcome"] == "abandoned"
    assert root.status.status_code is trace.StatusCode.UNSET
    return root


def context_is_clean():
    return not trace.get_current_span().get_span_context().is_valid


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.name)
@pytest.mark.parametrize("leave_after", [1, 2, 3])
def test_leaving_a_stream_keeps_nothing_and_the_next_turn_is_its_own(face, leave_after, memory, spans):
    agent = agent_with(memory, spans, "one two three", "fine")
    face.stream(agent, "first", leave_after=leave_after, context="alice")
    root = was_abandoned(spans)
    assert not memory.windows
    assert agent.plan.roles[0].model.closed_streams == 1
    spans.clear()
    face.run(agent, "second", context="bob")
    assert memory.windows == {"bob": [user("second"), assistant("fine")]}
    (next_root,) = [span for span in spans.ended() if span.parent is None]
    assert next_root.context.trace_id != root.context.trace_id
    assert agent.plan.roles[0].model.prompts[1] == (user("second"),)


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.name)
def test_leaving_a_stream_before_a_tool_runs_leaves_the_tool_alone(face, memory, spans):
    ran = []
    agent = agent_with(memory, spans, calls("act", text="wait a moment"), tools=[Tool("act", lambda: ran.append(1))])
    face.stream(agent, "go", leave_after=1, context="alice")
    was_abandoned(spans)
    assert ran == []


def test_the_consumer_of_a_stream_never_sees_the_turns_context(memory, spans):
    agent = agent_with(memory, spans, "one two")
    stream = agent.stream("go", context="alice")
    for _ in stream:
        assert context_is_clean()
    assert context_is_clean()


def test_the_consumer_of_an_async_stream_never_sees_the_turns_context(memory, spans):
    async def consume():
        async for _ in agent_with(memory, spans, "one two").astream("go", context="alice"):
            assert context_is_clean()

    asyncio.run(consume())


def test_a_stream_may_be_read_and_closed_by_other_threads(memory, spans):
    stream = agent_with(memory, spans, "one two three").stream("go", context="alice")
    assert in_thread(lambda: next(stream)) == "one "
    assert next(stream) == "two "
    in_thread(stream.close)
    was_abandoned(spans)
    assert not memory.windows


def test_a_stream_read_to_its_end_by_other_threads_is_one_kept_turn(memory, spans):
    stream = agent_with(memory, spans, "one two three").stream("go", context="alice")
    assert [in_thread(lambda: next(stream)) for _ in range(3)] == ["one ", "two ", "three"]
    assert in_thread(lambda: next(stream, None)) is None
    assert stream.result.text == "one two three"
    assert memory.windows["alice"] == [user("go"), assistant("one two three")]
    assert len({span.context.trace_id for span in spans.ended()}) == 1


def in_thread(job):
    results = []
    thread = threading.Thread(target=lambda: results.append(job()))
    thread.start()
    thread.join(10)
    return results[0]


def test_an_async_stream_may_be_closed_by_another_task(memory, spans):
    async def consume():
        stream = agent_with(memory, spans, "one two three").astream("go", context="alice")
        assert await anext(stream) == "one "
        await asyncio.create_task(stream.aclose(), context=contextvars.Context())
        assert context_is_clean()

    asyncio.run(consume())
    was_abandoned(spans)
    assert not memory.windows


def test_a_forgotten_stream_is_abandoned(memory, spans):
    stream = agent_with(memory, spans, "one two three").stream("go", context="alice")
    next(stream)
    del stream
    was_abandoned(spans)
    assert not memory.windows


def test_a_stream_forgotten_in_a_cycle_is_abandoned(memory, spans):
    class Holder:
        pass

    holder = Holder()
    holder.itself = holder
    holder.stream = agent_with(memory, spans, "one two three").stream("go", context="alice")
    next(holder.stream)
    del holder
    gc.collect()
    was_abandoned(spans)
    assert context_is_clean()


@pytest.mark.parametrize("in_a_cycle", [False, True])
def test_a_forgotten_async_stream_is_abandoned(memory, spans, in_a_cycle):
    class Holder:
        pass

    async def consume():
        holder = Holder()
        if in_a_cycle:
            holder.itself = holder
        holder.stream = agent_with(memory, spans, Endless("one")).astream("go", context="alice")
        assert await anext(holder.stream) == "one"
        del holder
        gc.collect()
        await asyncio.sleep(0)  # the loop is told to close it, and begins to
        await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})
        assert spans.ended()
        assert context_is_clean()

    asyncio.run(consume())
    was_abandoned(spans)
    assert not memory.windows


def test_an_async_stream_open_when_its_loop_ends_is_abandoned(memory, spans):
    kept = []

    async def consume():
        kept.append(agent_with(memory, spans, Endless("one")).astream("go", context="alice"))
        await anext(kept[0])

    asyncio.run(consume())
    was_abandoned(spans)
    assert not memory.windows


def test_a_task_cancelled_between_pieces_cancels_the_turn(memory, spans):
    async def consume(stream, began):
        async for _ in stream:
            began.set()

    async def main():
        began = asyncio.Event()
        stream = agent_with(memory, spans, Endless("one")).astream("go", context="alice")
        task = asyncio.create_task(consume(stream, began))
        await began.wait()
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()

    asyncio.run(main())
    (root,) = [span for span in spans.ended() if span.parent is None]
    assert root.attributes["memtrace.outcome"] == "cancelled"
    assert sum(span.name == "chat scripted" for span in spans.ended()) == 1
    assert not memory.windows


def test_a_turn_is_closed_in_its_own_context():
    seen, place = [], contextvars.ContextVar("place")

    def steps():
        place.set("inside")
        try:
            yield Proceed()
        finally:
            seen.append(place.get("outside"))

    core = Core(steps())
    core.advance()
    core.close()
    assert (seen, place.get("outside")) == (["inside"], "outside")


def test_a_stream_never_read_does_nothing(memory, spans):
    model = ScriptedModel("hi")
    Agent("shop", model, memory, tracing=spans.tracing).stream("go", context="alice").close()
    assert (model.prompts, memory.opened, spans.ended()) == ([], [], ())


def test_a_stream_has_a_result_only_at_its_end(memory, spans):
    stream = agent_with(memory, spans, "one two").stream("go", context="alice")
    next(stream)
    with pytest.raises(UsageError, match="not read to the end"):
        _ = stream.result
    assert list(stream) == ["two"]
    assert stream.result.outcome is Outcome.OK


@pytest.mark.parametrize("face", FACES, ids=lambda face: face.name)
def test_a_model_whose_stream_breaks_off_fails_the_turn(face, memory, spans, monkeypatch):
    async def astream(self, messages, tools=()):
        yield "half"

    monkeypatch.setattr(ScriptedModel, "stream", lambda self, messages, tools=(): (piece for piece in ["half"]))
    monkeypatch.setattr(ScriptedModel, "astream", astream)
    with pytest.raises(ModelError, match="without a completion"):
        face.stream(agent_with(memory, spans, "unused"), "go", context="alice")
    assert not memory.windows


def test_the_turn_belongs_to_the_context_the_stream_was_made_in(memory, spans):
    with spans.tracing.tool("outer"):
        stream = agent_with(memory, spans, "one").stream("go", context="alice")
    assert list(stream) == ["one"]
    by_name = {span.name: span for span in spans.ended()}
    assert by_name["invoke_agent shop"].parent.span_id == by_name["execute_tool outer"].context.span_id


def test_turns_that_overlap_in_threads_keep_to_their_own(spans):
    callers = ["alice", "bob", "carol", "dave"]
    memory = FakeMemory()
    meet = threading.Barrier(len(callers))

    def reply(messages):
        meet.wait(10)
        return Completion(f"answer to {messages[-1].text}")

    model = ScriptedModel(*[reply] * len(callers))
    agent = Agent("shop", model, memory, tracing=spans.tracing)
    threads = [threading.Thread(target=lambda who=who: agent.run(f"I am {who}", context=who)) for who in callers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    each_has_their_own(memory, spans, callers)


@pytest.mark.parametrize("way", ["run", "stream"])
def test_turns_that_overlap_on_one_loop_keep_to_their_own(spans, way):
    callers = ["alice", "bob", "carol", "dave"]
    memory = FakeMemory()

    async def main():
        meet = asyncio.Barrier(len(callers))

        async def reply(text):
            await meet.wait()
            return Completion(f"answer to {text}")

        model = ScriptedModel(*[lambda messages: reply(messages[-1].text)] * len(callers))
        agent = Agent("shop", model, memory, tracing=spans.tracing)
        if way == "run":
            await asyncio.gather(*(agent.arun(f"I am {who}", context=who) for who in callers))
        else:
            await asyncio.gather(*(read(agent.astream(f"I am {who}", context=who)) for who in callers))

    async def read(stream):
        return [piece async for piece in stream]

    asyncio.run(main())
    each_has_their_own(memory, spans, callers)


def each_has_their_own(memory, spans, callers):
    assert memory.windows == {who: [user(f"I am {who}"), assistant(f"answer to I am {who}")] for who in callers}
    ended = spans.ended()
    assert len({span.context.trace_id for span in ended}) == len(callers)
    assert len(ended) == 2 * len(callers)


def test_streams_read_in_turn_on_one_thread_keep_to_their_own(memory, spans):
    model = ScriptedModel("one two", "three four")
    agent = Agent("shop", model, memory, tracing=spans.tracing)
    first, second = agent.stream("a", context="alice"), agent.stream("b", context="bob")
    assert [next(first), next(second), next(first), next(second)] == ["one ", "three ", "two", "four"]
    assert next(first, None) is next(second, None) is None
    assert memory.windows == {
        "alice": [user("a"), assistant("one two")],
        "bob": [user("b"), assistant("three four")],
    }
    assert len({span.context.trace_id for span in spans.ended()}) == 2


def test_a_plain_run_works_inside_a_running_loop(memory, spans):
    async def body():
        await asyncio.sleep(0)
        return "async result"

    model = ScriptedModel(calls("act"), "done")
    agent = Agent("shop", model, memory, tools=[Tool("act", body)], tracing=spans.tracing)

    async def main():
        return agent.run("go", context="alice")

    assert asyncio.run(main()).text == "done"
    assert model.prompts[1][-1].text == "async result"
