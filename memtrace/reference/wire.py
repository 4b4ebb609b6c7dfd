"""The chat completions wire, without any input or output: request bodies, replies, and streamed events.

https://platform.openai.com/docs/api-reference/chat, as every OpenAI-compatible server speaks it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memtrace.errors import MemtraceError
from memtrace.model import Message, ToolCall

_DETAIL = 200


class ModelError(MemtraceError):
    """A model call failed: the server refused it, could not be reached, or answered what cannot be read.

    The message never quotes the server, whose error texts repeat the prompt; `detail` does.

    Attributes:
        status: the HTTP status, or ``None`` where there was no answer.
        detail: the beginning of what the server said.
    """

    def __init__(self, message: str, *, status: int | None = None, detail: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.detail = detail[:_DETAIL]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as a model is told of it. ``parameters`` is a JSON schema of one object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Completion:
    """What a model answered: text, or the tools it wants called, or both; and the tokens it counted, where it told."""

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    finish: str = "stop"
    input_tokens: int | None = None
    output_tokens: int | None = None


def request_body(model: str, messages: Sequence[Message], tools: Sequence[ToolSpec], *, stream: bool) -> dict[str, Any]:
    """The JSON body of a chat completions request."""
    body: dict[str, Any] = {"model": model, "messages": [_message(message) for message in messages]}
    if tools:
        body["tools"] = [_function(tool) for tool in tools]
    if stream:
        body["stream"] = True
    return body


def completion(body: Any) -> Completion:
    """The completion that a plain reply's JSON holds.

    Raises:
        ModelError: it holds none.
    """
    try:
        choice = body["choices"][0]
        message = choice["message"]
        return Completion(
            text=message.get("content") or message.get("refusal") or "",
            tool_calls=tuple(_tool_call(raw) for raw in message.get("tool_calls") or ()),
            finish=choice.get("finish_reason") or "stop",
            **_usage(body),
        )
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise ModelError("the model's reply is no chat completion", detail=str(body)) from error


def error_detail(content: bytes) -> str:
    """What a server says of an error: its own message where there is one, else what it sent."""
    text = content.decode("utf-8", "replace")
    try:
        return str(json.loads(text)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return text


@dataclass(slots=True)
class _Call:
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class StreamedReply:
    """Puts a streamed reply together from the bytes of its server-sent events."""

    _rest: bytes = b""
    _text: list[str] = field(default_factory=list)
    _calls: dict[int, _Call] = field(default_factory=dict)
    _finish: str = ""
    _tokens: dict[str, int | None] = field(default_factory=dict)

    def feed(self, chunk: bytes) -> list[str]:
        """The pieces of text that a chunk completes; a chunk may end anywhere, inside a character too.

        Raises:
            ModelError: an event reports an error, or cannot be read.
        """
        # Not str.splitlines: it also breaks at characters that JSON leaves as they are, such as U+2028.
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        events = (line[5:].strip() for line in lines if line.startswith(b"data:"))
        return [piece for event in events if event != b"[DONE]" for piece in self._event(event)]

    def completion(self) -> Completion:
        """The whole reply.

        Raises:
            ModelError: the stream ended before the reply did.
        """
        if not self._finish:
            raise ModelError("the model's stream ended before its reply did")
        calls = tuple(ToolCall(call.id, call.name, call.arguments or "{}") for _, call in sorted(self._calls.items()))
        return Completion("".join(self._text), calls, self._finish, **self._tokens)

    def _event(self, data: bytes) -> list[str]:
        try:
            event = json.loads(data)
            if event.get("error"):
                raise ModelError("the model's stream reported an error", detail=error_detail(data))
            self._tokens = _usage(event) or self._tokens
            return [piece for choice in (event.get("choices") or ())[:1] for piece in self._choice(choice)]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelError("the model's stream cannot be read", detail=data.decode("utf-8", "replace")) from error

    def _choice(self, choice: Mapping[str, Any]) -> list[str]:
        delta = choice.get("delta") or {}
        for raw in delta.get("tool_calls") or ():
            self._merge(raw)
        self._finish = choice.get("finish_reason") or self._finish
        text = delta.get("content") or delta.get("refusal")
        if not text:
            return []
        self._text.append(text)
        return [text]

    def _merge(self, raw: Mapping[str, Any]) -> None:
        call = self._calls.setdefault(raw["index"], _Call())
        function = raw.get("function") or {}
        # Arguments come in fragments; id and name come once, or again and again in full from some servers.
        call.id = call.id or raw.get("id") or ""
        call.name = call.name or function.get("name") or ""
        call.arguments += function.get("arguments") or ""


def _message(message: Message) -> dict[str, Any]:
    raw: dict[str, Any] = {"role": message.author.value, "content": message.text}
    if message.tool_calls:
        raw["content"] = message.text or None
        raw["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        raw["tool_call_id"] = message.tool_call_id
    return raw


def _function(tool: ToolSpec) -> dict[str, Any]:
    described = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": described}


def _usage(body: Mapping[str, Any]) -> dict[str, int | None]:
    usage = body.get("usage")
    if not usage:
        return {}
    return {"input_tokens": usage.get("prompt_tokens"), "output_tokens": usage.get("completion_tokens")}


def _tool_call(raw: Mapping[str, Any]) -> ToolCall:
    function = raw["function"]
    return ToolCall(raw["id"], function["name"], function.get("arguments") or "{}")
