"""What memtrace promises to a type checker. Never run: `mypy --strict` must accept it.

An ignored line is one that must be rejected: under ``--strict`` an ignore that is not needed is an error.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, ClassVar, assert_type

from opentelemetry.sdk.trace import TracerProvider

import memtrace
from memtrace.errors import BoundaryViolation, MemtraceError, UsageError
from memtrace.harness.record.history import History
from memtrace.harness.rules import RULES, Rule, rule
from memtrace.harness.scripted_model.scripting import use_tool
from memtrace.harness.stage import Stage, TurnResult
from memtrace.harness.system import Environment, ModelRequest
from memtrace.model import Author, Caller, Fact, Finding, Level, Message, Outcome, Prompt, Record, Reply, Scope, Verdict
from memtrace.stores import FactStore, open_store
from memtrace.tracing import ReadSpan, Tracing

# Tracing


@memtrace.traced("read", query="wanted", user="owner")
def look_up(wanted: str, owner: str) -> list[str]:
    return [wanted, owner]


@memtrace.traced("turn", name="porter")
async def answer(text: str, user_id: str) -> str:
    return f"{text} {user_id}"


@memtrace.traced("turn")
def told(text: str) -> Iterator[str]:
    yield text


@memtrace.traced("turn")
async def streamed(text: str) -> AsyncIterator[str]:
    yield text


class Notes:
    """An application's memory."""

    @memtrace.traced("write")
    def add(self, text: str) -> int:
        return len(text)


async def a_wrapped_function_keeps_its_type(notes: Notes) -> None:
    assert_type(look_up("code", "ann"), list[str])
    assert_type(await answer("Which code?", user_id="ann"), str)
    assert_type(told("a"), Iterator[str])
    assert_type(streamed("a"), AsyncIterator[str])
    assert_type(notes.add("a"), int)
    look_up("code")  # type: ignore[call-arg]
    look_up(1, "ann")  # type: ignore[arg-type]


def instrumenting_is_undone_by_what_it_returns(notes: Notes) -> None:
    undo = memtrace.instrument(notes, write="add", read=("get", "search"), parameters={"user": "owner"})
    assert_type(undo, Callable[[], None])
    memtrace.instrument(notes, forgets="add")  # type: ignore[call-arg]
    memtrace.instrument(notes, read="get", parameters={"owner": "user"})  # type: ignore[arg-type]


def spans_are_context_managers(records: Sequence[Record]) -> None:
    scope = Scope(Level.USER, "ann", project="shop")
    with memtrace.turn("porter", user="ann", session="1") as turn:
        turn.outcome(Outcome.OK)
        with memtrace.read("Which code?", scope=scope) as read:
            assert_type(read, ReadSpan)
            with read.block("facts", type="facts", scope=scope) as block:
                block.rendered(records, scores=[0.5], deduped=1)
                block.rendered(["plain text"])
            read.messages(2)
        with memtrace.model_call("small", [Message(Author.USER, "Which code?")], purpose="answer") as call:
            call.replied("4711.", finish="stop")
        with memtrace.write(operation="persist", scope=scope) as write, write.block("facts", type="learning") as kept:
            kept.stored(1, action="extracted_facts")
        assert_type(turn.trace_id, str)


def tracing_goes_where_it_is_told(provider: TracerProvider) -> None:
    tracing = Tracing(tracer_provider=provider, content=False)
    with tracing.read("Which code?", operation="retrieve"):
        pass
    memtrace.instrument(Notes(), write="add", tracing=tracing)


# An adapter: any object will do, and this is one that is annotated


class Adapter:
    """A system under test."""

    capabilities: ClassVar[frozenset[str]] = frozenset({"turns", "ids", "facts", "list", "learn", "stream"})
    identity: ClassVar[tuple[str, ...]] = ("user",)
    refusals: ClassVar[tuple[type[BaseException], ...]] = (PermissionError,)
    allowed: ClassVar[dict[str, str]] = {"turns.tool-traffic-not-replayed": "it keeps transcripts"}

    def __init__(self, env: Environment) -> None:
        self.env = env
        self.window: int = env.options.get("window", 20)

    def turn(self, caller: Caller, text: str) -> Reply:
        body: dict[str, Any] = {"model": self.env.answer_model, "messages": [{"role": "user", "content": text}]}
        said = self.env.model(body)["choices"][0]["message"]["content"]
        if not self.env.guard(said, "output"):
            return Reply(Outcome.BLOCKED)
        assert_type(self.env.tool("query"), str)
        assert_type(self.env.embed([text]), list[list[float]])
        assert_type(self.env.clock(), float)
        return Reply(Outcome.OK, said, token="")

    async def stream(self, caller: Caller, text: str) -> AsyncIterator[str]:
        yield f"{caller.user or caller.session}: {text}"

    def add(self, caller: Caller, text: str, scope: str = "user") -> str:
        return f"{caller.user}/{scope}/{text}"

    def facts(self, caller: Caller, limit: int | None = None, superseded: bool = False) -> list[Fact]:
        return [Fact("1", "text", source="learned", confidence=0.6, superseded=superseded, owner=caller.user)][:limit]

    def memory_step(self, call: ModelRequest, facts: Sequence[str]) -> str:
        return f"{call.model}: {list(facts)}"

    def outcome_of(self, error: BaseException) -> Outcome | None:
        return Outcome.LIMIT if isinstance(error, RecursionError) else None

    def close(self) -> None:
        return


make: Callable[[Environment], Adapter] = Adapter

# A boundary test of one's own


@rule("users.no-foreign-memory", needs=("tools",), options={"window": 2})
def test_a_script_of_ones_own(stage: Stage) -> None:
    alice, bob = stage.callers(2)
    word = stage.canary()
    told = stage.turn(alice, f"Order {word}?", says=[use_tool(word), "Shipped."], tool_returns=["shipped"])
    assert_type(told, TurnResult)
    assert_type(told.outcome, Outcome)
    stage.turn(bob, "Which order?", blocks="output", expect=(Outcome.BLOCKED, Outcome.REFUSED))
    stage.stream(alice, "Which order?", leave_after=1)
    running = stage.start(alice, "Which order?")
    running.result()
    record = stage.add(alice, f"Ordered {word}.")
    stage.update(alice, record, "Ordered nothing.")
    assert_type(stage.facts(alice, limit=3), tuple[Fact, ...])
    assert_type(stage.get(alice, record), Fact | None)
    assert_type(stage.search(alice, "order"), tuple[str, ...])
    assert_type(stage.forget(alice), int)
    with stage.hold("model") as held:
        held.release()
    other = stage.process()
    other.turn(alice, "Which order?")
    stage.expect("users.own-memory-recalled", told, word)
    stage.turn("alice", "Hello.")  # type: ignore[arg-type]
    stage.turn(alice, "Hello.", fails="nowhere")  # type: ignore[arg-type]


def what_a_history_tells(history: History, finding: Finding) -> None:
    for call in history.answers():
        assert_type(call.prompt, Prompt)
        assert_type(call.prompt.text, str)
        assert_type(call.exact, bool)
    assert_type(finding.verdict, Verdict)
    assert_type(RULES["users.no-foreign-memory"], Rule)


# Stores and errors


def a_store_is_opened_by_its_place() -> FactStore:
    store = open_store("memory.db")
    assert_type(store.newest(Scope(Level.USER, "ann"), 50), list[Record])
    return store


def errors_are_of_two_kinds(violation: BoundaryViolation, error: UsageError) -> tuple[AssertionError, MemtraceError]:
    assert_type(violation.rule, str)
    assert_type(violation.evidence, tuple[str, ...])
    return violation, error
