"""Spans of emitters that were not recorded, written down from their documentation. Nothing here was seen on a wire.

Each: whose, the attributes, the events, what is read (author and text), and what opens each loss.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class Constructed(NamedTuple):
    of: str
    attributes: dict[str, Any]
    events: list[tuple[str, dict[str, Any]]]
    read: list[tuple[str, str]]
    lost: tuple[str, ...] = ()


SYSTEM, USER = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Zażółć?"}
READ = [("system", "Be brief."), ("user", "Zażółć?")]

CONSTRUCTED = [
    Constructed(
        "Azure AI inference: a message's event with its body in one attribute",
        {"gen_ai.operation.name": "chat"},
        [
            ("gen_ai.system.message", {"gen_ai.event.content": json.dumps({"content": "Be brief."})}),
            ("gen_ai.user.message", {"gen_ai.event.content": json.dumps(USER)}),
        ],
        READ,
    ),
    Constructed(
        "OpenTelemetry 1.27: one event",
        {"gen_ai.system": "openai"},
        [("gen_ai.content.prompt", {"gen_ai.prompt": json.dumps([SYSTEM, USER])})],
        READ,
    ),
    Constructed(
        "Spring AI: one event with a text",
        {},
        [("gen_ai.content.prompt", {"gen_ai.prompt": "Zażółć?"})],
        [("user", "Zażółć?")],
    ),
    Constructed(
        "Vercel AI SDK: the provider's call",
        {
            "ai.prompt.messages": json.dumps(
                [
                    SYSTEM,
                    {"role": "user", "content": [{"type": "text", "text": "Zażółć?"}]},
                    {
                        "role": "assistant",
                        "content": [
                            {"type": "tool-call", "toolCallId": "c1", "toolName": "look", "args": {"q": "fox"}}
                        ],
                    },
                    {
                        "role": "tool",
                        "content": [
                            {"type": "tool-result", "toolCallId": "c1", "toolName": "look", "result": {"fox": 1}}
                        ],
                    },
                ]
            )
        },
        [],
        [*READ, ("assistant", ""), ("tool", '{"fox": 1}')],
    ),
    Constructed(
        "Vercel AI SDK: the caller's call",
        {"ai.prompt": json.dumps({"system": "Be brief.", "prompt": "Zażółć?"})},
        [],
        READ,
        ("partial",),
    ),
    Constructed(
        "Logfire on the Anthropic client: the system text beside the messages",
        {"request_data": json.dumps({"system": "Be brief.", "messages": [USER], "model": "m"})},
        [],
        READ,
    ),
    Constructed(
        "Google ADK, schema 1",
        {
            "gcp.vertex.agent.llm_request": json.dumps(
                {
                    "model": "m",
                    "config": {"system_instruction": "Be brief."},
                    "contents": [
                        {"role": "user", "parts": [{"text": "Zażółć?"}]},
                        {"role": "model", "parts": [{"function_call": {"name": "look", "args": {"q": "fox"}}}]},
                        {"role": "user", "parts": [{"function_response": {"name": "look", "response": {"fox": 1}}}]},
                    ],
                }
            )
        },
        [],
        [*READ, ("assistant", ""), ("tool", '{"fox": 1}')],
    ),
    Constructed("Google ADK, schema 1, content off", {"gcp.vertex.agent.llm_request": "{}"}, [], [], ("redacted",)),
    Constructed(
        "LangSmith: a run's inputs, as LangChain serialises them",
        {
            "gen_ai.prompt": json.dumps(
                {
                    "messages": [
                        [
                            {
                                "lc": 1,
                                "type": "constructor",
                                "id": ["langchain", "SystemMessage"],
                                "kwargs": {"content": "Be brief.", "type": "system"},
                            },
                            {"type": "human", "data": {"content": "Zażółć?", "type": "human"}},
                        ]
                    ]
                }
            )
        },
        [],
        READ,
        ("partial",),
    ),
    Constructed(
        "Langfuse: whatever the caller passed",
        {"langfuse.observation.type": "generation", "langfuse.observation.input": json.dumps([SYSTEM, USER])},
        [],
        READ,
        ("partial",),
    ),
    Constructed(
        "MLflow",
        {"mlflow.spanType": '"CHAT_MODEL"', "mlflow.spanInputs": json.dumps({"messages": [SYSTEM, USER]})},
        [],
        READ,
        ("partial",),
    ),
    Constructed(
        "Sentry for JavaScript: it says how many messages there were",
        {
            "gen_ai.input.messages": json.dumps([USER]),
            "sentry.sdk_meta.gen_ai.input.messages.original_length": 7,
        },
        [],
        [("user", "Zażółć?")],
        ("truncated",),
    ),
    Constructed(
        "OpenInference: a completion model",
        {"llm.prompts.0.prompt.text": "Zażółć?", "llm.prompts.1.prompt.text": "Fox?"},
        [],
        [("user", "Zażółć?"), ("user", "Fox?")],
    ),
    Constructed(
        "OpenLLMetry before 0.5x: a completion model, and a prompt filter's results",
        {"gen_ai.prompt.0.user": "Zażółć?", "gen_ai.prompt.prompt_filter_results": "[]", "gen_ai.prompt.name": "t"},
        [],
        [("user", "Zażółć?")],
    ),
    Constructed(
        "pydantic-ai: a system prompt of an earlier request, which the model sees no more",
        {
            "gen_ai.input.messages": json.dumps(
                [
                    {"role": "system", "parts": [{"type": "text", "content": "Older.", "visible": False}]},
                    {
                        "role": "system",
                        "parts": [
                            {"type": "text", "content": "Old.", "visible": False},
                            {"type": "text", "content": "Be brief."},
                        ],
                    },
                    {"role": "user", "parts": [{"type": "text", "content": "Zażółć?"}]},
                ]
            )
        },
        [],
        READ,
    ),
    Constructed(
        "OpenTelemetry: parts of every kind",
        {
            "gen_ai.input.messages": [
                {
                    "role": "assistant",
                    "parts": (
                        {"type": "reasoning", "content": "Hm."},
                        {"type": "server_tool_call", "name": "find", "server_tool_call": {"q": "fox"}},
                        {"type": "server_tool_call_response", "server_tool_call_response": {"found": "one"}},
                    ),
                },
                {
                    "role": "user",
                    "parts": (
                        {"type": "uri", "modality": "image", "uri": "https://images.test/fox.png"},
                        {"type": "generic", "generic_type": "mood", "mood": "glad"},
                    ),
                },
            ]
        },
        [],
        [
            ("assistant", "Hm."),
            ("tool", '{"found": "one"}'),
            (
                "user",
                """{"type": "uri", "modality": "image", "uri": "https://images.test/fox.png"}
{"type": "generic", "generic_type": "mood", "mood": "glad"}""",
            ),
        ],
    ),
    Constructed(
        "OpenTelemetry: a compaction of which the summary stays with the provider",
        {"gen_ai.input.messages": [{"role": "user", "parts": [{"type": "compaction"}]}]},
        [],
        [],
        ("redacted",),
    ),
]
