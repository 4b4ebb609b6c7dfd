"""The cases that every instrumentor of the OpenAI client records."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import openai
from stage import LONG, PARTS, PLAIN, RESPONSES, TOOLS, Case, Stage

Instrument = Callable[[Case], AbstractContextManager[None]]
Chat = Callable[..., None]


def record_cases(stage: Stage, instrument: Instrument, *, responses: bool = True) -> Chat:
    """Records them, and hands out the function that records one more."""
    client = openai.OpenAI(base_url=stage.model.url, api_key="k", max_retries=0)

    def run(name: str, call: Callable[[], object], limits: dict[str, int]) -> None:
        with stage.case(name, **limits) as case, instrument(case):
            call()

    def chat(name: str, messages: list[Any], **limits: int) -> None:
        run(name, lambda: client.chat.completions.create(model="gpt-test", messages=messages), limits)

    if responses:  # first, since OpenLLMetry's wrapper of it stays with the provider it was first given
        run("responses", lambda: client.responses.create(model="gpt-test", **RESPONSES), {})
    chat("plain", PLAIN)
    chat("tools", TOOLS)
    chat("parts", PARTS)
    chat("cut", TOOLS, max_span_attribute_length=150)
    chat("crowded", LONG, max_span_attributes=20)
    return chat
