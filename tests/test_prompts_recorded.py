from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from recorded_spans import FILES, Call, calls, calls_of, cases

from memtrace.model import Author, Message, Prompt
from memtrace.prompts import read_reply

CALLS = calls()
ANSWER = "Dobrze, it is the quokka 🦘"

CUT = {"truncated", "unreadable"}
LOSSES: dict[tuple[str, str], set[str] | None] = {
    ("agent-framework", "cut"): CUT,
    ("agent-framework", "off"): None,
    ("fastaiagent", "crowded"): {"evicted"},
    ("fastaiagent", "cut"): CUT,
    ("openai-agents", "instructions not echoed"): {"evicted"},
    ("openai-v2", "off"): {"redacted"},
    ("openinference", "crowded"): {"evicted"},
    ("openinference", "messages hidden"): {"partial"},
    ("openinference", "off"): {"redacted", "partial"},
    ("openinference", "text hidden"): {"redacted", "partial"},
    ("pydantic-ai", "cut"): CUT,
    ("pydantic-ai", "off"): {"redacted"},
    ("sentry", "parts, last only"): {"truncated"},
    ("sentry", "plain, last only"): {"truncated"},
    ("sentry", "responses, last only"): {"truncated"},
    ("sentry", "tools, last only"): {"truncated"},
    ("strands", "crowded"): {"evicted"},
    ("strands", "cut"): CUT,
    ("strands", "redacted events"): {"redacted"},
    ("strands", "redacted"): {"redacted"},
    ("traceloop", "cut"): CUT,
    ("traceloop", "off"): None,
    ("traceloop-legacy", "crowded"): {"evicted"},
    ("traceloop-legacy", "off"): None,
    ("util-genai", "crowded"): {"evicted"},
    ("util-genai", "cut"): CUT,
    ("util-genai", "off"): None,
    ("util-genai", "uploaded"): {"by reference"},
}
"""What the last call of a recording lost; ``None``: it records no prompt. Not listed: nothing was lost."""


def named(call: Call) -> str:
    return f"{call.emitter}: {call.case}, {call.number}"


recorded = pytest.mark.parametrize("call", CALLS, ids=named)
last = pytest.mark.parametrize("call", {(call.emitter, call.case): call for call in CALLS}.values(), ids=named)
WHOLE = [call for call in CALLS if (call.emitter, call.case) not in LOSSES]
whole = pytest.mark.parametrize("call", WHOLE, ids=named)


def kinds(prompt: Prompt) -> set[str]:
    return {reason.partition(":")[0] for reason in prompt.lost}


def tidy(message: Message) -> Message:
    """The message without what dialects write differently: the spacing of JSON, and how a picture is wrapped."""
    lines = [_plain(line) for line in message.text.split("\n")]
    tool_calls = tuple(replace(call, arguments=_plain(call.arguments)) for call in message.tool_calls)
    return replace(message, text="\n".join(lines), tool_calls=tool_calls)


def _plain(text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        return text
    if isinstance(value, dict) and (address := re.search(r"https://images\.test/\w+\.png|iVBORw==", text)):
        return address[0]
    return json.dumps(value, ensure_ascii=False)


def in_order(sent: tuple[Message, ...]) -> list[Message]:
    """The system's messages first and sorted: pydantic-ai sends its instructions last, and records them apart."""
    system = [tidy(message) for message in sent if message.author is Author.SYSTEM]
    others = [tidy(message) for message in sent if message.author is not Author.SYSTEM]
    return [*sorted(system, key=lambda message: message.text), *others]


class TestRecorded:
    def test_every_emitter_is_here(self):
        assert {file.stem for file in FILES} == {call.emitter for call in CALLS}
        assert len(FILES) == 11

    def test_no_expectation_is_stale(self):
        assert LOSSES.keys() <= {(call.emitter, call.case) for call in CALLS}

    @pytest.mark.parametrize(
        ("emitter", "case"), cases(), ids=lambda value: value if isinstance(value, str) else value["case"]
    )
    def test_every_request_has_its_model_call(self, emitter, case):
        assert len(calls_of(case)) == len(case["sent"]) > 0

    @last
    def test_what_was_lost_is_told(self, call):
        prompt, expected = call.read(), LOSSES.get((call.emitter, call.case), set())
        assert (None if prompt is None else kinds(prompt)) == expected

    @recorded
    def test_a_prompt_without_losses_is_what_was_sent(self, call):
        prompt = call.read()
        if prompt is None or prompt.lost:
            assert (call.emitter, call.case) in LOSSES
        else:
            assert in_order(prompt.messages) == in_order(call.sent)

    @whole
    def test_spans_in_memory_hold_tuples(self, call):
        attributes = _tupled(call.span["attributes"])
        events = [(name, _tupled(fields)) for name, fields in call.events]
        assert call.read(attributes=attributes, events=events) == call.read()

    @whole
    def test_structured_values_read_like_their_json(self, call):
        opened = {key: _opened(value) for key, value in call.span["attributes"].items()}
        assert call.read(attributes=opened) == call.read()

    @whole
    def test_a_row_of_texts_reads_like_the_span(self, call):
        """ClickHouse keeps every attribute as text."""
        row = {key: _as_text(value) for key, value in call.span["attributes"].items()}
        assert call.read(attributes=row) == call.read()

    @whole
    def test_the_reply_is_the_answer_or_a_tool_call(self, call):
        assert read_reply(call.span["attributes"], events=call.events) in (ANSWER, "")

    @pytest.mark.parametrize(
        "name", ["plain", "responses", "events", "details", "attributes", "event", "chat", "plain, whole", "tools"]
    )
    def test_the_last_reply_is_the_answer(self, name):
        ends = {call.emitter: call for call in CALLS if call.case == name}
        assert {read_reply(call.span["attributes"], events=call.events) for call in ends.values()} == {ANSWER}

    @pytest.mark.parametrize("call", [call for call in CALLS if call.case.startswith(("off", "redacted"))], ids=named)
    def test_a_reply_that_was_held_back_is_none(self, call):
        assert read_reply(call.span["attributes"], events=call.events) in (None, "", ANSWER)
        assert call.emitter == "openinference" or read_reply(call.span["attributes"], events=call.events) != ANSWER

    @pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
    def test_no_recording_names_the_machine(self, file):
        assert not re.search(r"/(tmp|root|home|work|Users)\b|site-packages|\.py\b", file.read_text())


def _tupled(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _tupled(item) for key, item in value.items()}
    return tuple(map(_tupled, value)) if isinstance(value, list) else value


def _opened(value: Any) -> Any:
    return _tupled(json.loads(value)) if isinstance(value, str) and value.startswith(('[{"', '{"messages')) else value


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


JSON_KEYS = ("gen_ai.input.messages", "gen_ai.request.messages", "gen_ai.system_instructions")
FLAT_KEYS = re.compile(r"(llm\.input_messages|gen_ai\.prompt)\.")
JSON_CALLS = [call for call in WHOLE if call.case in ("tools", "attributes", "tools, whole", "format 5", "responses")]
FLAT_CALLS = [call for call in WHOLE if any(FLAT_KEYS.match(key) for key in call.span["attributes"])]


class TestDamaged:
    @pytest.mark.parametrize("call", JSON_CALLS, ids=named)
    def test_json_cut_anywhere_is_never_clean(self, call):
        for key in JSON_KEYS:
            value = call.span["attributes"].get(key, "")
            for end in range(len(value)):
                prompt = call.read(attributes={**call.span["attributes"], key: value[:end]})
                assert prompt is not None
                assert prompt.lost, (key, end)

    @pytest.mark.parametrize("call", JSON_CALLS, ids=named)
    def test_json_cut_anywhere_still_shows_what_came_before(self, call):
        for key in JSON_KEYS:
            value = call.span["attributes"].get(key, "")
            for word in set(re.findall(r"(?<=\b)(?:locker|quokka|wombat)(?=\b)", value)):
                end = value.index(word) + len(word)
                prompt = call.read(attributes={**call.span["attributes"], key: value[:end]})
                assert prompt is not None
                assert word in prompt.text, (key, end)

    @pytest.mark.parametrize("call", FLAT_CALLS, ids=named)
    def test_a_flattened_field_that_is_gone_is_missed(self, call):
        known = call.read()
        assert known is not None
        fields = [key for key in call.span["attributes"] if FLAT_KEYS.match(key) and not key.endswith(".type")]
        for gone in fields:
            prompt = call.read(attributes={k: v for k, v in call.span["attributes"].items() if k != gone})
            assert prompt is None or prompt.lost or prompt.text == known.text, gone

    @pytest.mark.parametrize("call", WHOLE, ids=named)
    def test_a_dropped_attribute_is_never_clean(self, call):
        prompt = call.read(dropped=1)
        assert prompt is not None
        assert "evicted" in kinds(prompt)

    def test_a_reason_names_no_words_of_the_prompt(self):
        for call in CALLS:
            prompt = call.read()
            assert not re.search("locker|quokka|kookaburra|wombat", " ".join(prompt.lost if prompt else ()))
