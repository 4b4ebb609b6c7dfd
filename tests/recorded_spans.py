"""The recorded spans, and what is known of each beside them: what the model was sent meanwhile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from memtrace.harness.scripted_model.openai_api.chat import parse_chat
from memtrace.harness.scripted_model.openai_api.responses import parse_responses
from memtrace.model import Message, Prompt
from memtrace.prompts import is_model_call, read_prompt

FILES = sorted((Path(__file__).parent / "recorded").glob("*.json"))


class Call(NamedTuple):
    """One recorded model call."""

    emitter: str
    case: str
    number: int
    span: dict[str, Any]
    limits: dict[str, int]
    sent: tuple[Message, ...]

    @property
    def events(self) -> list[tuple[str, dict[str, Any]]]:
        return [(name, fields) for name, fields in (*self.span["events"], *self.span["logs"])]

    @property
    def limit(self) -> int | None:
        return self.limits.get("max_span_attribute_length") or self.limits.get("max_attribute_length")

    def read(self, **changes: Any) -> Prompt | None:
        options = {
            "attributes": self.span["attributes"],
            "events": self.events,
            "dropped": self.span["dropped_attributes"],
            "dropped_events": self.span["dropped_events"],
            "length_limit": self.limit,
        }
        return read_prompt(**(options | changes))


def cases() -> list[tuple[str, dict[str, Any]]]:
    """Emitter and case of every recording."""
    documents = [json.loads(file.read_text()) for file in FILES]
    return [(document["emitter"], case) for document in documents for case in document["cases"]]


def calls() -> list[Call]:
    """Every recorded model call, with the request that it made."""
    return [
        Call(emitter, case["case"], number, span, case["limits"], _request(body))
        for emitter, case in cases()
        for number, (span, body) in enumerate(zip(calls_of(case), case["sent"], strict=True))
    ]


def calls_of(case: dict[str, Any]) -> list[dict[str, Any]]:
    return [span for span in case["spans"] if is_model_call(span["name"], span["attributes"])]


def _request(body: dict[str, Any]) -> tuple[Message, ...]:
    parse = parse_chat if "messages" in body else parse_responses
    return parse({"model": "m", **body}).messages
