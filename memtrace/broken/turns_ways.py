"""Memories that go wrong where a turn takes another way than one run of one agent."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextvars import ContextVar
from typing import Any, ClassVar

from opentelemetry.context import attach, detach
from opentelemetry.trace import set_span_in_context

from memtrace.broken import broken
from memtrace.broken.tiny import Key, TinyMemory, tool_result
from memtrace.broken.tiny_cancel import TinyCancel
from memtrace.broken.tiny_recall import Recalled, TinyRecall
from memtrace.broken.tiny_swarm import TinySwarm, reason_of
from memtrace.broken.tiny_tools import TinyTools
from memtrace.broken.tiny_traffic import TinyTraffic
from memtrace.broken.tiny_transcript import TinyTranscript
from memtrace.harness.scripted_model.scripting import ScriptedFailure
from memtrace.harness.system import REMEMBER_TOOL
from memtrace.model import Caller, Reply, ToolCall

Messages = list[dict[str, Any]]


# Resumed runs


@broken("turns.resumed-records-its-question", report="https://github.com/arunrajiah/odoopilot/issues/6")
class StoresTheApproval(TinyMemory):
    """Stores, of a resumed run, the approval as what the user said, and not the question."""

    def resume(self, caller: Caller, token: str, approved: bool) -> Reply:
        key, question = self.paused[token].key, self.paused[token].question
        reply = super().resume(caller, token, approved)
        window = self.windows[key]
        window[window.index(("user", question))] = ("user", "Approved." if approved else "Declined.")
        return reply


@broken("turns.resume-belongs-to-its-caller", report="https://github.com/objectstack-ai/objectstack/issues/3801")
class ResumesForAnyone(TinyMemory):
    """Goes on with a run for whoever knows its token."""

    def resume(self, caller: Caller, token: str, approved: bool) -> Reply:
        key, paused = self.resolve(caller), self.paused.pop(token)
        result = self.use(key, paused.call) if approved else "not approved"
        with self.tracer.start_as_current_span("turn"):
            return self.run(caller, key, paused.question, [*paused.traffic, tool_result(paused.call, result)])


# Streams


@broken("turns.cancelled-whole-or-nothing")
class KeepsTheQuestionOnly(TinyMemory):
    """Keeps the question of a stream that was left: it was asked, though the answer was not heard to its end."""

    def streamed(self, caller: Caller, text: str) -> Iterator[str]:
        try:
            yield from super().streamed(caller, text)
        except GeneratorExit:
            self.windows.setdefault(self.own(caller), []).append(("user", text))
            raise


@broken("turns.cancelled-whole-or-nothing", report="https://github.com/langchain-ai/open-swe/pull/1604")
class StopsBetweenWrites(TinyCancel):
    """Writes the question, learns from it, and writes the answer: a turn can be cancelled between the two."""

    def write(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        window = self.windows.setdefault(key, [])
        window.append(("user", text))
        try:
            if self.option("learn", True):
                self.learn(caller, key, text, answer)
        except Exception:  # whatever fails takes the question along: the fault
            window.pop()
            raise
        self.stop_if_cancelled()
        window.append(("assistant", answer))


@broken("turns.abandoned-leaves-no-context", report="https://github.com/google/adk-python/pull/4919")
class LeavesItsSpanBehind(TinyMemory):
    """Makes the span of a stream the current one, and undoes that at the end, which a stream that is left never has."""

    def stream(self, caller: Caller, text: str) -> Generator[str, None, None]:
        span = self.tracer.start_span("turn")
        token = attach(set_span_in_context(span))
        try:
            yield from self.streamed(caller, text)
        except Exception:  # not GeneratorExit: the fault
            detach(token)
            raise
        else:
            detach(token)
        finally:
            span.end()


@broken("turns.stream-equals-run", report="https://github.com/arduino/app-bricks-py/pull/55")
class StoresTheWholeStream(TinyTraffic):
    """Stores as the answer of a streamed turn all that was streamed, also what the model said on its way to a tool."""

    streaming: ContextVar[bool] = ContextVar("streaming", default=False)

    def streamed(self, caller: Caller, text: str) -> Iterator[str]:
        self.streaming.set(True)
        yield from super().streamed(caller, text)

    def write(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        shown = [*self.asides(text), answer] if self.streaming.get() else [answer]
        super().write(caller, key, text, " ".join(shown))


# Tools


@broken("turns.tool-traffic-never-a-fact", report="https://github.com/NousResearch/hermes-agent/issues/78208")
class CachesResultsAsFacts(TinyTraffic):
    """Keeps what a tool found among the user's facts, so that it need not be looked up again."""

    def write(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        super().write(caller, key, text, answer)
        for message in self.traffic(text):
            if message["role"] == "tool":
                self.put(key, str(message["content"]), source="learned")


@broken("turns.tool-traffic-never-a-fact")
class RecallsResults(TinyTraffic, TinyRecall):
    """Puts every message of a turn into the index of recall, what its tools gave too."""

    def write(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        super().write(caller, key, text, answer)
        results = [str(message["content"]) for message in self.traffic(text) if message["role"] == "tool"]
        if results and self.option("recall", False):
            vectors = self.env.embed([self.redacted(result) for result in results])
            self.index += [Recalled(key, said, vector) for said, vector in zip(results, vectors, strict=True)]


@broken("turns.tool-traffic-not-replayed")
class ReplaysTraffic(TinyTranscript):
    """Keeps transcripts, tool calls and results and all, and does not say so."""

    allowed: ClassVar[dict[str, str]] = {}


@broken("turns.tool-pairs-intact", report="https://github.com/langchain-ai/langchain/pull/33265")
class TrimsThroughPairs(TinyTranscript):
    """Trims a transcript message by message, also between a tool call and its result."""

    def conversation(self, key: Key | None) -> Messages:
        size = self.option("window", 20)
        newest = [message for turn in self.transcripts[key] for message in turn][-size:] if key and size else []
        while newest and newest[0]["role"] == "assistant":  # whatever answers nothing
            newest = newest[1:]
        return newest


@broken("turns.queued-writes-wait")
class RemembersAtOnce(TinyTools):
    """Stores what the model wants to remember when it says so, and queues only what it wants to forget."""

    def asked(self, key: Key | None, tool: str, text: str) -> None:
        if tool == REMEMBER_TOOL and key is not None:
            self.put(key, text, source="learned")
        super().asked(key, tool, text)


# Other ways


@broken("turns.handoff-recorded-once", report="https://github.com/microsoft/agent-framework/issues/4695")
class EachAgentRecords(TinySwarm):
    """Lets the second agent keep its own part of a handed-over run: what the first told it, and its answer."""

    def take_over(self, caller: Caller, key: Key | None, call: ToolCall, messages: Messages) -> str:
        said = super().take_over(caller, key, call, messages)
        if key is not None:
            self.windows.setdefault(key, []).extend([("user", reason_of(call)), ("assistant", said)])
        return said


@broken("turns.retry-stores-once", report="https://github.com/strands-agents/sdk-typescript/pull/687")
class RetriesTheWholeTurn(TinyMemory):
    """Runs a turn again whose model failed, with its question in the window since the first attempt."""

    def run(self, caller: Caller, key: Key | None, text: str, traffic: Messages) -> Reply:
        try:
            return super().run(caller, key, text, traffic)
        except ScriptedFailure:
            window = self.windows.setdefault(key, []) if key else []
            first_attempt = ("user", text)
        window.append(first_attempt)
        try:
            return super().run(caller, key, text, traffic)
        except BaseException:  # also what is no Exception, such as a cancellation
            window.remove(first_attempt)
            raise


@broken("turns.overlapping-turns-both-kept", report="https://github.com/langchain-ai/langgraph/issues/8796")
class LosesAnUpdate(TinyMemory):
    """Reads the window when a turn begins, and stores it with the turn when that ends."""

    begun: ContextVar[list[tuple[str, str]]] = ContextVar("begun")

    def prompt(self, caller: Caller, key: Key | None, text: str) -> Messages:
        self.begun.set(list(self.windows.get(key, [])) if key else [])
        return super().prompt(caller, key, text)

    def write(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        self.windows[key] = self.begun.get()
        super().write(caller, key, text, answer)
