from __future__ import annotations

import asyncio
import gc
import inspect
import json
import logging
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing, suppress
from contextvars import ContextVar, copy_context
from functools import partial, wraps
from types import SimpleNamespace
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode
from spans_seen import ALICE, KEY, Seen, fact

from memtrace import identity
from memtrace.errors import UsageError
from memtrace.model import Outcome, Reply
from memtrace.tracing import Tracing
from memtrace.wrapping import instrument, traced

NOWHERE = trace.INVALID_SPAN


@pytest.fixture(autouse=True)
def _id_key(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MEMTRACE_ID_KEY", KEY)
    identity.id_key.cache_clear()
    yield
    identity.id_key.cache_clear()


@pytest.fixture
def seen() -> Seen:
    return Seen(owned=True)


@pytest.fixture
def quiet(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """Nothing is logged: no context that could not be detached, no task that died."""
    with caplog.at_level(logging.DEBUG, "opentelemetry"):
        yield
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def current() -> str:
    return getattr(trace.get_current_span(), "name", "")


class Memory:
    """A memory as an application may have it."""

    def __init__(self) -> None:
        self.kept: list[str] = []

    def get_context(self, query: str, user_id: str = "") -> list[str]:
        return [text for text in self.kept if query in text]

    def add_turn(self, user_id: str, text: str) -> None:
        self.kept.append(text)

    @classmethod
    def empty(cls) -> Memory:
        return cls()

    @staticmethod
    def search(query: str) -> list[str]:
        return [query]


class TestInstrument:
    def test_three_lines_show_what_a_memory_does(self, seen: Seen) -> None:
        memory = Memory()
        instrument(memory, tracing=seen.tracing, read="get_context", write="add_turn")
        memory.add_turn("alice", "likes tea")
        assert memory.get_context("tea", user_id="alice") == ["likes tea"]
        read = seen.said("memory.read")
        assert seen.names == ["memory.write", "memory.read"]
        assert read["memory.query"] == "tea"
        assert read["memory.rendered_count"] == read["gen_ai.memory.record.count"] == 1
        assert read["memory.scope_id"] == seen.said("memory.write")["memory.scope_id"] == "alice"
        assert read["gen_ai.operation.name"] == "search_memory"
        assert seen.said("memory.write")["gen_ai.operation.name"] == "upsert_memory"

    def test_other_objects_of_the_class_are_left_alone(self, seen: Seen) -> None:
        instrument(Memory(), tracing=seen.tracing, read="get_context")
        Memory().get_context("tea")
        assert seen.names == []

    def test_a_class_is_instrumented_for_all_its_objects(self, seen: Seen) -> None:
        class Own(Memory):
            pass

        undo = instrument(Own, tracing=seen.tracing, read=["get_context", "search"], tool="empty")
        own = Own.empty()
        own.get_context("tea", "alice")
        assert isinstance(own, Own)
        assert Own.search("a") == own.search("a") == ["a"]
        assert seen.names == ["execute_tool empty", "memory.read", "memory.read", "memory.read"]
        undo()
        Own().get_context("tea")
        assert len(seen.names) == 4
        assert "get_context" not in vars(Own)

    def test_undoing_puts_back_what_was_there(self) -> None:
        memory = Memory()
        memory.get_context = replaced = lambda query: [query]  # type: ignore[method-assign,assignment]
        undo = instrument(memory, read="get_context", write="add_turn")
        undo()
        undo()
        assert vars(memory) == {"kept": [], "get_context": replaced}

    def test_what_is_instrumented_stays_instrumented_once(self, seen: Seen) -> None:
        memory = Memory()
        for _ in range(2):
            instrument(memory, tracing=seen.tracing, read="get_context")
        memory.get_context("tea")
        assert seen.names == ["memory.read"]

    def test_an_unknown_method_is_named_and_nothing_is_changed(self) -> None:
        memory = Memory()
        with pytest.raises(UsageError, match="write='add': this Memory has no method of that name"):
            instrument(memory, read="get_context", write="add")
        with pytest.raises(UsageError, match="no such parameter"):
            instrument(memory, read="get_context", write="add_turn", parameters={"query": "query"})
        assert vars(memory) == {"kept": []}

    def test_an_object_that_cannot_be_changed_is_told_apart(self) -> None:
        with pytest.raises(UsageError, match="does not let 'append' be replaced: instrument its class"):
            instrument([], write="append")
        with pytest.raises(UsageError, match="list does not let"):
            instrument(list, write="append")

    def test_an_unknown_operation_is_named(self) -> None:
        with pytest.raises(UsageError, match="'reed' is not an operation; it is one of read, "):
            instrument(Memory(), reed="get_context")  # type: ignore[call-arg]

    def test_a_model_client_of_the_usual_form_is_understood(self, seen: Seen) -> None:
        call = SimpleNamespace(id="c1", function=SimpleNamespace(name="look", arguments="{}"))
        message = SimpleNamespace(content="Tea.", tool_calls=[call])
        answer = SimpleNamespace(
            choices=[SimpleNamespace(message=message, finish_reason="tool_calls")],
            usage=SimpleNamespace(prompt_tokens=9, completion_tokens=2),
        )
        client = SimpleNamespace(create=lambda *, model, messages: answer)
        instrument(client, tracing=seen.tracing, model_call="create")
        prompt = [{"role": "user", "content": [{"type": "text", "text": "What?"}]}]
        assert client.create(model="gpt", messages=prompt) is answer
        said = seen.said("chat gpt")
        assert json.loads(said["gen_ai.request.messages"]) == prompt
        assert json.loads(said["gen_ai.input.messages"])[0]["parts"] == [{"type": "text", "content": "What?"}]
        assert json.loads(said["gen_ai.output.messages"])[0]["parts"][0]["content"] == "Tea."
        assert said["gen_ai.response.finish_reasons"] == ("tool_calls",)
        assert (said["gen_ai.usage.input_tokens"], said["gen_ai.usage.output_tokens"]) == (9, 2)

    def test_what_is_not_understood_is_not_made_up(self, seen: Seen) -> None:
        client = SimpleNamespace(create=lambda **_: object())
        instrument(client, tracing=seen.tracing, model_call="create")
        client.create(contents="What?")
        assert seen.said("chat") == {"gen_ai.operation.name": "chat", "memtrace.purpose": "answer"}

    def test_instructions_and_content_blocks_are_understood(self, seen: Seen) -> None:
        answer = {
            "content": [{"type": "text", "text": "Tea."}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 3},
        }
        client = SimpleNamespace(create=lambda **_: answer)
        instrument(client, tracing=seen.tracing, model_call="create", name="claude")
        client.create(system=[{"type": "text", "text": "Be kind."}], messages=[{"role": "user", "content": "What?"}])
        said = seen.said("chat claude")
        assert json.loads(said["gen_ai.system_instructions"]) == [{"type": "text", "content": "Be kind."}]
        assert json.loads(said["gen_ai.output.messages"])[0]["parts"] == [{"type": "text", "content": "Tea."}]
        assert said["gen_ai.response.finish_reasons"] == ("end_turn",)


class TestTraced:
    def test_the_wrapper_is_of_its_functions_kind(self) -> None:
        @traced("read")
        def plain() -> None: ...
        @traced("read")
        async def task() -> None: ...
        @traced("read")
        def generator() -> Iterator[int]:
            yield 1

        @traced("read")
        async def async_generator() -> AsyncIterator[int]:
            yield 1

        kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
        functions = (plain, task, generator, async_generator)
        assert [[kind(function) for kind in kinds] for function in functions] == [
            [False, False, False],
            [True, False, False],
            [False, True, False],
            [False, False, True],
        ]
        assert [function.__name__ for function in functions] == ["plain", "task", "generator", "async_generator"]

    def test_parameters_are_found_by_place_name_and_default(self, seen: Seen) -> None:
        @traced("read", tracing=seen.tracing, query="what", user="who")
        def look(limit: int, what: str = "tea", *, who: int = 0) -> list[str]:
            return []

        look(1)
        look(1, "milk", who=7)
        look(1, what="water")
        assert [span.attributes["memory.query"] for span in seen.spans] == ["tea", "milk", "water"]
        assert [span.attributes.get("memory.scope_id") for span in seen.spans] == [None, "7", None]

    def test_a_parameter_that_is_not_there_is_refused(self) -> None:
        with pytest.raises(UsageError, match=r"query='q': .*look has no such parameter"):

            @traced("read", query="q")
            def look(what: str) -> None: ...

    def test_what_is_no_id_is_not_taken_for_one(self, seen: Seen) -> None:
        @traced("read", tracing=seen.tracing)
        def look(user: object) -> None: ...

        look(object())
        look(True)
        assert not [span for span in seen.spans if "memory.scope_id" in span.attributes]

    @pytest.mark.parametrize(
        ("result", "count"),
        [
            (["a", "b"], 2),
            (("a",), 1),
            ("a", 1),
            ("", 0),
            (None, 0),
            ({"results": ["a", "b", "c"]}, 3),
            (fact("a", 1), 1),
            (7, None),
            (iter(["a"]), None),
        ],
    )
    def test_a_reads_result_is_counted_where_it_can_be(self, seen: Seen, result: object, count: int | None) -> None:
        assert traced("read", tracing=seen.tracing)(lambda: result)() is result
        assert seen.said("memory.read").get("memory.rendered_count") == count

    def test_records_that_are_written_are_named(self, seen: Seen) -> None:
        record = fact("likes tea", 7)
        traced("persist", tracing=seen.tracing)(lambda: record)()
        assert seen.said("memory.persist")["memory.count"] == 1
        assert len(seen.said("memory.persist")["memtrace.record.digests"]) == 1
        assert json.loads(seen.said("memory.persist")["gen_ai.memory.records"]) == [{"content": "likes tea", "id": "7"}]

    def test_a_turn_has_its_agents_name_and_its_replys_outcome(self, seen: Seen) -> None:
        @traced("turn", name="pet-shop", tracing=seen.tracing)
        def answer(text: str, user_id: str, session_id: str) -> Reply:
            return Reply(Outcome.LIMIT)

        answer("hi", "alice", "s1")
        said = seen.said("invoke_agent pet-shop")
        assert said["memtrace.outcome"] == "limit"
        assert (said["user.id"], said["gen_ai.conversation.id"]) == ("alice", "s1")

    def test_errors_are_the_functions_own(self, seen: Seen) -> None:
        error = ValueError("x")

        @traced("read", tracing=seen.tracing)
        def fail() -> None:
            raise error

        with pytest.raises(ValueError, match="x") as caught:
            fail()
        assert caught.value is error
        assert seen.one("memory.read").status.status_code is StatusCode.ERROR

    def test_odd_arguments_are_not_the_applications_trouble(self, seen: Seen) -> None:
        class Odd:
            def __getattr__(self, name: str) -> Any:
                raise RuntimeError

            def __bool__(self) -> bool:
                raise RuntimeError

        odd = Odd()
        for operation in ("read", "write", "model_call", "tool", "turn"):
            wrapped = traced(operation, tracing=seen.tracing)(lambda query, user, messages, model, system: query)
            assert wrapped(odd, odd, odd, odd, odd) is odd
        assert len(seen.names) == 5

        class OddName(str):
            __slots__ = ()

            def __bool__(self) -> bool:
                raise RuntimeError

        assert traced("model_call", tracing=seen.tracing)(lambda model: "answered")(OddName("m")) == "answered"

    def test_what_is_given_by_place_beyond_the_named_parameters_is_not_taken_for_one(self, seen: Seen) -> None:
        @traced("read", tracing=seen.tracing)
        def look(limit: int, *more: str, query: str = "tea") -> None: ...

        look(1, "another")
        assert seen.said("memory.read")["memory.query"] == "tea"

    def test_unsampled_results_are_not_looked_at(self) -> None:
        touched = []

        class Touchy(dict[str, str]):
            def get(self, *_: Any) -> None:
                touched.append(True)

        result = Touchy()
        for seen in (Seen(owned=True, sampler=ALWAYS_OFF), Seen(owned=True)):
            assert not touched
            assert traced("read", tracing=seen.tracing)(lambda: result)() is result
        assert touched

    def test_without_an_sdk_the_function_is_just_called(self) -> None:
        assert Tracing().outlet() is None
        assert traced("read")(lambda text: text)("a") == "a"
        assert asyncio.run(traced("read")(_returning)("a")) == "a"
        assert list(traced("read")(_counting)(2)) == [0, 1]


async def _returning(text: str) -> str:
    return text


def _counting(limit: int) -> Iterator[int]:
    yield from range(limit)


class TestCoroutines:
    def test_the_span_lasts_until_the_work_is_done(self, seen: Seen) -> None:
        @traced("read", tracing=seen.tracing)
        async def look() -> list[str]:
            await asyncio.sleep(0)
            return [current()]

        async def main() -> list[str]:
            assert current() == ""
            found = await look()
            assert current() == ""
            return found

        assert asyncio.run(main()) == ["memory.read"]
        assert seen.said("memory.read")["memory.rendered_count"] == 1

    def test_variables_set_inside_are_seen_outside_as_without_the_wrapper(self, seen: Seen) -> None:
        variable = ContextVar("variable", default="before")

        @traced("read", tracing=seen.tracing)
        async def look() -> None:
            variable.set("after")

        async def main() -> str:
            await look()
            return variable.get()

        assert asyncio.run(main()) == "after"

    def test_a_cancelled_call_is_cancelled_and_no_error(self, seen: Seen) -> None:
        @traced("model_call", name="m", tracing=seen.tracing)
        async def call() -> None:
            await asyncio.Event().wait()

        async def main() -> None:
            task = asyncio.create_task(call())
            await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

        asyncio.run(main())
        assert seen.said("chat m")["memtrace.outcome"] == "cancelled"
        assert seen.one("chat m").status.status_code is StatusCode.UNSET

    def test_a_plain_function_that_returns_a_coroutine_is_followed_to_its_end(self, seen: Seen) -> None:
        async def work() -> list[str]:
            await asyncio.sleep(0)
            return [current()]

        @wraps(work)
        def look() -> Any:
            return work()

        async def main() -> list[str]:
            waiting = traced("read", tracing=seen.tracing)(look)()
            assert (current(), seen.names) == ("", [])
            return await waiting  # type: ignore[no-any-return]

        assert asyncio.run(main()) == ["memory.read"]
        assert seen.started == seen.names == ["memory.read"]
        assert seen.said("memory.read")["memory.rendered_count"] == 1

    @pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")
    def test_a_coroutine_that_is_never_awaited_still_ends_its_span(self, seen: Seen) -> None:
        look = traced("read", tracing=seen.tracing)(lambda: _returning("a"))
        look()
        gc.collect()
        assert seen.said("memory.read")["memtrace.outcome"] == "abandoned"


class TestGenerators:
    def test_the_span_is_current_inside_and_never_outside(self, seen: Seen) -> None:
        @traced("model_call", name="m", tracing=seen.tracing)
        def stream() -> Iterator[str]:
            yield current()
            with seen.tracer.start_as_current_span("inner"):
                yield current()
            yield current()

        outside = []
        inside = []
        for piece in stream():
            inside.append(piece)
            outside.append(current())
        assert (inside, outside) == (["chat m", "inner", "chat m"], ["", "", ""])
        assert seen.parents() == {"inner": "chat m", "chat m": ""}

    def test_what_was_streamed_is_the_reply(self, seen: Seen) -> None:
        @traced("model_call", name="m", tracing=seen.tracing)
        def stream() -> Iterator[Any]:
            yield "Te"
            yield {"choices": [{"delta": {"content": "a."}, "finish_reason": None}]}
            yield {"choices": [{"delta": {}, "finish_reason": "length"}]}
            yield {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}

        assert len(list(stream())) == 4
        said = seen.said("chat m")
        assert json.loads(said["gen_ai.output.messages"])[0]["parts"] == [{"type": "text", "content": "Tea."}]
        assert said["gen_ai.response.finish_reasons"] == ("length",)
        assert said["gen_ai.usage.output_tokens"] == 2

    def test_sending_throwing_and_returning_work_as_without_the_wrapper(self, seen: Seen) -> None:
        def echo() -> Any:
            got = yield "ready"
            while got != "stop":
                try:
                    got = yield got
                except KeyError as error:
                    got = error.args[0]
            return "done"

        def drive(generator: Any) -> list[object]:
            steps = [next(generator), generator.send("a"), generator.throw(KeyError("b")), generator.send("c")]
            with pytest.raises(StopIteration) as stop:
                generator.send("stop")
            return [*steps, stop.value.value]

        assert drive(traced("tool", tracing=seen.tracing)(echo)()) == drive(echo())
        assert seen.names == ["execute_tool echo"]

    @pytest.mark.usefixtures("quiet")
    def test_one_that_is_left_early_ends_once_and_cleans_up(self, seen: Seen) -> None:
        cleaned = []

        @traced("model_call", name="m", tracing=seen.tracing)
        def stream() -> Iterator[str]:
            try:
                with seen.tracer.start_as_current_span("inner"):
                    yield "one"
                    yield "two"
            finally:
                cleaned.append(current())

        for _ in stream():
            break
        gc.collect()
        assert cleaned == ["chat m"]
        assert current() == ""
        assert seen.names == ["inner", "chat m"]
        said = seen.said("chat m")
        assert said["memtrace.outcome"] == "abandoned"
        assert json.loads(said["gen_ai.output.messages"])[0]["parts"][0]["content"] == "one"

    @pytest.mark.usefixtures("quiet")
    def test_one_may_be_stepped_and_closed_by_different_threads(self, seen: Seen) -> None:
        @traced("read", tracing=seen.tracing)
        def stream() -> Iterator[str]:
            with seen.tracer.start_as_current_span("inner"):
                while True:
                    yield current()

        stepping = stream()
        pieces = []
        for step in (lambda: pieces.append(next(stepping)), lambda: pieces.append(next(stepping)), stepping.close):
            thread = threading.Thread(target=step)
            thread.start()
            thread.join()
        assert pieces == ["inner", "inner"]
        assert seen.names == ["inner", "memory.read"]

    @pytest.mark.usefixtures("quiet")
    def test_one_in_a_cycle_of_garbage_ends_when_it_is_collected(self, seen: Seen) -> None:
        @traced("read", tracing=seen.tracing)
        def stream() -> Iterator[str]:
            with seen.tracer.start_as_current_span("inner"):
                yield "one"

        cycle: list[Any] = [stream()]
        next(cycle[0])
        cycle.append(cycle)
        del cycle
        with seen.tracing.turn("someone else's"):
            gc.collect()
            assert current() == "invoke_agent someone else's"
        assert seen.names == ["inner", "memory.read", "invoke_agent someone else's"]

    def test_one_that_is_never_stepped_has_no_span(self, seen: Seen) -> None:
        traced("read", tracing=seen.tracing)(_counting)(3).close()  # type: ignore[attr-defined]
        assert seen.names == []

    def test_two_at_once_do_not_mix(self, seen: Seen) -> None:
        @traced("tool", tracing=seen.tracing)
        def stream(name: str) -> Iterator[str]:
            with seen.tracer.start_as_current_span(name):
                yield current()
                yield current()

        pairs = list(zip(stream("a"), stream("b"), strict=True))
        assert pairs == [("a", "b"), ("a", "b")]
        parents = [(span.name, span.parent.span_id) for span in seen.spans if span.parent]
        assert len({parent for _, parent in parents}) == 2

    def test_a_failure_inside_is_an_error_with_what_came_before(self, seen: Seen) -> None:
        @traced("read", tracing=seen.tracing)
        def stream() -> Iterator[str]:
            yield "a"
            raise ValueError

        with pytest.raises(ValueError):  # noqa: PT011  raised bare
            list(stream())
        assert seen.said("memory.read")["error.type"] == "ValueError"
        assert seen.said("memory.read")["memory.rendered_count"] == 1

    def test_one_that_a_plain_function_returns_is_followed(self, seen: Seen) -> None:
        look = traced("read", tracing=seen.tracing)(lambda: _counting(2))
        stream = look()
        assert (current(), seen.names) == ("", [])
        assert list(stream) == [0, 1]
        assert seen.started == seen.names
        assert seen.said("memory.read")["memory.rendered_count"] == 2

    def test_one_that_a_plain_function_returns_and_nobody_reads_still_ends(self, seen: Seen) -> None:
        traced("read", tracing=seen.tracing)(lambda: _counting(2))()
        gc.collect()
        assert seen.said("memory.read")["memtrace.outcome"] == "abandoned"


class TestAsyncGenerators:
    def stream(self, seen: Seen) -> Callable[[], Any]:
        @traced("model_call", name="m", tracing=seen.tracing)
        async def stream() -> AsyncIterator[str]:
            with seen.tracer.start_as_current_span("inner"):
                for _ in range(3):
                    await asyncio.sleep(0)
                    yield current()

        return stream

    def test_the_span_is_current_inside_and_never_outside(self, seen: Seen) -> None:
        async def main() -> list[tuple[str, str]]:
            return [(piece, current()) async for piece in self.stream(seen)()]

        assert asyncio.run(main()) == [("inner", "")] * 3
        assert seen.parents() == {"inner": "chat m", "chat m": ""}

    @pytest.mark.usefixtures("quiet")
    def test_one_that_is_left_early_ends_once_in_whatever_task_closes_it(self, seen: Seen) -> None:
        async def main() -> str:
            async for _ in self.stream(seen)():
                break
            gc.collect()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            with seen.tracing.turn("next"):
                pass
            return current()

        assert asyncio.run(main()) == ""
        assert seen.names == ["inner", "chat m", "invoke_agent next"]
        assert seen.parents()["invoke_agent next"] == ""
        assert seen.said("chat m")["memtrace.outcome"] == "abandoned"

    @pytest.mark.usefixtures("quiet")
    def test_one_that_outlives_its_loop_ends_with_it(self, seen: Seen) -> None:
        kept = []

        async def main() -> None:
            stream = self.stream(seen)()
            kept.append(stream)
            await anext(stream)

        asyncio.run(main())
        assert seen.names == ["inner", "chat m"]

    @pytest.mark.usefixtures("quiet")
    def test_each_step_and_the_closing_may_be_another_tasks(self, seen: Seen) -> None:
        async def main() -> None:
            stream = self.stream(seen)()
            assert await asyncio.create_task(anext(stream)) == "inner"
            assert await asyncio.create_task(anext(stream)) == "inner"
            await asyncio.create_task(stream.aclose())

        asyncio.run(main())
        assert seen.names == ["inner", "chat m"]

    def test_the_event_loop_hears_of_the_wrapper_only(self, seen: Seen) -> None:
        """It closes each generator it has heard of, when it ends, in a task and context of its own choosing."""
        known: list[Any] = []

        async def main() -> Any:
            stream = self.stream(seen)()
            before = sys.get_asyncgen_hooks()
            sys.set_asyncgen_hooks(firstiter=known.append)
            await anext(stream)
            sys.set_asyncgen_hooks(*before)
            await stream.aclose()
            return stream

        assert known == [asyncio.run(main())]

    def test_the_event_loop_still_hears_of_other_generators(self, seen: Seen) -> None:
        async def main() -> bool:
            before = sys.get_asyncgen_hooks()
            async for _ in self.stream(seen)():
                pass
            return before == sys.get_asyncgen_hooks() and before.finalizer is not None

        assert asyncio.run(main())

    def test_cleaning_up_may_wait(self, seen: Seen) -> None:
        cleaned = []

        @traced("tool", tracing=seen.tracing)
        async def stream() -> AsyncIterator[str]:
            try:
                yield "one"
            finally:
                await asyncio.sleep(0)
                cleaned.append(current())

        async def main() -> None:
            async with aclosing(stream()) as pieces:  # type: ignore[type-var]
                async for _ in pieces:
                    break

        asyncio.run(main())
        assert cleaned == ["execute_tool stream"]

    @pytest.mark.usefixtures("quiet")
    def test_a_cancelled_step_is_cancelled_and_no_error(self, seen: Seen) -> None:
        @traced("model_call", name="m", tracing=seen.tracing)
        async def stream() -> AsyncIterator[str]:
            with seen.tracer.start_as_current_span("inner"):
                yield "one"
                await asyncio.Event().wait()

        async def consume() -> None:
            async for _ in stream():
                pass

        async def main() -> None:
            task = asyncio.create_task(consume())
            for _ in range(3):
                await asyncio.sleep(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

        asyncio.run(main())
        assert seen.said("chat m")["memtrace.outcome"] == "cancelled"
        assert seen.one("chat m").status.status_code is StatusCode.UNSET

    def test_sending_and_throwing_work_as_without_the_wrapper(self, seen: Seen) -> None:
        async def echo() -> Any:
            got = yield "ready"
            while got != "stop":
                try:
                    got = yield got
                except KeyError as error:
                    got = error.args[0]

        async def drive(generator: Any) -> list[object]:
            steps = [await anext(generator), await generator.asend("a"), await generator.athrow(KeyError("b"))]
            with pytest.raises(StopAsyncIteration):
                await generator.asend("stop")
            return steps

        async def main() -> None:
            assert await drive(traced("tool", tracing=seen.tracing)(echo)()) == await drive(echo())

        asyncio.run(main())
        assert seen.names == ["execute_tool echo"]

    def test_structured_concurrency_inside_works_in_the_same_task(self, seen: Seen) -> None:
        @traced("tool", tracing=seen.tracing)
        async def stream() -> AsyncIterator[str]:
            done: list[str] = []

            async def work() -> None:
                await anyio.lowlevel.checkpoint()
                done.append(current())

            for _ in range(2):
                async with anyio.create_task_group() as group:
                    group.start_soon(work)
                yield done[-1]

        async def main() -> list[str]:
            with anyio.fail_after(60):
                return [piece async for piece in stream()]

        assert anyio.run(main) == ["execute_tool stream"] * 2

    def test_one_that_a_function_returns_is_followed(self, seen: Seen) -> None:
        async def pieces() -> AsyncIterator[str]:
            yield current()

        async def coroutine() -> Any:
            return pieces()

        async def main() -> None:
            plain = traced("read", tracing=seen.tracing)(pieces.__call__)
            assert [piece async for piece in plain()] == ["memory.read"]
            stream = await traced("tool", tracing=seen.tracing)(coroutine)()
            assert seen.names == ["memory.read"]
            assert [piece async for piece in stream] == ["execute_tool coroutine"]

        asyncio.run(main())
        assert seen.started == seen.names == ["memory.read", "execute_tool coroutine"]


def test_a_stream_of_a_turn_is_one_tree_over_threads_and_tasks(seen: Seen) -> None:
    read = traced("read", tracing=seen.tracing)(lambda query: ["likes tea"])

    @traced("model_call", name="m", tracing=seen.tracing)
    async def model(messages: list[Any]) -> AsyncIterator[str]:
        await asyncio.create_task(asyncio.sleep(0))
        yield "Te"
        yield "a."

    @traced("turn", name="pet-shop", tracing=seen.tracing)
    async def turn(text: str, user_id: str) -> AsyncIterator[str]:
        facts = await asyncio.to_thread(read, text)
        async for piece in model([{"role": "user", "content": f"{facts} {text}"}]):
            yield piece
        write = partial(traced("write", tracing=seen.tracing)(lambda: None))
        await asyncio.get_running_loop().run_in_executor(None, copy_context().run, write)

    async def main() -> str:
        return "".join([piece async for piece in turn("tea?", ALICE.id)])

    assert asyncio.run(main()) == "Tea."
    root = "invoke_agent pet-shop"
    assert seen.parents() == {"memory.read": root, "chat m": root, "memory.write": root, root: ""}
    assert len({span.context.trace_id for span in seen.spans}) == 1
