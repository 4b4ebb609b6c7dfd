"""What the tests of the reference memory share: a store, a memory model, turns, and the spans they leave."""

from __future__ import annotations

import json

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from memtrace.model import Level, Scope
from memtrace.reference import Memory
from memtrace.reference.models import Completion
from memtrace.stores.sqlite import SqliteStore
from memtrace.tracing import Tracing


def keep_all(messages):
    """Every user message, word for word."""
    return json.dumps([message.text for message in messages if message.author == "user"])


class MemoryModel:
    """Extracts or summarizes; by default it keeps, as facts, every user message it is shown."""

    name = "memory-model"

    def __init__(self, reply=None):
        self.reply = keep_all if reply is None else reply
        self.prompts = []

    def complete(self, messages, tools=()):
        self.prompts.append(tuple(messages))
        reply = self.reply(messages) if callable(self.reply) else self.reply
        return Completion(reply)


class Lab:
    """A store on a file, a record of spans, and memories on both."""

    def __init__(self, path):
        self.path = path
        self.store = SqliteStore(path / "facts.db")
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracing = Tracing(tracer_provider=self.provider, content=True)

    def memory(self, **options):
        """A memory whose run context is the user id itself."""
        settings = {"location": self.store, "agent_id": "shop", "user_id": lambda context: context}
        return Memory(**{**settings, "tracing": self.tracing, **options})

    def spans(self, name=""):
        """The ended spans of a name, oldest first; forgotten with `clear`."""
        return [span for span in self.exporter.get_finished_spans() if not name or span.name == name]

    def clear(self):
        self.exporter.clear()

    def raw(self):
        """Every byte of every file of the lab."""
        return b"".join(file.read_bytes() for file in sorted(self.path.rglob("*")) if file.is_file())

    def facts(self, user, project=""):
        return [record.text for record in self.store.newest(user_scope(user, project), None)]


def user_scope(user, project=""):
    return Scope(Level.USER, user, project)


def say(memory, context, question, answer="Noted."):
    """A turn that succeeds; the memory part of its prompt."""
    turn = memory.open(context)
    prompt = turn.read(question)
    turn.write(question, answer)
    return prompt


def ask(memory, context, question="What do you know?"):
    """The memory part of a turn's prompt, as one text; the turn is not written."""
    return "\n".join(message.text for message in memory.open(context).read(question))


def systems(prompt):
    """The system messages of a prompt."""
    return [message.text for message in prompt if message.author == "system"]


def window(prompt):
    """The other messages of a prompt."""
    return [message.text for message in prompt if message.author != "system"]
