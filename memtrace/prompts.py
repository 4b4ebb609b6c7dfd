"""Read the recorded prompt out of a span. (Being written.)"""
from __future__ import annotations
import json
from collections.abc import Mapping
from typing import Any
from memtrace.model import Author, Message, Prompt

def is_model_call(name: str, attributes: Mapping[str, Any]) -> bool:
    return "gen_ai.request.messages" in attributes

def read_prompt(attributes: Mapping[str, Any], **_: Any) -> Prompt | None:
    return Prompt(tuple(Message(Author(x["role"]), x.get("content") or "") for x in json.loads(attributes["gen_ai.request.messages"])))
