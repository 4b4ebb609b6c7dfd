"""Chat completions: https://platform.openai.com/docs/api-reference/chat."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from memtrace.errors import UsageError
from memtrace.harness.scripted_model.openai_api.read import author_of, required, text_of
from memtrace.harness.scripted_model.openai_api.step import Step, Stream, halves, pieces, tokens
from memtrace.harness.system import ModelRequest
from memtrace.model import Message, ToolCall


def parse_chat(body: Any) -> ModelRequest:
    """The request that a chat completions body makes.

    Raises:
        UsageError: the body is malformed; one line says where.
    """
    request = required(body, dict, "the body")
    messages = required(request.get("messages"), list, "messages")
    if not messages:
        raise UsageError("messages must not be empty")
    return ModelRequest(
        model=required(request.get("model"), str, "model"),
        messages=tuple(_message(raw, f"messages[{place}]") for place, raw in enumerate(messages)),
        body=request,
    )


def chat_response(request: ModelRequest, step: Step) -> dict[str, Any]:
    """The body of a plain answer."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": step.text or (None if step.calls else ""),
        "refusal": None,
    }
    if step.calls:
        message["tool_calls"] = [_call(call, call.arguments) for call in step.calls]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(step)}
    return _envelope(request, "chat.completion") | {"choices": [choice], "usage": _usage(request, step)}


def chat_stream(request: ModelRequest, step: Step) -> Stream:
    """A streamed answer; a usage chunk where the request's stream options ask for one."""
    envelope = _envelope(request, "chat.completion.chunk")
    options = request.body.get("stream_options") or {}
    with_usage = bool(isinstance(options, dict) and options.get("include_usage"))
    if with_usage:
        envelope["usage"] = None

    def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
        return _event(envelope | {"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]})

    closing = chunk({}, _finish(step))
    if with_usage:
        closing += _event(envelope | {"choices": [], "usage": _usage(request, step)})
    return Stream(
        opening=chunk({"role": "assistant", "content": None if step.calls else ""}),
        pieces=tuple(chunk(delta) for delta in _deltas(step)),
        closing=closing + b"data: [DONE]\n\n",
    )


def _message(raw: Any, where: str) -> Message:
    message = required(raw, dict, where)
    calls = required(message.get("tool_calls") or [], list, f"{where}.tool_calls")
    return Message(
        author=author_of(message.get("role"), f"{where}.role"),
        text=text_of(message.get("content"), f"{where}.content") or text_of(message.get("refusal"), f"{where}.refusal"),
        tool_calls=tuple(_tool_call(call, f"{where}.tool_calls[{place}]") for place, call in enumerate(calls)),
        tool_call_id=required(message.get("tool_call_id") or "", str, f"{where}.tool_call_id"),
    )


def _tool_call(raw: Any, where: str) -> ToolCall:
    call = required(raw, dict, where)
    function = required(call.get("function"), dict, f"{where}.function")
    return ToolCall(
        id=required(call.get("id"), str, f"{where}.id"),
        name=required(function.get("name"), str, f"{where}.function.name"),
        arguments=required(function.get("arguments"), str, f"{where}.function.arguments"),
    )


def _deltas(step: Step) -> Iterator[dict[str, Any]]:
    for piece in pieces(step.text):
        yield {"content": piece}
    for index, call in enumerate(step.calls):
        first, second = halves(call.arguments)
        yield {"tool_calls": [{"index": index} | _call(call, first)]}
        yield {"tool_calls": [{"index": index, "function": {"arguments": second}}]}


def _call(call: ToolCall, arguments: str) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _finish(step: Step) -> str:
    return "tool_calls" if step.calls else "stop"


def _envelope(request: ModelRequest, kind: str) -> dict[str, Any]:
    # Some libraries keep messages by the answer's id: it must be unique, over processes too.
    return {"id": f"chatcmpl-{uuid4().hex}", "object": kind, "created": int(time.time()), "model": request.model}


def _usage(request: ModelRequest, step: Step) -> dict[str, int]:
    given, answered = tokens(request, step)
    return {"prompt_tokens": given, "completion_tokens": answered, "total_tokens": given + answered}


def _event(data: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(data)}\n\n".encode()
