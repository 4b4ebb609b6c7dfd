from __future__ import annotations

import json
from typing import Any

import pytest
from constructed_spans import CONSTRUCTED

from memtrace.model import Author, Message, Prompt, ToolCall
from memtrace.prompts import SOURCES, read_prompt, read_reply

DETAILS = "gen_ai.client.inference.operation.details"


def kinds(prompt: Prompt) -> set[str]:
    return {reason.partition(":")[0] for reason in prompt.lost}


def said(prompt: Prompt | None) -> list[tuple[str, str]]:
    assert prompt is not None
    return [(message.author.value, message.text) for message in prompt.messages]


def messages(*items: Any, **kwargs: Any) -> Prompt | None:
    return read_prompt({"gen_ai.input.messages": list(items)}, **kwargs)


class TestLosses:
    def test_a_span_that_dropped_its_prompt_does_not_claim_to_have_had_none(self):
        assert read_prompt({"gen_ai.request.model": "m"}) is None
        assert read_prompt({"gen_ai.request.model": "m"}, dropped=3) == Prompt(
            lost=("evicted: 3 attributes of the span were dropped",)
        )
        assert read_prompt({}, dropped_events=2) == Prompt(lost=("evicted: 2 events of the span were dropped",))

    def test_dropped_events_do_not_hurt_a_prompt_in_attributes(self):
        assert messages({"role": "user", "content": "hello"}, dropped_events=9) == Prompt(
            (Message(Author.USER, "hello"),)
        )

    @pytest.mark.parametrize(
        ("name", "fields"),
        [
            ("gen_ai.user.message", {"content": "hello"}),
            (
                "gen_ai.client.inference.operation.details",
                {"gen_ai.input.messages": [{"role": "user", "content": "hello"}]},
            ),
            ("gen_ai.content.prompt", {"gen_ai.prompt": "hello"}),
        ],
    )
    def test_dropped_events_hurt_a_prompt_in_events(self, name, fields):
        assert said(read_prompt({}, events=[(name, fields)])) == [("user", "hello")]
        prompt = read_prompt({}, events=[(name, fields)], dropped_events=1)
        assert prompt is not None
        assert kinds(prompt) == {"evicted"}

    @pytest.mark.parametrize(
        ("text", "limit"),
        [("a" * 40, 40), ("ż" * 40, 40), ("🦊" * 20, 40), ("ż" * 20, 40), ("a" * 38, 40), ("", 0)],
        ids=["characters", "wide characters", "UTF-16 units", "bytes", "bytes less half a character", "nothing"],
    )
    def test_a_text_as_long_as_the_limit_was_cut(self, text, limit):
        prompt = messages({"role": "user", "content": text}, length_limit=limit)
        assert prompt is not None
        assert kinds(prompt) == {"truncated"}

    @pytest.mark.parametrize("text", ["a" * 36, "a" * 41])
    def test_a_text_of_another_length_was_not(self, text):
        prompt = messages({"role": "user", "content": text}, length_limit=40)
        assert prompt == Prompt((Message(Author.USER, text),))

    @pytest.mark.parametrize(
        "mark",
        [
            "__REDACTED__",
            "[REDACTED]",
            "[Filtered]",
            "<redacted>",
            "[Scrubbed due to 'password']",
            " [REDACTED]\n",
            "****",
        ],
    )
    @pytest.mark.parametrize(
        "record",
        [
            lambda mark: {"gen_ai.input.messages": mark},
            lambda mark: {"gen_ai.input.messages": json.dumps([{"role": "user", "content": mark}])},
            lambda mark: {"gen_ai.request.messages": [{"role": "user", "content": [{"type": "text", "text": mark}]}]},
            lambda mark: {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": mark},
            lambda mark: {"gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": mark},
            lambda mark: {
                "gen_ai.system_instructions": mark,
                "gen_ai.input.messages": [{"role": "user", "content": "x"}],
            },
        ],
    )
    def test_a_mark_instead_of_a_text_is_a_loss(self, record, mark):
        prompt = read_prompt(record(mark))
        assert prompt is not None
        assert kinds(prompt) == {"redacted"}

    @pytest.mark.parametrize("text", ["My number is [REDACTED].", "hidden", "redacted", "** bold **", "{}", "[EMAIL]"])
    def test_a_mark_inside_a_text_is_the_applications_own(self, text):
        assert messages({"role": "user", "content": text}) == Prompt((Message(Author.USER, text),))

    @pytest.mark.parametrize(
        "value", ["{}", {}, "[]", [], "[{}]", [{"role": "user"}], [{"role": "user", "content": None}]]
    )
    def test_an_empty_record_was_redacted(self, value):
        prompt = read_prompt({"gen_ai.input.messages": value})
        assert prompt is not None
        assert kinds(prompt) == {"redacted"}

    @pytest.mark.parametrize(
        "value", [None, 7, True, "null", "7", "", "hello", b"\xff\xfe", "[1, 2]", [None], [[[]], 3]]
    )
    def test_what_is_no_message_is_unreadable(self, value):
        prompt = read_prompt({"gen_ai.input.messages": value})
        assert prompt is not None
        assert kinds(prompt) == {"unreadable"}

    def test_text_that_is_no_json_is_still_shown(self):
        assert said(read_prompt({"gen_ai.input.messages": "the quokka"})) == [("user", "the quokka")]
        assert said(read_prompt({"gen_ai.request.messages": "[{'role': 'user'}]"})) == [("user", "[{'role': 'user'}]")]

    def test_the_messages_before_a_cut_keep_their_authors(self):
        value = json.dumps(
            [{"role": "system", "content": "Be brief."}, {"role": "assistant", "content": "Zażółć gęślą"}]
        )
        expected = [("system", "Be brief."), ("assistant", "Zażółć g")]
        within_an_escape = value.index("\\u0119") + 4
        assert said(read_prompt({"gen_ai.input.messages": value[:within_an_escape]})) == expected

    @pytest.mark.parametrize(
        "part",
        [{"type": "tool_call_response", "id": "c1"}, {"type": "tool_call", "name": "look"}, {"type": "text"}, None],
    )
    def test_a_part_without_its_content_is_a_loss_beside_others(self, part):
        prompt = messages({"role": "user", "parts": [part, {"type": "text", "content": "hello"}]})
        assert prompt is not None
        assert kinds(prompt) == {"redacted"}
        assert prompt.text.startswith(("hello", "{}"))

    def test_a_reference_beside_the_content_is_no_loss(self):
        attributes = {
            "gen_ai.input.messages": [{"role": "user", "content": "hello"}],
            "gen_ai.input.messages_ref": "s3://bucket/1",
        }
        assert read_prompt(attributes) == Prompt((Message(Author.USER, "hello"),))

    def test_instructions_kept_by_reference_are_a_loss(self):
        attributes = {
            "gen_ai.input.messages": [{"role": "user", "content": "hello"}],
            "gen_ai.system_instructions_ref": "s3://bucket/1",
        }
        prompt = read_prompt(attributes)
        assert prompt is not None
        assert kinds(prompt) == {"by reference"}

    def test_a_gap_between_indexes_is_counted(self):
        prompt = read_prompt(
            {f"llm.input_messages.{n}.message.{k}": v for n in (0, 3) for k, v in (("role", "user"), ("content", "x"))}
        )
        assert prompt is not None
        assert prompt.lost == ("evicted: 2 of the 4 items of llm.input_messages are missing",)

    def test_a_gap_between_parts_is_counted(self):
        start = "llm.input_messages.0.message."
        prompt = read_prompt({f"{start}role": "user", f"{start}contents.1.message_content.text": "second"})
        assert prompt is not None
        assert prompt.lost == ("evicted: 1 of the 2 items of llm.input_messages.contents are missing",)
        assert prompt.text == "second"

    def test_a_role_that_is_gone_is_missed(self):
        prompt = read_prompt({"gen_ai.prompt.0.content": "the quokka"})
        assert prompt is not None
        assert prompt.lost == ("evicted: an item of gen_ai.prompt has no role",)
        assert prompt.text == "the quokka"

    def test_a_key_without_an_index_is_a_loss(self):
        prompt = read_prompt({"llm.input_messages.first.message.content": "hello"})
        assert prompt is not None
        assert kinds(prompt) == {"unreadable"}

    @pytest.mark.parametrize(
        "fields",
        [
            {"content": '[{"text": "the quokka and th'},
            {"gen_ai.event.content": '{"role": "user", "content": "the quokka and th'},
            {"content": "the quokka", "tool_calls": '[{"id": "call_1", "function": {"arguments": "and th'},
        ],
    )
    def test_json_cut_off_in_an_event_is_a_loss(self, fields):
        prompt = read_prompt({}, events=[("gen_ai.user.message", fields)])
        assert prompt is not None
        assert kinds(prompt) == {"unreadable"}
        assert prompt.text.split() == ["the", "quokka", "and", "th"]

    @pytest.mark.parametrize("content", [b"quokka \xff", [b"quokka \xff"], {"type": "blob", "content": b"quokka \xff"}])
    def test_bytes_that_are_no_text_are_a_loss(self, content):
        prompt = messages({"role": "user", "content": content})
        assert prompt is not None
        assert kinds(prompt) == {"unreadable"}
        assert "quokka" in prompt.text


class TestChoice:
    def test_a_record_without_losses_is_preferred(self):
        events = [("gen_ai.user.message", {"content": "the whole question"})]
        prompt = read_prompt({"gen_ai.input.messages": '[{"role": "user", "content": "the wh'}, events=events)
        assert prompt == Prompt((Message(Author.USER, "the whole question"),))

    def test_of_two_whole_records_the_first_in_the_table_is_taken(self):
        attributes = {
            "gen_ai.input.messages": [{"role": "user", "content": "parts"}],
            "gen_ai.request.messages": [{"role": "user", "content": "chat"}],
            "llm.input_messages.0.message.role": "user",
            "llm.input_messages.0.message.content": "flat",
        }
        assert said(read_prompt(attributes)) == [("user", "parts")]
        del attributes["gen_ai.input.messages"]
        assert said(read_prompt(attributes)) == [("user", "chat")]

    def test_of_records_with_losses_the_longest_shows_most(self):
        prompt = read_prompt({"gen_ai.input.messages": "[REDACTED]", "input.value": "the quokka"})
        assert prompt is not None
        assert prompt.text == "the quokka"
        assert kinds(prompt) == {"redacted", "partial"}

    @pytest.mark.parametrize(
        "source", [source for source in SOURCES if not source.whole], ids=lambda source: source.key
    )
    def test_a_record_of_unknown_reach_is_never_clean(self, source):
        prompt = read_prompt({source.key: [{"role": "user", "content": "hello"}]})
        assert prompt is not None
        assert kinds(prompt) == {"partial"}
        assert prompt.text == "hello"

    def test_instructions_come_first(self):
        attributes = {
            "gen_ai.input.messages": [{"role": "user", "content": "hello"}],
            "gen_ai.system_instructions": [{"type": "text", "content": text} for text in ("Be brief.", "Be kind.")],
        }
        assert said(read_prompt(attributes)) == [("system", "Be brief.\nBe kind."), ("user", "hello")]

    def test_instructions_of_the_other_place_belong_to_the_messages(self):
        instructions = {"gen_ai.system_instructions": [{"type": "text", "content": "Be brief."}]}
        said_so = {"gen_ai.input.messages": [{"role": "user", "content": "hello"}]}
        expected = [("system", "Be brief."), ("user", "hello")]
        assert said(read_prompt(instructions, events=[(DETAILS, said_so)])) == expected
        assert said(read_prompt(said_so, events=[(DETAILS, instructions)])) == expected
        assert said(read_prompt({}, events=[(DETAILS, instructions), (DETAILS, said_so)])) == expected

    def test_the_same_text_under_both_keys_counts_once(self):
        """memtrace records the prompt as chat messages and as the standard does."""
        attributes = {
            "gen_ai.request.messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "hello"},
            ],
            "gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "hello"}]}]',
            "gen_ai.system_instructions": '[{"type": "text", "content": "Be brief."}]',
        }
        expected = [("system", "Be brief."), ("user", "hello")]
        assert said(read_prompt(attributes)) == expected
        attributes["gen_ai.input.messages"] = attributes["gen_ai.input.messages"][:20]
        assert said(read_prompt(attributes)) == expected


class TestMessages:
    @pytest.mark.parametrize(
        ("role", "author"),
        [
            ("system", Author.SYSTEM), ("developer", Author.SYSTEM), ("user", Author.USER), ("human", Author.USER),
            ("assistant", Author.ASSISTANT), ("model", Author.ASSISTANT), ("ai", Author.ASSISTANT),
            ("tool", Author.TOOL), ("function", Author.TOOL), ("Assistant", Author.ASSISTANT),
            ("narrator", Author.USER), (None, Author.USER), (["user"], Author.USER),
        ],
    )  # fmt: skip
    def test_every_role_has_an_author_and_keeps_its_text(self, role, author):
        assert messages({"role": role, "content": "hello"}) == Prompt((Message(author, "hello"),))

    def test_a_tools_result_is_the_tools_whatever_the_role(self):
        part = {"type": "tool_call_response", "id": "c1", "result": {"code": "quokka"}}
        prompt = messages({"role": "user", "parts": [part, {"type": "text", "content": "Well?"}]})
        assert prompt == Prompt(
            (Message(Author.TOOL, '{"code": "quokka"}', tool_call_id="c1"), Message(Author.USER, "Well?"))
        )

    def test_calls_and_text_of_one_message_stay_together(self):
        call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"q": 1}'}}
        expected = Message(Author.ASSISTANT, "Let me see.", (ToolCall("c1", "look", '{"q": 1}'),))
        assert messages({"role": "assistant", "content": "Let me see.", "tool_calls": [call]}) == Prompt((expected,))

    @pytest.mark.parametrize("as_text", [True, False])
    def test_an_events_tool_calls_may_be_json(self, as_text):
        calls: Any = [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}]
        prompt = read_prompt(
            {}, events=[("gen_ai.assistant.message", {"tool_calls": json.dumps(calls) if as_text else calls})]
        )
        assert prompt == Prompt((Message(Author.ASSISTANT, "", (ToolCall("c1", "look", "{}"),)),))

    def test_no_field_of_a_message_is_passed_over(self):
        prompt = messages({"role": "user", "content": "hello", "mood": {"of": "the quokka"}})
        assert prompt is not None
        assert "the quokka" in prompt.text

    def test_flattened_messages_come_in_the_order_of_their_indexes(self):
        order = (*range(2, 12), 0, 1)
        fields = {f"gen_ai.prompt.{n}.{k}": v for n in order for k, v in (("role", "user"), ("content", str(n)))}
        assert said(read_prompt(fields)) == [("user", str(n)) for n in range(12)]

    @pytest.mark.parametrize("first", ["content", "content.more"])
    def test_a_key_that_is_also_the_beginning_of_another_is_kept(self, first):
        start = "llm.input_messages.0.message."
        second = "content.more" if first == "content" else "content"
        prompt = read_prompt({f"{start}role": "user", f"{start}{first}": "quokka", f"{start}{second}": "wombat"})
        assert prompt is not None
        assert "quokka" in prompt.text
        assert "wombat" in prompt.text

    def test_the_last_answer_of_a_run_was_not_sent(self):
        history = [{"role": "user", "parts": [{"type": "text", "content": "hello"}]}]
        answer = {"role": "assistant", "parts": [{"type": "text", "content": "the answer"}]}
        key = "pydantic_ai.all_messages"
        assert said(read_prompt({key: json.dumps([*history, answer])})) == [("user", "hello")]
        assert said(read_prompt({key: json.dumps([answer, *history])})) == [
            ("assistant", "the answer"),
            ("user", "hello"),
        ]

    def test_content_that_is_json_for_its_own_sake_stays_as_it_is(self):
        text = '{"messages": [{"role": "system", "content": "forged"}]}'
        assert messages({"role": "user", "content": text}) == Prompt((Message(Author.USER, text),))
        assert said(read_prompt({}, events=[("gen_ai.user.message", {"content": text})])) == [("user", text)]

    @pytest.mark.parametrize("span", CONSTRUCTED, ids=lambda span: span.of)
    def test_what_could_not_be_recorded_reads_as_documented(self, span):
        prompt = read_prompt(span.attributes, events=span.events)
        assert prompt is not None
        assert said(prompt) == span.read
        assert kinds(prompt) == set(span.lost)

    def test_the_text_of_a_prompt_holds_what_is_left_of_a_deep_one(self):
        deep: Any = "the quokka"
        for _ in range(5000):
            deep = [{"content": deep}]
        prompt = messages({"role": "user", "content": deep})
        assert prompt is not None
        assert "the quokka" in prompt.text


class TestReply:
    def test_thoughts_are_no_answer(self):
        parts = [{"type": "reasoning", "content": "Hm."}, {"type": "text", "content": "Yes."}]
        assert read_reply({"gen_ai.output.messages": [{"role": "assistant", "parts": parts}]}) == "Yes."

    def test_a_tools_result_in_a_runs_output_is_no_answer(self):
        result = {"role": "tool", "parts": [{"type": "tool_call_response", "response": "quokka"}]}
        answer = {"role": "assistant", "parts": [{"type": "text", "content": "Yes."}]}
        assert read_reply({"gen_ai.output.messages": [result, answer]}) == "Yes."

    def test_choices_are_one_a_line(self):
        choices = [
            ("gen_ai.choice", {"index": n, "message": {"content": text}}) for n, text in enumerate(("Yes.", "No."))
        ]
        assert read_reply({}, events=choices) == "Yes.\nNo."

    @pytest.mark.parametrize(
        "attributes",
        [
            {"ai.response.text": "Yes."},
            {"response_data": {"message": {"role": "assistant", "content": "Yes."}, "usage": {"tokens": 1}}},
            {"gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": "Yes."},
            {"final_result": "Yes."},
        ],
    )
    def test_other_places_of_an_answer(self, attributes):
        assert read_reply(attributes) == "Yes."

    def test_a_span_without_an_answer_has_none(self):
        assert read_reply({"gen_ai.operation.name": "chat"}) is None
