"""Stand-ins for the tests of the reference agent: a model, a memory, and the two faces of an agent."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from contextlib import closing
from types import SimpleNamespace

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from memtrace.model import Author, Message, ToolCall
from memtrace.reference.models import Completion
from memtrace.tracing import Tracing


def user(text):
    return Message(Author.USER, text)


def assistant(text):
    return Message(Author.ASSISTANT, text)


def system(text):
    return Message(Author.SYSTEM, text)


def calls(*tools, text=""):
    """A reply that asks for tools: names, or (name, arguments)."""
    pairs = [(tool, {}) if isinstance(tool, str) else tool for tool in tools]
    return Completion(
        text,
        tuple(
            ToolCall(f"call-{number}", name, arguments if isinstance(arguments, str) else json.dumps(arguments))
            for number, (name, arguments) in enumerate(pairs)
        ),
        "tool_calls",
    )


class Endless(Completion):
    """A reply that, streamed on a loop, says its text and then goes on for ever."""


class ScriptedModel:
    """Gives its replies in order: a text, a `Completion`, an exception to raise, or a function of the prompt."""

    def __init__(self, *replies, name="scripted"):
        self.name = name
        self.replies = list(replies)
        self.prompts = []
        self.tools = []
        self.closed_streams = 0

    def complete(self, messages, tools=()):
        return self._reply(messages, tools)

    async def acomplete(self, messages, tools=()):
        reply = self._reply(messages, tools)
        return await reply if asyncio.iscoroutine(reply) else reply

    def stream(self, messages, tools=()):
        reply = self._reply(messages, tools)
        try:
            yield from _pieces(reply)
            yield reply
        finally:
            self.closed_streams += 1

    async def astream(self, messages, tools=()):
        reply = self._reply(messages, tools)
        reply = await reply if asyncio.iscoroutine(reply) else reply
        try:
            for piece in _pieces(reply):
                yield piece
            if isinstance(reply, Endless):
                await asyncio.Event().wait()
            yield reply
        finally:
            self.closed_streams += 1

    def _reply(self, messages, tools):
        self.prompts.append(tuple(messages))
        self.tools.append(tuple(tool.name for tool in tools))
        reply = self.replies.pop(0)
        if isinstance(reply, BaseException):
            raise reply
        if callable(reply):
            reply = reply(messages)
        return Completion(reply) if isinstance(reply, str) else reply


def _pieces(reply):
    return [word + " " for word in reply.text.split(" ")[:-1]] + [reply.text.split(" ")[-1]] if reply.text else []


class FakeMemory:
    """Windows a user, and whatever blocks it is told to render."""

    def __init__(self, *blocks, project="", resolve=lambda context: context):
        self.blocks = [system(block) for block in blocks]
        self.project_id = project
        self.resolve = resolve
        self.windows = defaultdict(list)
        self.opened = []
        self.also_erased = []
        self.queued = []
        self.outgoing = None
        self.on_write = lambda: None
        self.on_read = lambda: None

    def on_erase(self, also):
        self.also_erased.append(also)

    def open(self, context, *, outgoing):
        self.opened.append(context)
        self.outgoing = outgoing
        return FakeTurn(self, self.resolve(context))


class FakeTurn:
    erased = False

    def __init__(self, memory, requester):
        self.memory = memory
        self.requester = requester
        self.queue = []

    def read(self, query):
        self.memory.on_read()
        return [*self.memory.blocks, *self.memory.windows.get(self.requester, ())]

    def write(self, question, answer):
        self.memory.on_write()
        if self.requester is not None:
            self.memory.windows[self.requester] += [user(question), assistant(answer)]
            self.memory.queued += self.queue

    def remember(self, text):
        self.queue.append(("remember", text))

    def forget(self, text):
        self.queue.append(("forget", text))


class Plain:
    """An agent's synchronous face."""

    name = "plain"

    def run(self, agent, text, **options):
        return agent.run(text, **options)

    def stream(self, agent, text, leave_after=None, said=None, **options):
        said = [] if said is None else said
        with closing(agent.stream(text, **options)) as stream:
            for piece in stream:
                said.append(piece)
                if len(said) == leave_after:
                    return said, None
            return said, stream.result

    def resume(self, agent, token, *, approved=True, **options):
        return agent.resume(token, approved=approved, **options)

    def fork(self, agent, token, *, approved=True, **options):
        return agent.fork(token, approved=approved, **options)


class OnLoop:
    """An agent's asynchronous face; each call on an event loop of its own."""

    name = "async"

    def run(self, agent, text, **options):
        return asyncio.run(agent.arun(text, **options))

    def stream(self, agent, text, leave_after=None, said=None, **options):
        said = [] if said is None else said

        async def consume():
            async with agent.astream(text, **options) as stream:
                async for piece in stream:
                    said.append(piece)
                    if len(said) == leave_after:
                        return said, None
                return said, stream.result

        return asyncio.run(consume())

    def resume(self, agent, token, *, approved=True, **options):
        return asyncio.run(agent.aresume(token, approved=approved, **options))

    def fork(self, agent, token, *, approved=True, **options):
        return asyncio.run(agent.afork(token, approved=approved, **options))


FACES = [Plain(), OnLoop()]


def recorded():
    """A tracing whose spans are kept: ``.tracing``, and ``.ended()`` for the spans so far."""
    provider, exporter = TracerProvider(), InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return SimpleNamespace(
        tracing=Tracing(tracer_provider=provider, content=True), ended=exporter.get_finished_spans, clear=exporter.clear
    )
