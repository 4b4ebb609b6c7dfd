"""Responses: https://platform.openai.com/docs/api-reference/responses.

Nothing is kept on the server's side: a request must bring its whole input, or the prompt could not be told.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any, Final
from uuid import uuid4

from memtrace.errors import UsageError
from memtrace.harness.scripted_model.openai_api.read import author_of, dump, required, text_of
from memtrace.harness.scripted_model.openai_api.step import Step, Stream, halves, pieces, tokens
from memtrace.harness.system import ModelRequest
from memtrace.model import Author, Message, ToolCall

_KEPT_ELSEWHERE: Final = ("previous_response_id", "conversation", "prompt")

Event = Callable[..., bytes]
Item = dict[str, Any]


def parse_responses(body: Any) -> ModelRequest:
    """The request that a responses body makes: its instructions, then its input, item by item.

    Raises:
        UsageError: the body is malformed, or refers to what only OpenAI's servers keep; one line says where.
    """
    request = required(body, dict, "the body")
    for name in _KEPT_ELSEWHERE:
        if request.get(name):
            raise UsageError(f"{name} refers to what is not kept here: send the whole input")
    messages: list[Message] = []
    if instructions := request.get("instructions"):
        messages.append(Message(Author.SYSTEM, text_of(instructions, "instructions")))
    for message in _input(request.get("input")):
        _append(messages, message)
    if not messages:
        raise UsageError("input must not be empty")
    return ModelRequest(required(request.get("model"), str, "model"), tuple(messages), request)


def responses_response(request: ModelRequest, step: Step) -> dict[str, Any]:
    """The body of a plain answer."""
    return _response(request) | _outcome(request, step, _output(step))


def responses_stream(request: ModelRequest, step: Step) -> Stream:
    """A streamed answer: the events of the API, numbered."""
    numbers = count()

    def event(kind: str, **fields: Any) -> bytes:
        data = {"type": kind, "sequence_number": next(numbers), **fields}
        return f"event: {kind}\ndata: {json.dumps(data)}\n\n".encode()

    response, output = _response(request), _output(step)
    opening = event("response.created", response=response) + event("response.in_progress", response=response)
    sent = tuple(piece for index, item in enumerate(output) for piece in _item_events(event, index, item))
    closing = event("response.completed", response=response | _outcome(request, step, output))
    return Stream(opening, sent, closing)


def _input(raw: Any) -> Iterator[Message]:
    if isinstance(raw, str):
        yield Message(Author.USER, raw)
        return
    for place, raw_item in enumerate(required(raw or [], list, "input")):
        where = f"input[{place}]"
        item = required(raw_item, dict, where)
        yield _PARSERS.get(item.get("type", "message"), _unknown)(item, where)


def _message(item: Item, where: str) -> Message:
    return Message(author_of(item.get("role"), f"{where}.role"), text_of(item.get("content"), f"{where}.content"))


def _call(item: Item, where: str) -> Message:
    call = ToolCall(*(required(item.get(name), str, f"{where}.{name}") for name in ("call_id", "name", "arguments")))
    return Message(Author.ASSISTANT, "", (call,))


def _output_of_call(item: Item, where: str) -> Message:
    call_id = required(item.get("call_id"), str, f"{where}.call_id")
    return Message(Author.TOOL, text_of(item.get("output"), f"{where}.output"), tool_call_id=call_id)


def _reference(_: Item, where: str) -> Message:
    raise UsageError(f"{where} refers to an item that is not kept here: send the item itself")


def _unknown(item: Item, _: str) -> Message:
    """Whatever it is, the model was sent it: it stays in the record, as JSON."""
    return Message(Author.ASSISTANT, dump(item))


_PARSERS: Final[dict[str, Callable[[Item, str], Message]]] = {
    "message": _message,
    "function_call": _call,
    "function_call_output": _output_of_call,
    "item_reference": _reference,
}


def _append(messages: list[Message], message: Message) -> None:
    """One answer comes as several items, a text and its calls; in a prompt it is one message."""
    if message.tool_calls and messages and messages[-1].author is Author.ASSISTANT:
        messages[-1] = replace(messages[-1], tool_calls=messages[-1].tool_calls + message.tool_calls)
    else:
        messages.append(message)


def _output(step: Step) -> list[Item]:
    calls = [
        {
            "type": "function_call",
            "id": f"fc_{uuid4().hex}",
            "call_id": call.id,
            "name": call.name,
            "arguments": call.arguments,
            "status": "completed",
        }
        for call in step.calls
    ]
    return calls if calls and not step.text else [_text_item(step.text), *calls]


def _text_item(text: str) -> Item:
    item_id = f"msg_{uuid4().hex}"
    return {"type": "message", "id": item_id, "role": "assistant", "status": "completed", "content": [_text_part(text)]}


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _item_events(event: Event, index: int, item: Item) -> list[bytes]:
    """The events of one item of the output, in one group for each piece of it."""
    return (_text_events if item["type"] == "message" else _call_events)(event, index, item)


def _text_events(event: Event, index: int, item: Item) -> list[bytes]:
    part = item["content"][0]
    place = {"item_id": item["id"], "output_index": index, "content_index": 0}
    return _grouped(
        event("response.output_item.added", output_index=index, item=item | {"status": "in_progress", "content": []})
        + event("response.content_part.added", **place, part=_text_part("")),
        [event("response.output_text.delta", **place, delta=piece, logprobs=[]) for piece in pieces(part["text"])],
        event("response.output_text.done", **place, text=part["text"], logprobs=[])
        + event("response.content_part.done", **place, part=part)
        + event("response.output_item.done", output_index=index, item=item),
    )


def _call_events(event: Event, index: int, item: Item) -> list[bytes]:
    place = {"item_id": item["id"], "output_index": index}
    arguments = item["arguments"]
    return _grouped(
        event("response.output_item.added", output_index=index, item=item | {"status": "in_progress", "arguments": ""}),
        [event("response.function_call_arguments.delta", **place, delta=half) for half in halves(arguments)],
        event("response.function_call_arguments.done", **place, name=item["name"], arguments=arguments)
        + event("response.output_item.done", output_index=index, item=item),
    )


def _grouped(begin: bytes, deltas: list[bytes], end: bytes) -> list[bytes]:
    """What begins an item goes with its first piece, what ends it with its last."""
    first, *rest = deltas or [b""]
    groups = [begin + first, *rest]
    groups[-1] += end
    return groups


def _response(request: ModelRequest) -> dict[str, Any]:
    """The response as it is when nothing has been said yet."""
    body = request.body
    return {
        "id": f"resp_{uuid4().hex}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress",
        "model": request.model,
        "output": [],
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "metadata": body.get("metadata") or {},
        "parallel_tool_calls": True,
        "temperature": body.get("temperature", 1.0),
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools") or [],
        "top_p": body.get("top_p", 1.0),
        "text": body.get("text") or {"format": {"type": "text"}},
        "usage": None,
    }


def _outcome(request: ModelRequest, step: Step, output: list[Item]) -> dict[str, Any]:
    given, answered = tokens(request, step)
    usage = {
        "input_tokens": given,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": answered,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": given + answered,
    }
    return {"status": "completed", "output": output, "usage": usage}
