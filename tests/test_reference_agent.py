"""One turn of the reference agent: what is in its prompt, and what is kept of it, whichever way it ends."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import suppress

import pytest
from scripted import FACES, FakeMemory, ScriptedModel, assistant, calls, recorded, system, user

from memtrace.errors import UsageError
from memtrace.model import Outcome
from memtrace.reference.agent import Agent
from memtrace.reference.drivers import Cancellation, Cancelled
from memtrace.reference.guardrails import Blocked, Guardrail
from memtrace.reference.middleware import RedactEmails
from memtrace.reference.models import Completion
from memtrace.reference.outcomes import IterationLimit, outcome_of
from memtrace.reference.tools import MEMORY_TOOLS, Tool, text_parameter

pytestmark = [
    pytest.mark.parametrize("face", FACES, ids=lambda face: face.name),
    pytest.mark.filterwarnings("ignore::memtrace.identity.IdKeyWarning"),
]

LOOKUP = text_parameter("query")


def lookup(body=lambda query: f"found {query}", **options):
    return Tool("lookup", body, parameters=LOOKUP, **options)


def outcomes(spans):
    return {span.name: span.attributes.get("memtrace.outcome") for span in spans}


def test_the_prompt_is_in_the_declared_order(face):
    memory = FakeMemory("agent facts", "user facts")
    memory.windows["alice"] = [user("before"), assistant("so")]
    model = ScriptedModel("fine")
    agent = Agent("shop", model, memory, system_prompt="be kind")
    face.run(agent, "now", context="alice", messages=[user("passed in")])
    assert model.prompts == [
        (
            system("be kind"),
            system("agent facts"),
            system("user facts"),
            user("before"),
            assistant("so"),
            user("passed in"),
            user("now"),
        )
    ]


def test_a_turn_keeps_the_input_and_the_final_answer_and_no_tool_traffic(face):
    memory = FakeMemory()
    model = ScriptedModel(calls(("lookup", {"query": "1042"}), text="Let me look."), "It shipped.")
    result = face.run(Agent("shop", model, memory, tools=[lookup()]), "Where is 1042?", context="alice")
    assert (result.text, result.outcome) == ("It shipped.", Outcome.OK)
    assert memory.windows == {"alice": [user("Where is 1042?"), assistant("It shipped.")]}
    assert [message.author for message in result.messages] == ["user", "assistant", "tool", "assistant"]


def test_the_model_sees_its_calls_and_their_results_in_order(face):
    model = ScriptedModel(calls(("lookup", {"query": "a"}), ("lookup", {"query": "b"})), "done")
    face.run(Agent("shop", model, FakeMemory(), tools=[lookup()]), "go", context="alice")
    *_, call, first, second = model.prompts[1]
    assert [each.id for each in call.tool_calls] == ["call-0", "call-1"]
    assert [(m.tool_call_id, m.text) for m in (first, second)] == [("call-0", "found a"), ("call-1", "found b")]


def test_streamed_and_run_send_the_same_and_keep_the_same(face):
    def turn(way):
        memory = FakeMemory("facts")
        model = ScriptedModel(calls(("lookup", {"query": "x"}), text="Looking it up."), "It is blue.")
        got = getattr(face, way)(Agent("shop", model, memory, tools=[lookup()]), "Which?", context="alice")
        return got, memory.windows, model.prompts

    result, run_kept, run_sent = turn("run")
    (said, streamed), stream_kept, stream_sent = turn("stream")
    assert streamed == result
    assert "".join(said) == "Looking it up.It is blue."
    assert len(said) > 2
    assert stream_kept == run_kept == {"alice": [user("Which?"), assistant("It is blue.")]}
    assert stream_sent == run_sent


def boom(*_, **__):
    raise ValueError("boom")


ENDINGS = {
    "model fails": (lambda: {"replies": [ValueError("boom")]}, ValueError, Outcome.FAILED),
    "model fails after a tool": (
        lambda: {"replies": [calls(("lookup", {"query": "x"})), ValueError("boom")], "tools": [lookup()]},
        ValueError,
        Outcome.FAILED,
    ),
    "tool fails": (
        lambda: {"replies": [calls(("lookup", {"query": "x"}))], "tools": [lookup(boom)]},
        ValueError,
        Outcome.FAILED,
    ),
    "tool stops an iteration": (
        lambda: {"replies": [calls(("lookup", {"query": "x"}))], "tools": [lookup(lambda query: next(iter(())))]},
        RuntimeError,
        Outcome.FAILED,
    ),
    "step after the answer fails": (lambda: {"replies": ["yes"], "after_run": boom}, ValueError, Outcome.FAILED),
    "input blocked": (
        lambda: {"replies": [], "guardrails": [Guardrail("no", lambda text: False, on="input")]},
        Blocked,
        Outcome.BLOCKED,
    ),
    "answer blocked": (
        lambda: {"replies": ["refund"], "guardrails": [Guardrail("no", lambda text: "refund" not in text)]},
        Blocked,
        Outcome.BLOCKED,
    ),
    "answer blocked though shown": (
        lambda: {"replies": ["refund"], "guardrails": [Guardrail("no", lambda text: False, live=True)]},
        Blocked,
        Outcome.BLOCKED,
    ),
    "guardrail fails": (
        lambda: {"replies": ["yes"], "guardrails": [Guardrail("no", boom)]},
        ValueError,
        Outcome.FAILED,
    ),
    "limit": (
        lambda: {"replies": [calls(("lookup", {"query": "x"}))] * 2, "tools": [lookup()], "max_iterations": 2},
        IterationLimit,
        Outcome.LIMIT,
    ),
}


@pytest.mark.parametrize("way", ["run", "stream"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_turn_that_does_not_succeed_keeps_nothing_and_every_span_ends_once(face, way, ending):
    options, raises, outcome = ENDINGS[ending]
    options = options()
    memory, spans = FakeMemory(), recorded()
    model = ScriptedModel(*options.pop("replies"))
    agent = Agent("shop", model, memory, tracing=spans.tracing, **options)
    with pytest.raises(raises) as raised:
        getattr(face, way)(agent, "question", context="alice")
    assert outcome_of(raised.value) is outcome
    assert not memory.windows
    ended = spans.ended()
    assert outcomes(ended)["invoke_agent shop"] == outcome
    assert sum(span.name == "chat scripted" for span in ended) == len(model.prompts)
    assert len({span.context.trace_id for span in ended}) == 1
    assert sum(span.parent is None for span in ended) == 1


def test_the_answer_is_kept_only_after_the_last_step_that_can_fail(face):
    order = []
    memory = FakeMemory()
    memory.on_write = lambda: order.append("write")
    agent = Agent(
        "shop",
        ScriptedModel("fine"),
        memory,
        guardrails=[
            Guardrail("in", lambda text: order.append(f"input {text}") or True, on="input"),
            Guardrail("out", lambda text: order.append(f"output {text}") or True),
        ],
        after_run=lambda answer: order.append(f"after {answer}"),
    )
    face.run(agent, "hello", context="alice")
    assert order == ["input hello", "output fine", "after fine", "write"]


def test_the_limit_counts_model_calls_and_the_last_calls_tools_are_not_run(face):
    ran = []
    model = ScriptedModel(*[calls(("lookup", {"query": str(n)})) for n in range(3)], "done")
    agent = Agent("shop", model, FakeMemory(), tools=[lookup(lambda query: ran.append(query))], max_iterations=3)
    with pytest.raises(IterationLimit):
        face.run(agent, "go", context="alice")
    assert (len(model.prompts), ran) == (3, ["0", "1"])


def test_the_limit_allows_an_answer_in_the_last_call(face):
    model = ScriptedModel(calls(("lookup", {"query": "x"})), "done")
    agent = Agent("shop", model, FakeMemory(), tools=[lookup()], max_iterations=2)
    assert face.run(agent, "go", context="alice").text == "done"


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (("nothing", {}), "There is no tool 'nothing'."),
        (("lookup", "{"), "The arguments are not JSON."),
        (("lookup", "[]"), "The arguments are not a JSON object."),
        (("lookup", {}), "Missing arguments: query."),
        (("lookup", {"query": "x", "depth": 3}), "Unknown arguments: depth."),
    ],
)
def test_a_call_that_cannot_be_made_is_told_to_the_model(face, call, says):
    model = ScriptedModel(calls(call), "sorry")
    assert face.run(Agent("shop", model, FakeMemory(), tools=[lookup()]), "go", context="alice").text == "sorry"
    assert model.prompts[1][-1].text == says


def test_a_tool_may_be_async_and_its_result_may_be_data(face):
    async def body(query):
        await asyncio.sleep(0)
        return {"order": query}

    class Async:
        async def __call__(self, query):
            return query.upper()

    tools = [lookup(body), Tool("shout", Async(), parameters=LOOKUP)]
    model = ScriptedModel(calls(("lookup", {"query": "7"}), ("shout", {"query": "a"})), "done")
    face.run(Agent("shop", model, FakeMemory(), tools=tools), "go", context="alice")
    assert [message.text for message in model.prompts[1][-2:]] == [json.dumps({"order": "7"}), "A"]


def test_checks_and_steps_may_be_async(face):
    seen = []

    async def passes(text):
        return "bad" not in text

    async def after(answer):
        seen.append(answer)

    def agent(reply):
        guardrails = [Guardrail("ok", passes)]
        return Agent("shop", ScriptedModel(reply), FakeMemory(), guardrails=guardrails, after_run=after)

    face.run(agent("good"), "go", context="alice")
    with pytest.raises(Blocked):
        face.run(agent("bad"), "go", context="alice")
    assert seen == ["good"]


def test_an_agent_without_memory_answers(face):
    assert face.run(Agent("shop", ScriptedModel("hi")), "hello", context="alice").text == "hi"


def test_an_empty_answer_is_one_turn(face):
    memory = FakeMemory()
    agent = Agent("shop", ScriptedModel("", "again"), memory)
    face.run(agent, "one", context="alice")
    assert memory.windows["alice"] == [user("one"), assistant("")]


# Queued memory


def test_what_the_model_asks_memory_to_do_waits_for_the_end_of_the_turn(face):
    memory = FakeMemory()
    seen = []
    model = ScriptedModel(
        calls(("remember", {"text": "likes tea"}), ("forget", {"text": "likes milk"})),
        lambda messages: seen.append(list(memory.queued)) or Completion("noted"),
    )
    face.run(Agent("shop", model, memory, tools=MEMORY_TOOLS), "I like tea", context="alice")
    assert seen == [[]]
    assert memory.queued == [("remember", "likes tea"), ("forget", "likes milk")]


def test_what_the_model_asked_memory_to_do_is_dropped_when_the_turn_fails(face):
    memory = FakeMemory()
    model = ScriptedModel(calls(("remember", {"text": "likes tea"})), ValueError("boom"))
    with pytest.raises(ValueError, match="boom"):
        face.run(Agent("shop", model, memory, tools=MEMORY_TOOLS), "I like tea", context="alice")
    assert (memory.queued, memory.windows) == ([], {})


# Who asks


def test_who_asks_is_resolved_once_for_the_read_and_the_write(face):
    who = iter(["alice", "bob"])
    memory = FakeMemory(resolve=lambda context: next(who))
    face.run(Agent("shop", ScriptedModel("hi"), memory), "hello")
    assert memory.windows == {"alice": [user("hello"), assistant("hi")]}
    assert next(who) == "bob"


# Redaction


@pytest.mark.parametrize("way", ["run", "stream"])
def test_every_text_the_model_is_sent_is_redacted_and_memory_keeps_the_words(face, way):
    memory = FakeMemory("write to boss@shop.example")
    memory.windows["alice"] = [user("old@shop.example")]
    model = ScriptedModel(
        calls(("lookup", {"query": "made-up@shop.example"})), "I wrote to jane.doe@shop.example today."
    )
    agent = Agent(
        "shop",
        model,
        memory,
        system_prompt="you are bot@shop.example",
        tools=[lookup(lambda query: "tool@shop.example")],
        middleware=[RedactEmails()],
    )
    got = getattr(face, way)(
        agent, "My email is jane.doe@shop.example.", context="alice", messages=[user("h@shop.example")]
    )
    text = got.text if way == "run" else "".join(got[0])
    assert text == "I wrote to [REDACTED] today."
    assert memory.windows["alice"][1:] == [user("My email is jane.doe@shop.example."), assistant(text)]
    assert "shop.example" not in "".join(str(prompt) for prompt in model.prompts)
    assert memory.outgoing("from a@shop.example") == "from [REDACTED]"


def test_the_recorded_prompt_is_the_redacted_one(face):
    spans = recorded()
    agent = Agent("shop", ScriptedModel("hi"), FakeMemory(), middleware=[RedactEmails()], tracing=spans.tracing)
    face.run(agent, "I am a@shop.example", context="alice")
    (chat,) = [span for span in spans.ended() if span.name == "chat scripted"]
    assert json.loads(chat.attributes["gen_ai.request.messages"]) == [{"role": "user", "content": "I am [REDACTED]"}]


@pytest.mark.parametrize(
    "options",
    [
        {"middleware": [RedactEmails()]},
        {"guardrails": [Guardrail("no", lambda text: "refund" not in text)]},
    ],
)
def test_no_piece_is_given_out_before_the_answer_is_changed_and_checked(face, options):
    model = ScriptedModel("You get a refund at a@shop.example now")
    agent = Agent("shop", model, FakeMemory(), **options)
    said = []
    with suppress(Blocked):
        face.stream(agent, "go", context="alice", said=said)
    assert said in ([], ["You get a refund at [REDACTED] now"])


def test_a_live_guardrail_lets_pieces_through_as_they_come(face):
    agent = Agent("shop", ScriptedModel("one two three"), FakeMemory(), guardrails=[Guardrail("ok", bool, live=True)])
    said, _ = face.stream(agent, "go", context="alice")
    assert said == ["one ", "two ", "three"]


# Spans


def test_a_turn_is_one_trace_with_one_span_a_call(face):
    spans = recorded()
    model = ScriptedModel(calls(("lookup", {"query": "x"})), "done")
    face.run(Agent("shop", model, FakeMemory(), tools=[lookup()], tracing=spans.tracing), "go", context="alice")
    ended = spans.ended()
    (root,) = [span for span in ended if span.parent is None]
    assert sorted(span.name for span in ended) == ["chat scripted", "chat scripted", "execute_tool lookup", root.name]
    assert root.name == "invoke_agent shop"
    assert {span.parent.span_id for span in ended if span is not root} == {root.context.span_id}
    assert outcomes(ended)["invoke_agent shop"] == "ok"


@pytest.mark.parametrize("way", ["run", "stream"])
def test_what_a_turn_calls_runs_under_its_spans(face, way):
    spans = recorded()
    inner = spans.tracing.read
    memory = FakeMemory()
    memory.on_read = lambda: inner().__enter__().__exit__(None, None, None)
    memory.on_write = lambda: spans.tracing.write().__enter__().__exit__(None, None, None)

    def body(query):
        with spans.tracing.tool("inside"):
            return query

    model = ScriptedModel(
        lambda messages: (
            spans.tracing.read(operation="retrieve").__enter__().__exit__(None, None, None)
            or calls(("lookup", {"query": "x"}))
        ),
        "done",
    )
    agent = Agent("shop", model, memory, tools=[lookup(body)], tracing=spans.tracing)
    getattr(face, way)(agent, "go", context="alice")
    by_id = {span.context.span_id: span.name for span in spans.ended()}
    parents = {span.name: by_id.get(span.parent.span_id) for span in spans.ended() if span.parent}
    assert parents["memory.read"] == parents["memory.write"] == "invoke_agent shop"
    assert parents["memory.retrieve"] == "chat scripted"
    assert parents["execute_tool inside"] == "execute_tool lookup"


# Cancelling


@pytest.mark.parametrize("way", ["run", "stream"])
@pytest.mark.parametrize("at", ["model", "tool", "guardrail", "after run"])
def test_a_cancelled_turn_keeps_nothing(face, way, at):
    """Cancelled from outside, while it is somewhere: plainly with a token, on a loop with the task."""
    memory, spans = FakeMemory(), recorded()
    cancel = Cancellation()
    there, go = threading.Event(), threading.Event()

    def stop(here):
        if here == at:
            there.set()
            assert go.wait(10)
        return True

    model = ScriptedModel(calls(("lookup", {"query": "x"})), lambda messages: stop("model") and Completion("an answer"))
    if face.name == "async" and at == "model":
        model = ScriptedModel(calls(("lookup", {"query": "x"})), lambda messages: forever(there))
    agent = Agent(
        "shop",
        model,
        memory,
        tools=[lookup(lambda query: stop("tool") and query)],
        guardrails=[Guardrail("ok", lambda text: stop("guardrail"), live=True)],
        after_run=lambda answer: stop("after run"),
        tracing=spans.tracing,
    )
    if face.name == "plain":
        with pytest.raises(Cancelled):
            in_thread_until(there, lambda: getattr(face, way)(agent, "go", context="alice", cancel=cancel), cancel, go)
    else:
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(cancelled_when(there, agent, way, go))
    assert not memory.windows
    ended = outcomes(spans.ended())
    assert ended["invoke_agent shop"] == "cancelled"
    assert sum(span.name == "chat scripted" for span in spans.ended()) == len(model.prompts)


async def forever(there):
    there.set()
    await asyncio.Event().wait()


def in_thread_until(there, job, cancel, go):
    raised = []

    def work():
        try:
            job()
        except Cancelled as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    assert there.wait(10)
    cancel.set()
    go.set()
    thread.join(10)
    if raised:
        raise raised[0]


async def consume(agent, way):
    if way == "run":
        return await agent.arun("go", context="alice")
    async with agent.astream("go", context="alice") as stream:
        return [piece async for piece in stream]


async def cancelled_when(there, agent, way, go):
    task = asyncio.create_task(consume(agent, way))
    await asyncio.to_thread(there.wait, 10)
    task.cancel()
    asyncio.get_running_loop().call_soon(go.set)
    await task


def test_a_turn_cancelled_during_the_write_is_kept_whole_before_it_ends(face):
    memory = FakeMemory()
    there, go, cancel = threading.Event(), threading.Event(), Cancellation()
    memory.on_write = lambda: there.set() or go.wait(10)
    agent = Agent("shop", ScriptedModel("hi"), memory)
    whole = [user("hello"), assistant("hi")]

    async def cancelled():
        task = asyncio.create_task(agent.arun("hello", context="alice"))
        await asyncio.to_thread(there.wait, 10)
        for _ in range(2):  # whoever is impatient cancels again
            task.cancel()
            await asyncio.sleep(0)
        go.set()
        await asyncio.wait({task})
        assert task.cancelled()
        assert memory.windows["alice"] == whole

    if face.name == "plain":
        in_thread_until(there, lambda: agent.run("hello", context="alice", cancel=cancel), cancel, go)
        assert memory.windows["alice"] == whole
    else:
        asyncio.run(cancelled())


def test_a_cancelled_turn_calls_no_further_model_and_no_further_tool(face):
    ran = []

    def turn(*replies, body=ran.append):
        cancel.clear()
        model = ScriptedModel(*replies)
        with pytest.raises(Cancelled):
            Agent("shop", model, FakeMemory(), tools=[lookup(body)]).run("go", context="alice", cancel=cancel)
        return len(model.prompts)

    cancel = threading.Event()
    asks = calls(("lookup", {"query": "x"}))
    assert turn(asks, "never", body=lambda query: cancel.set()) == 1
    assert turn(lambda messages: cancel.set() or asks, "never") == 1
    assert ran == []


def test_a_stream_that_is_cancelled_gives_no_more_pieces(face):
    cancel, memory = Cancellation(), FakeMemory()
    agent = Agent("shop", ScriptedModel("one two three"), memory)
    stream = agent.stream("go", context="alice", cancel=cancel)
    assert next(stream) == "one "
    cancel.set()
    with pytest.raises(Cancelled):
        next(stream)
    assert memory.windows == {}


# Declared wrongly


def test_what_could_not_run_is_refused_at_once(face):
    model = ScriptedModel()
    with pytest.raises(UsageError, match="max_iterations is 0"):
        Agent("shop", model, max_iterations=0)
    with pytest.raises(UsageError, match="two tools of agent 'shop' have the same name: lookup"):
        Agent("shop", model, tools=[lookup(), lookup()])
    with pytest.raises(UsageError, match="'lookup' needs an approval"):
        Agent("shop", model, tools=[lookup(approval=True)])
