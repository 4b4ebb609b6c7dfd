from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace

import pytest
from opentelemetry import metrics, trace
from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, attach, detach, get_current, set_value
from opentelemetry.metrics import _internal as metrics_module
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode
from spans_seen import ALICE, KEY, Seen, fact

import memtrace
from memtrace import capture, identity, semconv, tracing
from memtrace.errors import StoreError, UsageError
from memtrace.identity import IdKey
from memtrace.model import Author, Level, Message, Outcome, Scope, ToolCall
from memtrace.tracing import Tracing, own

CANARY = "swordfish"
PROMPT = [Message(Author.SYSTEM, "Be kind."), Message(Author.USER, CANARY)]


@pytest.fixture(autouse=True)
def _id_key(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("MEMTRACE_ID_KEY", KEY)
    identity.id_key.cache_clear()
    capture._told.cache_clear()
    yield
    identity.id_key.cache_clear()


@pytest.fixture
def seen() -> Seen:
    """Someone else's provider."""
    return Seen()


@pytest.fixture
def ours() -> Seen:
    return Seen(owned=True)


def digest(kind: identity.IdKind, value: str) -> str:
    return IdKey(KEY.encode()).digest(kind, value)


def read_everything(seen: Seen) -> None:
    """A turn that says all there is to say, with the canary wherever someone's words or ids can be."""
    scope = Scope(Level.USER, CANARY, CANARY)
    with seen.tracing.turn("pet-shop", user=CANARY, session=CANARY, label=CANARY) as turn:
        turn.requester(CANARY)
        with seen.tracing.read(CANARY, scope=scope) as read:
            with read.block("facts", type="facts", scope=scope, query=CANARY) as block:
                block.rendered(
                    [replace(fact(CANARY, 7), scope=scope), Message(Author.USER, CANARY), CANARY], scores=[0.25, 0, 0]
                )
            read.messages(3)
        with seen.tracing.model_call("m", [*PROMPT, {"role": "user", "content": CANARY}], system=CANARY) as call:
            call.replied(CANARY, tool_calls=[ToolCall(CANARY, CANARY, CANARY)])
        with suppress(ValueError), seen.tracing.tool("lookup", CANARY):
            raise ValueError(CANARY)
        for operation in ("persist", "update", "forget"):
            with seen.tracing.write(operation=operation, scope=scope) as write:
                write.stored(1, action="stored", records=[fact(CANARY, 7)])
        with seen.tracing.read(CANARY, operation="retrieve", scope=scope) as retrieve:
            retrieve.rendered([fact(CANARY, 7)])
        with seen.tracing.write() as write, write.block("facts", type="learning", scope=scope) as block:
            block.stored(1, action="extracted_facts", author=Author.USER, records=[fact(CANARY, 7)])


class TestTree:
    def test_blocks_are_children_of_their_read_which_is_one_of_the_turn(self, seen: Seen) -> None:
        with seen.tracing.turn("pet-shop"):
            with seen.tracing.read() as read, read.block("facts", type="facts"):
                pass
            with seen.tracing.model_call("m", PROMPT), seen.tracer.start_as_current_span("http"):
                pass
        assert seen.parents() == {
            "memory.read.facts": "memory.read",
            "memory.read": "invoke_agent pet-shop",
            "http": "chat m",
            "chat m": "invoke_agent pet-shop",
            "invoke_agent pet-shop": "",
        }

    def test_a_block_lasts_as_long_as_its_work(self, seen: Seen) -> None:
        with seen.tracing.read() as read, read.block("facts"), seen.tracer.start_as_current_span("work"):
            pass
        work, block, parent = seen.spans
        assert parent.start_time <= block.start_time <= work.start_time
        assert work.end_time <= block.end_time <= parent.end_time

    def test_model_calls_are_client_spans_and_the_rest_is_internal(self, seen: Seen) -> None:
        read_everything(seen)
        assert {span.name for span in seen.spans if span.kind is SpanKind.CLIENT} == {"chat m"}

    def test_a_thread_with_a_copied_context_stays_in_the_tree(self, seen: Seen) -> None:
        def work() -> None:
            with seen.tracing.read():
                pass

        with seen.tracing.turn("a"):
            threads = [threading.Thread(target=copy_context().run, args=(work,)) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        assert seen.names == ["memory.read"] * 3 + ["invoke_agent a"]
        assert seen.parents() == {"memory.read": "invoke_agent a", "invoke_agent a": ""}

    def test_concurrent_tasks_do_not_become_each_others_parents(self, seen: Seen) -> None:
        async def turn(name: str, first: asyncio.Event, second: asyncio.Event) -> None:
            with seen.tracing.turn(name):
                first.set()
                await second.wait()
                with seen.tracing.model_call(name, PROMPT):
                    await asyncio.sleep(0)

        async def main() -> None:
            one, two = asyncio.Event(), asyncio.Event()
            await asyncio.gather(turn("a", one, two), turn("b", two, one))

        asyncio.run(main())
        assert seen.parents() == {
            "invoke_agent a": "",
            "invoke_agent b": "",
            "chat a": "invoke_agent a",
            "chat b": "invoke_agent b",
        }

    def test_the_context_is_as_before_when_a_span_is_left(self, seen: Seen) -> None:
        before = get_current()
        with seen.tracing.turn("a"), suppress(KeyError), seen.tracing.read():
            raise KeyError
        assert get_current() is before

    def test_the_span_can_be_named_by_what_it_wrote(self, seen: Seen) -> None:
        with seen.tracing.write(operation="persist") as write:
            pass
        context = seen.one("memory.persist").context
        assert (write.trace_id, write.span_id) == (f"{context.trace_id:032x}", f"{context.span_id:016x}")


class TestEndings:
    def test_a_failed_read_is_not_an_empty_one(self, seen: Seen) -> None:
        with pytest.raises(StoreError), seen.tracing.read() as read, read.block("facts", type="facts"):
            raise StoreError("down")
        for span in seen.spans:
            assert span.status.status_code is StatusCode.ERROR
            assert span.attributes["error.type"] == "memtrace.errors.StoreError"
            assert "memory.rendered_count" not in span.attributes

    def test_a_failure_that_is_dealt_with_inside_shows_all_the_same(self, seen: Seen) -> None:
        with seen.tracing.read() as read, read.block("facts", type="facts") as block:
            block.failed(TimeoutError("slow"))
        assert seen.one("memory.read.facts").status.status_code is StatusCode.ERROR
        assert seen.said("memory.read.facts")["error.type"] == "TimeoutError"
        assert seen.one("memory.read").status.status_code is StatusCode.UNSET
        assert {"gen_ai.operation.name": "search_memory", "error.type": "TimeoutError"} in seen.durations()

    def test_an_empty_read_is_no_failure(self, seen: Seen) -> None:
        with seen.tracing.read() as read, read.block("facts", type="facts") as block:
            block.rendered([])
        assert seen.one("memory.read.facts").status.status_code is StatusCode.UNSET
        assert seen.said("memory.read.facts")["memory.rendered_count"] == 0

    @pytest.mark.parametrize(
        ("error", "outcome"),
        [(GeneratorExit(), "abandoned"), (asyncio.CancelledError(), "cancelled"), (KeyboardInterrupt(), "cancelled")],
    )
    def test_leaving_early_is_an_outcome_and_no_error(self, seen: Seen, error: BaseException, outcome: str) -> None:
        with pytest.raises(type(error)), seen.tracing.turn("a"), seen.tracing.model_call("m", PROMPT):
            raise error
        for span in seen.spans:
            assert span.status.status_code is StatusCode.UNSET
            assert span.attributes["memtrace.outcome"] == outcome
            assert "error.type" not in span.attributes

    def test_a_turn_says_how_it_ended(self, seen: Seen) -> None:
        with seen.tracing.turn("plain"):
            pass
        with suppress(ValueError), seen.tracing.turn("raising"):
            raise ValueError
        with suppress(ValueError), seen.tracing.turn("blocked") as turn:
            turn.outcome(Outcome.BLOCKED)
            raise ValueError
        with seen.tracing.turn("paused") as turn:
            turn.outcome(Outcome.PAUSED)
        with suppress(GeneratorExit), seen.tracing.turn("done") as turn:
            turn.outcome(Outcome.OK)
            raise GeneratorExit
        assert [span.attributes["memtrace.outcome"] for span in seen.spans] == [
            "ok",
            "failed",
            "blocked",
            "paused",
            "ok",
        ]

    def test_the_same_exception_reaches_the_caller(self, seen: Seen) -> None:
        error = ValueError("x")
        with pytest.raises(ValueError, match="x") as caught, seen.tracing.turn("a"), seen.tracing.read():
            raise error
        assert caught.value is error

    def test_what_is_told_after_the_end_is_too_late(self, seen: Seen, caplog: pytest.LogCaptureFixture) -> None:
        with seen.tracing.read() as read:
            pass
        read.rendered(["a"])
        read.failed(ValueError())
        assert not read.recording
        assert read.trace_id
        assert "memory.rendered_count" not in seen.said("memory.read")
        assert caplog.records == []

    def test_a_span_left_in_another_context_ends_once_and_in_silence(
        self, seen: Seen, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def stream() -> AsyncIterator[str]:
            with seen.tracing.turn("a"), seen.tracing.read():
                yield "one"
                yield "two"

        async def main() -> None:
            async for _ in stream():
                break
            await asyncio.sleep(0)

        asyncio.run(main())
        assert sorted(seen.names) == ["invoke_agent a", "memory.read"]
        assert {span.attributes["memtrace.outcome"] for span in seen.spans} == {"abandoned"}
        assert caplog.records == []

    def test_a_span_left_in_another_thread_leaves_that_threads_context_alone(
        self, seen: Seen, caplog: pytest.LogCaptureFixture
    ) -> None:
        span = seen.tracing.turn("a")
        copy_context().run(span.__enter__)
        kept = []

        def leave() -> None:
            with seen.tracing.turn("b"):
                span.__exit__(None, None, None)
                kept.append(trace.get_current_span())

        thread = threading.Thread(target=leave)
        thread.start()
        thread.join()
        assert seen.names == ["invoke_agent a", "invoke_agent b"]
        assert kept[0].get_span_context() == seen.one("invoke_agent b").context
        assert caplog.records == []


class TestLinks:
    def test_a_rendered_record_links_to_the_span_that_wrote_it(self, seen: Seen) -> None:
        with seen.tracing.write(operation="persist") as write:
            pass
        record = fact("likes tea", 1, (write.trace_id, write.span_id))
        with seen.tracing.read() as read, read.block("facts", type="facts") as block:
            block.rendered([record])
        (link,) = seen.one("memory.read.facts").links
        wrote = seen.one("memory.persist").context
        assert (link.context.trace_id, link.context.span_id) == (wrote.trace_id, wrote.span_id)
        assert link.context.is_remote

    def test_each_writer_is_linked_once_and_none_is_made_up(self, seen: Seen) -> None:
        writer, other = ("ab" * 16, "cd" * 8), ("ab" * 16, "ef" * 8)
        records = [
            fact("d", 4),
            fact("e", 5, ("ab" * 16, "")),
            fact("a", 1, writer),
            fact("b", 2, writer),
            fact("c", 3, other),
        ]
        with seen.tracing.read(operation="retrieve") as read:
            read.rendered([*records, "a text"])
        assert [link.context.span_id for link in seen.one("memory.retrieve").links] == [
            int("cd" * 8, 16),
            int("ef" * 8, 16),
        ]

    def test_a_record_with_a_writer_that_cannot_be_read_costs_only_its_link(self, seen: Seen) -> None:
        with seen.tracing.read(operation="retrieve") as read:
            read.rendered([fact("a", 1, ("not hex", "either"))])
        assert seen.one("memory.retrieve").links == ()
        assert seen.said("memory.retrieve")["memory.rendered_count"] == 1


class TestSaid:
    def test_a_read_says_what_the_seed_pages_ask_for(self, ours: Seen) -> None:
        with ours.tracing.read("tea?") as read:
            with read.block("facts.user", type="facts", scope=ALICE) as block:
                block.rendered([fact("likes tea", 7), "x" * 300], scores=[0.75, float("nan")], deduped=2)
            with read.block("window", type="window") as block:
                block.rendered(PROMPT)
            read.messages(3)
        block, read_span = ours.said("memory.read.facts.user"), ours.said("memory.read")
        assert block == {
            "memory.operation": "read",
            "memory.block_name": "facts.user",
            "memory.block_type": "facts",
            "memory.scope": "user",
            "memory.tier": "user",
            "memory.scope_id": "alice",
            "memory.project_id": "shop",
            "memtrace.owner.digest": digest("user", "alice"),
            "memtrace.digest.key_id": IdKey(KEY.encode()).id,
            "memory.rendered_count": 2,
            "memory.deduped_count": 2,
            "memory.snippets": json.dumps(["likes tea", "x" * 200]),
            "memory.scores": "[0.75, null]",
            "memtrace.record.digests": (digest("record", "7"),),
            "gen_ai.operation.name": "search_memory",
            "gen_ai.memory.record.count": 2,
            "gen_ai.memory.records": json.dumps(
                [{"content": "likes tea", "id": "7", "score": 0.75}, {"content": "x" * 300, "score": None}]
            ),
        }
        assert read_span == {
            "memory.operation": "read",
            "memory.query": "tea?",
            "memory.block_count": 2,
            "memory.message_count": 3,
        }

    def test_fifty_snippets_are_enough(self, ours: Seen) -> None:
        with ours.tracing.read(operation="retrieve") as read:
            read.rendered([f"fact {n}" for n in range(60)])
        assert len(json.loads(ours.said("memory.retrieve")["memory.snippets"])) == 50
        assert ours.said("memory.retrieve")["memory.rendered_count"] == 60

    def test_only_the_span_that_reaches_the_store_is_a_store_operation(self, ours: Seen) -> None:
        read_everything(ours)
        with ours.tracing.read() as read:
            with read.block("window", type="window") as block:
                block.rendered(PROMPT)
            with read.block("examples", type="few_shot", store=True):
                pass
        with ours.tracing.write() as write, write.block("summary", type="summary"):
            pass
        operations = [(span.name, span.attributes.get("gen_ai.operation.name")) for span in ours.spans]
        assert [pair for pair in operations if pair[0].startswith("memory.")] == [
            ("memory.read.facts", "search_memory"),
            ("memory.read", None),
            ("memory.persist", "create_memory"),
            ("memory.update", "update_memory"),
            ("memory.forget", "delete_memory"),
            ("memory.retrieve", "search_memory"),
            ("memory.write.facts", "upsert_memory"),
            ("memory.write", None),
            ("memory.read.window", None),
            ("memory.read.examples", "search_memory"),
            ("memory.read", None),
            ("memory.write.summary", None),
            ("memory.write", None),
        ]
        window = ours.said("memory.read.window")
        assert not [name for name in window if name.startswith("gen_ai.")]

    def test_a_read_and_a_write_without_blocks_are_the_store_operations(self, ours: Seen) -> None:
        with ours.tracing.read("tea?") as read:
            read.rendered(["a"])
        with ours.tracing.write() as write:
            write.stored(2)
            write.messages(2)
        read_said, write_said = ours.said("memory.read"), ours.said("memory.write")
        assert read_said["gen_ai.operation.name"] == "search_memory"
        assert read_said["gen_ai.memory.query.text"] == read_said["memory.query"] == "tea?"
        assert read_said["gen_ai.memory.record.count"] == 1
        assert write_said["gen_ai.operation.name"] == "upsert_memory"
        assert write_said["gen_ai.memory.record.count"] == write_said["memory.count"] == 2
        assert write_said["memory.messages_added"] == 2

    def test_a_scope_told_inside_is_the_one_that_is_said(self, ours: Seen) -> None:
        with ours.tracing.write(operation="persist") as write:
            write.scope(Scope(Level.AGENT, "pet-shop"))
        said = ours.said("memory.persist")
        assert (said["memory.scope"], said["memory.tier"], said["memory.scope_id"]) == ("agent", "global", "pet-shop")

    def test_curated_facts_say_how_fresh_they_are(self, seen: Seen) -> None:
        with seen.tracing.read() as read, read.block("plane", type="plane") as block:
            block.freshness("stale")
        assert seen.said("memory.read.plane")["memtrace.freshness"] == "stale"

    def test_the_prompt_is_recorded_in_both_forms(self, ours: Seen) -> None:
        asked = ToolCall("c1", "lookup", '{"q":"tea"}')
        messages = [*PROMPT, Message(Author.ASSISTANT, "", (asked,)), Message(Author.TOOL, "green", tool_call_id="c1")]
        with ours.tracing.model_call("gpt", messages, provider="openai") as call:
            call.replied("Tea.", tool_calls=[asked], finish="tool_calls", input_tokens=9, output_tokens=2)
        said = ours.said("chat gpt")
        function = {"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": '{"q":"tea"}'}}
        part = {"type": "tool_call", "id": "c1", "name": "lookup", "arguments": '{"q":"tea"}'}
        assert json.loads(said.pop("gen_ai.request.messages")) == [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": CANARY},
            {"role": "assistant", "content": "", "tool_calls": [function]},
            {"role": "tool", "content": "green", "tool_call_id": "c1"},
        ]
        assert json.loads(said.pop("gen_ai.input.messages")) == [
            {"role": "system", "parts": [{"type": "text", "content": "Be kind."}]},
            {"role": "user", "parts": [{"type": "text", "content": CANARY}]},
            {"role": "assistant", "parts": [part]},
            {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "green"}]},
        ]
        assert json.loads(said.pop("gen_ai.output.messages")) == [
            {"role": "assistant", "parts": [{"type": "text", "content": "Tea."}, part], "finish_reason": "tool_calls"}
        ]
        assert said == {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": "gpt",
            "gen_ai.provider.name": "openai",
            "gen_ai.response.finish_reasons": ("tool_calls",),
            "gen_ai.usage.input_tokens": 9,
            "gen_ai.usage.output_tokens": 2,
            "memtrace.purpose": "answer",
        }

    def test_instructions_apart_from_the_messages_are_the_standards_system_instructions(self, ours: Seen) -> None:
        with ours.tracing.model_call("m", "hello", system="Be kind."):
            pass
        said = ours.said("chat m")
        assert json.loads(said["gen_ai.system_instructions"]) == [{"type": "text", "content": "Be kind."}]
        assert [m["role"] for m in json.loads(said["gen_ai.input.messages"])] == ["user"]
        assert [m["role"] for m in json.loads(said["gen_ai.request.messages"])] == ["system", "user"]

    def test_the_prompt_is_what_it_was_when_the_call_began(self, ours: Seen) -> None:
        messages = list(PROMPT)
        with ours.tracing.model_call("m", messages):
            messages.clear()
        assert len(json.loads(ours.said("chat m")["gen_ai.request.messages"])) == 2

    def test_half_a_character_does_not_spoil_the_prompt(self, ours: Seen) -> None:
        with ours.tracing.model_call("m", "\ud83d"):
            pass
        ours.said("chat m")["gen_ai.request.messages"].encode()

    def test_purposes_and_tools_are_named(self, ours: Seen) -> None:
        with ours.tracing.model_call("m", PROMPT, purpose="extraction"), ours.tracing.tool("lookup", "c1"):
            pass
        assert ours.said("chat m")["memtrace.purpose"] == "extraction"
        assert ours.said("execute_tool lookup") == {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "lookup",
            "gen_ai.tool.call.id": "c1",
        }

    def test_owner_and_requester_can_be_compared(self, seen: Seen) -> None:
        with seen.tracing.turn("a") as turn:
            turn.requester("alice")
            with seen.tracing.read(scope=ALICE):
                pass
        assert (
            seen.said("invoke_agent a")["memtrace.requester.digest"]
            == seen.said("memory.read")["memtrace.owner.digest"]
        )


class TestContent:
    def test_an_owned_provider_is_told_everything(self, ours: Seen) -> None:
        read_everything(ours)
        for span in ours.spans:
            assert span.name == "memory.write" or CANARY in span.to_json(), span.name
        assert ours.said("invoke_agent pet-shop")["memtrace.turn"] == CANARY
        assert ours.said("invoke_agent pet-shop")["user.id"] == CANARY
        assert ours.said("invoke_agent pet-shop")["gen_ai.conversation.id"] == CANARY

    def test_anyone_elses_gets_counts_and_digests_and_no_word_or_id(self, seen: Seen) -> None:
        read_everything(seen)
        exported = seen.exported()
        assert CANARY not in exported
        assert "Be kind." not in exported
        assert json.dumps(0.25) not in exported
        said = seen.said("memory.read.facts")
        assert said["memory.rendered_count"] == 3
        assert said["memtrace.owner.digest"] == digest("user", CANARY)
        assert said["memtrace.record.digests"] == (digest("record", "7"),)
        assert seen.said("execute_tool lookup")["error.type"] == "ValueError"
        assert seen.said("invoke_agent pet-shop")["memtrace.requester.digest"] == digest("user", CANARY)

    def test_an_exceptions_message_stays_off_anyone_elses_spans(self, seen: Seen, ours: Seen) -> None:
        for one in (seen, ours):
            with suppress(ValueError), one.tracing.turn("a"):
                raise ValueError(CANARY)
        assert seen.spans[0].events == ()
        assert seen.spans[0].status.description is None
        assert ours.spans[0].events[0].attributes["exception.message"] == CANARY

    @pytest.mark.parametrize("mode", ["SPAN_ONLY", "span_and_event"])
    def test_the_environment_can_opt_in(self, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
        monkeypatch.setenv(capture.CAPTURE_VARIABLE, mode)
        seen = Seen()
        read_everything(seen)
        assert CANARY in seen.said("chat m")["gen_ai.request.messages"]

    @pytest.mark.parametrize("mode", ["", "NO_CONTENT", "event_only", "true", "1"])
    def test_nothing_else_opts_in(
        self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, mode: str
    ) -> None:
        monkeypatch.setenv(capture.CAPTURE_VARIABLE, mode)
        capture._opted_in.cache_clear()
        for _ in range(2):
            seen = Seen()
            read_everything(seen)
            assert CANARY not in seen.exported()
        assert len(caplog.records) == (1 if mode in ("true", "1") else 0)

    def test_a_provider_may_be_marked_after_the_first_span(self, seen: Seen) -> None:
        for _ in range(2):
            with seen.tracing.read("tea?"):
                pass
            own(seen.provider)
        assert ["memory.query" in span.attributes for span in seen.spans] == [False, True]

    def test_what_is_told_outright_wins(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(capture.CAPTURE_VARIABLE, "SPAN_ONLY")
        told_no = Seen(content=False)
        read_everything(told_no)
        assert CANARY not in told_no.exported()
        monkeypatch.delenv(capture.CAPTURE_VARIABLE)
        told_yes, told_no = Seen(content=True), Seen(owned=True, content=False)
        read_everything(told_yes)
        read_everything(told_no)
        assert CANARY in told_yes.exported()
        assert CANARY not in told_no.exported()

    def test_the_stand_in_for_a_provider_cannot_be_marked(self) -> None:
        with pytest.raises(UsageError, match="needs the provider itself"):
            own(trace.ProxyTracerProvider())

    def test_an_unusable_key_leaves_ids_off(self, monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
        monkeypatch.setattr(capture, "id_key", lambda: None)
        read_everything(seen)
        assert not [name for span in seen.spans for name in span.attributes if "digest" in name]
        assert seen.said("memory.read.facts")["memory.rendered_count"] == 3


class TestDurations:
    def test_each_store_operation_and_model_call_counts_once(self, seen: Seen) -> None:
        read_everything(seen)
        assert seen.durations() == [
            {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"},
            {"gen_ai.operation.name": "create_memory"},
            {"gen_ai.operation.name": "delete_memory"},
            {"gen_ai.operation.name": "search_memory"},
            {"gen_ai.operation.name": "search_memory"},
            {"gen_ai.operation.name": "update_memory"},
            {"gen_ai.operation.name": "upsert_memory"},
        ]

    def test_the_metric_is_the_standards(self, seen: Seen) -> None:
        with seen.tracing.read():
            pass
        (metric,) = seen.reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
        assert (metric.name, metric.unit) == ("gen_ai.client.operation.duration", "s")
        assert metric.data.data_points[0].explicit_bounds == semconv.DURATION_BUCKETS

    def test_failures_are_counted_as_such_and_departures_are_not(self, seen: Seen) -> None:
        for error in (ValueError(), GeneratorExit()):
            with suppress(ValueError, GeneratorExit), seen.tracing.model_call("m", ()):
                raise error
        counted = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
        assert seen.durations() == [{"error.type": "ValueError", **counted}, counted]

    def test_what_is_not_sampled_is_counted(self) -> None:
        seen = Seen(sampler=ALWAYS_OFF)
        with seen.tracing.read() as read, read.block("facts", type="facts"):
            pass
        assert seen.durations() == [{"gen_ai.operation.name": "search_memory"}]

    def test_durations_are_counted_where_only_a_meter_is_set(self, monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
        alone = Tracing(meter_provider=seen.tracing._meter_provider)
        with alone.read() as read:
            read.rendered(["a"])
        assert seen.durations() == [{"gen_ai.operation.name": "search_memory"}]
        assert read.trace_id == ""


class TestNothingToDo:
    def test_unsampled_spans_do_no_work_on_content(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen = Seen(owned=True, sampler=ALWAYS_OFF)
        worked = []
        for name in ("prompt", "reply", "snippets", "records", "identify", "describe_scope", "text_of", "numbers"):
            monkeypatch.setattr(capture, name, lambda *_, name=name, **__: worked.append(name))
        read_everything(seen)
        assert worked == []
        recording = Seen(owned=True)
        read_everything(recording)
        assert {"prompt", "reply", "snippets", "records", "identify", "describe_scope"} <= set(worked)

    def test_unsampled_spans_have_no_ids_to_be_named_by(self) -> None:
        seen = Seen(sampler=ALWAYS_OFF)
        with seen.tracing.turn("a") as turn:
            assert (turn.trace_id, turn.span_id, turn.recording) == ("", "", False)
            assert trace.get_current_span().get_span_context().is_valid

    def test_suppressed_instrumentation_makes_neither_spans_nor_durations(self, seen: Seen) -> None:
        for key in (_SUPPRESS_INSTRUMENTATION_KEY, "suppress_instrumentation"):
            token = attach(set_value(key, True))
            read_everything(seen)
            detach(token)
        assert seen.spans == ()
        assert seen.durations() == []

    def test_without_providers_every_call_returns_one_object_that_does_nothing(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
        monkeypatch.setattr(metrics_module, "_METER_PROVIDER", None)
        nothing = Tracing()
        before = get_current()
        assert nothing.read("a") is nothing.read("b", scope=ALICE)
        with nothing.turn("a") as turn, nothing.read() as read, read.block("facts") as block, nothing.tool("t"):
            assert get_current() is before
            block.rendered(["a"])
            turn.outcome(Outcome.FAILED)
            block.failed(ValueError())
        with nothing.write() as write, nothing.model_call("m", PROMPT) as call:
            write.stored(1)
            call.replied("a")
        assert {name for span in (turn, read, block, write, call) for name in (span.trace_id, span.span_id)} == {""}
        assert turn._outcome is None
        assert block._error is None
        assert read._blocks == 0

    def test_a_provider_set_later_is_followed(self, monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
        monkeypatch.setattr(metrics_module, "_METER_PROVIDER", None)
        default = Tracing(tracer_provider=trace.get_tracer_provider())
        with default.read():
            pass
        monkeypatch.setattr(trace, "_TRACER_PROVIDER", seen.provider)
        with default.read("tea?"):
            pass
        own(seen.provider)
        with default.read("tea?"):
            pass
        assert ["memory.query" in span.attributes for span in seen.spans] == [False, True]

    def test_the_names_the_fast_path_looks_at_are_there(self) -> None:
        assert hasattr(trace, "_TRACER_PROVIDER")
        assert hasattr(metrics_module, "_METER_PROVIDER")

    def test_without_those_names_it_is_only_slower(self, monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
        monkeypatch.delattr(trace, "_TRACER_PROVIDER")
        monkeypatch.delattr(metrics_module, "_METER_PROVIDER")
        monkeypatch.setattr(metrics, "get_meter_provider", metrics.NoOpMeterProvider)
        monkeypatch.setattr(trace, "get_tracer_provider", trace.ProxyTracerProvider)
        default = Tracing()
        assert default.outlet() is None
        monkeypatch.setattr(trace, "get_tracer_provider", lambda: seen.provider)
        with default.read():
            pass
        assert seen.names == ["memory.read"]

    def test_a_provider_that_makes_no_spans_costs_nothing(self) -> None:
        assert (
            Tracing(tracer_provider=trace.NoOpTracerProvider(), meter_provider=metrics.NoOpMeterProvider()).outlet()
            is None
        )


class Hostile(str):
    """Text that objects to being looked at."""

    __slots__ = ()

    def _refuse(self, *_: object) -> str:
        raise RuntimeError(CANARY)

    __str__ = __format__ = __getitem__ = __len__ = __repr__ = encode = __bool__ = __hash__ = __eq__ = _refuse  # type: ignore[assignment]


class Unreadable:
    def __getattr__(self, name: str) -> object:
        raise RuntimeError(CANARY)


class TestTelemetryNeverBreaksTheApplication:
    def test_content_that_cannot_be_recorded_is_left_out(self, ours: Seen, caplog: pytest.LogCaptureFixture) -> None:
        hostile, unreadable = Hostile("x"), Unreadable()
        with ours.tracing.turn("a", user=hostile) as turn:
            turn.requester(hostile)
            with ours.tracing.read(hostile, scope=Scope(Level.USER, hostile)) as read:
                with read.block("facts", type="facts", scope=Scope(unreadable, hostile), query=hostile) as block:
                    block.rendered([hostile, unreadable, fact("a", 1)], scores=[object()])
                    block.rendered(unreadable, scores=unreadable, deduped=unreadable)
                read.messages(object())
            with ours.tracing.model_call("m", [{"content": object()}, unreadable]) as call:
                call.replied(unreadable, tool_calls=unreadable, finish=hostile)
            with ours.tracing.model_call(hostile, unreadable, system=unreadable) as call:
                call.replied(object())
            with ours.tracing.write() as write:
                write.stored(unreadable, records=unreadable, author=unreadable)
        assert {"invoke_agent a", "memory.read", "memory.read.facts", "chat m", "memory.write"} <= set(ours.names)
        assert all(span.end_time for span in ours.spans)
        assert trace.get_current_span() is trace.INVALID_SPAN
        assert ours.said("memory.read.facts")["gen_ai.memory.query.text"] == "x"
        complaints = [record.getMessage() for record in caplog.records if record.name == "memtrace"]
        assert complaints
        assert CANARY not in "".join(complaints)

    def test_one_piece_that_fails_costs_no_other(self, ours: Seen) -> None:
        with ours.tracing.read(operation="retrieve", scope=ALICE) as read:
            read.rendered([Unreadable(), fact("not stored yet", 0), fact("likes tea", 7)])
        said = ours.said("memory.retrieve")
        assert said["memory.rendered_count"] == 3
        assert said["memory.scope_id"] == "alice"
        assert said["memtrace.record.digests"] == (digest("record", "7"),)

    def test_a_prompt_is_not_used_up(self, ours: Seen) -> None:
        prompt = iter(PROMPT)
        with ours.tracing.model_call("m", prompt):
            pass
        assert list(prompt) == PROMPT
        assert "gen_ai.request.messages" not in ours.said("chat m")

    @pytest.mark.parametrize("broken", ["on_start", "on_end"])
    def test_a_broken_span_processor_is_not_the_applications_trouble(
        self, broken: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail(*_: object, **__: object) -> None:
            raise OSError(CANARY)

        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(type("Broken", (SpanProcessor,), {broken: fail})())
        ran = []
        with Tracing(tracer_provider=provider).turn("a") as turn, Tracing(tracer_provider=provider).read():
            turn.outcome(Outcome.OK)
            ran.append(True)
        assert ran
        assert trace.get_current_span() is trace.INVALID_SPAN
        assert CANARY not in caplog.text

    def test_a_complaint_is_made_once(self, ours: Seen, caplog: pytest.LogCaptureFixture) -> None:
        for _ in range(3):
            with ours.tracing.model_call("m", [{"content": object()}]):
                pass
        assert len([record for record in caplog.records if record.levelno == logging.WARNING]) == 1


def test_the_public_face_is_small_and_loads_no_sdk() -> None:
    heavy = ("opentelemetry.sdk", "pytest", "sqlite3", "httpx")
    code = f"import memtrace, sys; print(sorted(memtrace.__all__), [m for m in {heavy} if m in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == f"{sorted(memtrace.__all__)} []\n"
    assert (memtrace.read, memtrace.turn) == (tracing.default.read, tracing.default.turn)
