from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from memtrace.model import Prompt
from memtrace.prompts import (
    SOURCES,
    is_memory_operation,
    is_model_call,
    memory_operation,
    read_prompt,
    read_reply,
)

WORDS = [
    *[
        "role",
        "content",
        "parts",
        "type",
        "text",
        "tool_calls",
        "function",
        "arguments",
        "name",
        "id",
        "message",
        "messages",
    ],
    *["input", "response", "result", "contents", "toolUse", "kwargs", "data", "visible", "system"],
]
SNIPPETS = [
    *("user", "tool", "text", "tool_call", "tool_call_response", "{}", "[]", "[{", "null", "__REDACTED__", "\ud800"),
    *('[{"text": "a', '{"role": "user"', '"\\u12', "1" * 5000, "[" * 3000),
]
TEXTS = st.one_of(st.text(max_size=20), st.sampled_from(SNIPPETS))
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.binary(max_size=5), TEXTS)
TREES = st.recursive(
    LEAVES,
    lambda trees: st.one_of(
        st.lists(trees, max_size=4),
        st.lists(trees, max_size=3).map(tuple),
        st.dictionaries(st.one_of(st.sampled_from(WORDS), st.text(max_size=3)), trees, max_size=5),
    ),
    max_leaves=25,
)
VALUES = st.one_of(TREES, TREES.map(lambda tree: json.dumps(tree, default=str)), TEXTS)
KEYS = st.one_of(
    st.sampled_from([source.key for source in SOURCES]),
    st.sampled_from(["gen_ai.operation.name", "openinference.span.kind", "memory.operation", "thread.id", "memory.id",
                     "gen_ai.input.messages_ref", "gen_ai.request.messages.original_length", "gen_ai.output.messages",
                     "gen_ai.response.text", "response_data", "gen_ai.memory.operation"]),
    st.builds(
        lambda prefix, path: prefix + ".".join(path),
        st.sampled_from(["llm.input_messages.", "gen_ai.prompt.", "llm.prompts.", "llm.output_messages."]),
        st.lists(st.sampled_from(["0", "1", "7", "00", "x", "", "9" * 12, *WORDS]), max_size=5),
    ),
    st.text(max_size=5),
)  # fmt: skip
ATTRIBUTES = st.dictionaries(KEYS, VALUES, max_size=8)
EVENT_NAMES = st.sampled_from(["gen_ai.user.message", "gen_ai.choice", "gen_ai.content.prompt", "other",
                               "gen_ai.client.inference.operation.details"])  # fmt: skip
EVENTS = st.lists(
    st.tuples(
        EVENT_NAMES,
        st.dictionaries(
            st.sampled_from(["content", "role", "tool_calls", "id", "gen_ai.event.content", "gen_ai.prompt", "message",
                             "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"]),
            VALUES,
            max_size=4,
        ),
    ),
    max_size=4,
)  # fmt: skip

PART = st.one_of(
    st.fixed_dictionaries({"type": st.sampled_from(["text", "reasoning", "input_text"]), "content": st.text()}),
    st.fixed_dictionaries({"type": st.just("text"), "text": st.text()}),
    st.fixed_dictionaries({"type": st.just("tool_call"), "name": st.just("n"), "arguments": TREES}),
    st.fixed_dictionaries({"type": st.just("tool_call_response"), "response": TREES}),
    st.fixed_dictionaries({"type": st.text(), "uri": st.text(min_size=1)}),
    st.fixed_dictionaries({"type": st.text(), "blob": TREES}),
)
MESSAGE = st.fixed_dictionaries(
    {"role": st.one_of(st.sampled_from(["system", "user", "assistant", "tool"]), st.text(max_size=8))},
    optional={"parts": st.lists(PART, max_size=4), "content": st.one_of(st.text(), st.lists(PART, max_size=3))},
)
LABELS = {"role", "type", "id", "name"}


class TestAnySpan:
    @settings(deadline=None, max_examples=200)
    @given(ATTRIBUTES, EVENTS, st.integers(0, 2), st.integers(0, 2), st.one_of(st.none(), st.integers(0, 30)), TEXTS)
    def test_nothing_that_a_span_holds_raises(self, attributes, events, dropped, dropped_events, limit, name):
        prompt = read_prompt(
            attributes, events=events, dropped=dropped, dropped_events=dropped_events, length_limit=limit
        )
        assert isinstance(prompt, Prompt) or (prompt is None and not dropped and not dropped_events)
        if prompt is not None:
            assert all(isinstance(message.text, str) for message in prompt.messages)
            assert not dropped or prompt.lost
        assert isinstance(read_reply(attributes, events=events), str | None)
        assert is_memory_operation(name, attributes) == (memory_operation(name, attributes) is not None)
        assert not (is_model_call(name, attributes) and is_memory_operation(name, attributes))

    @settings(deadline=None, max_examples=200)
    @given(st.lists(MESSAGE, min_size=1, max_size=4), st.booleans())
    def test_a_prompt_without_losses_holds_every_text(self, sent, as_json):
        value = json.dumps(sent, default=lambda item: item.decode("latin-1")) if as_json else sent
        prompt = read_prompt({"gen_ai.input.messages": value})
        assert prompt is not None
        if not prompt.lost:
            for text in _texts(sent):
                assert text in prompt.text or json.dumps(text, ensure_ascii=False)[1:-1] in prompt.text

    @settings(deadline=None, max_examples=100)
    @given(st.lists(MESSAGE, min_size=1, max_size=3), st.data())
    def test_json_cut_at_any_place_is_never_clean(self, sent, data):
        value = json.dumps(sent, default=lambda item: item.decode("latin-1"), ensure_ascii=data.draw(st.booleans()))
        prompt = read_prompt({"gen_ai.input.messages": value[: data.draw(st.integers(0, len(value) - 1))]})
        assert prompt is not None
        assert prompt.lost


def _texts(tree: Any) -> list[str]:
    if isinstance(tree, str):
        return [tree]
    if isinstance(tree, dict):
        return [text for key, value in tree.items() if key not in LABELS for text in _texts(value)]
    return [text for item in tree for text in _texts(item)] if isinstance(tree, list | tuple) else []
