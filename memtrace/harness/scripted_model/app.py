"""What the scripted model serves: chat completions, responses, embeddings, models, callbacks, and a collector.

Of a request's headers only the two labels of `memtrace.harness.record.attribution` are read, and none is kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from memtrace.errors import UsageError
from memtrace.harness.record.attribution import SPAN_HEADER, TURN_HEADER
from memtrace.harness.record.receiver import unpacked
from memtrace.harness.scripted_model.calls import Calls, Script, ScriptFailedError, Scripts
from memtrace.harness.scripted_model.openai_api import (
    Step,
    Stream,
    chat_response,
    chat_stream,
    embeddings_response,
    error_body,
    parse_chat,
    parse_embeddings,
    parse_responses,
    responses_response,
    responses_stream,
)
from memtrace.harness.system import Environment, ModelRequest

_OK: Final = 200
_MODELS: Final = tuple(str(field.default) for field in fields(Environment) if field.name.endswith("_model"))
_NO_RETRY: Final = {"x-should-retry": "false"}
"""A scripted failure is one failure: unless told not to, openai's client asks twice more, half a second apart."""


@dataclass(frozen=True, slots=True)
class _Api:
    """One way to ask for an answer."""

    name: str
    parse: Callable[[Any], ModelRequest]
    plain: Callable[[ModelRequest, Step], dict[str, Any]]
    stream: Callable[[ModelRequest, Step], Stream]


_CHAT: Final = _Api("chat", parse_chat, chat_response, chat_stream)
_RESPONSES: Final = _Api("responses", parse_responses, responses_response, responses_stream)


def application(scripts: Scripts, calls: Calls) -> Starlette:
    """The ASGI application."""
    endpoints = _Endpoints(scripts, calls)
    return Starlette(
        routes=[
            Route("/{prefix}/v1/chat/completions", partial(endpoints.complete, _CHAT), methods=["POST"]),
            Route("/{prefix}/v1/responses", partial(endpoints.complete, _RESPONSES), methods=["POST"]),
            Route("/{prefix}/v1/embeddings", endpoints.embed, methods=["POST"]),
            Route("/{prefix}/v1/models", endpoints.models, methods=["GET"]),
            Route("/{prefix}/callbacks/{name}", endpoints.callback, methods=["POST"]),
            Route("/{prefix}/otlp/v1/{signal}", endpoints.export, methods=["POST"]),
        ],
        exception_handlers={
            UsageError: _malformed,
            ClientDisconnect: _malformed,
            HTTPException: _refused,
            ScriptFailedError: _failed,
        },
    )


class _Endpoints:
    def __init__(self, scripts: Scripts, calls: Calls) -> None:
        self._scripts = scripts
        self._calls = calls

    async def complete(self, api: _Api, request: Request) -> ASGIApp:
        script = self._script(request)
        asked = api.parse(await _json(request))
        streamed = bool(asked.body.get("stream"))
        complete = partial(script.complete, asked, **_labels(request), api=api.name, streamed=streamed, wire=True)
        step = await self._calls.call(complete)
        if step.status != _OK:
            return _error(step.status, step.text or "the script makes this call fail")
        if streamed:
            return _Sent(api.stream(asked, step).sent(step.break_after), broken=step.break_after is not None)
        return _plain(api.plain(asked, step), broken=step.break_after is not None)

    async def embed(self, request: Request) -> Response:
        script = self._script(request)
        body = await _json(request)
        texts = parse_embeddings(body)
        vectors = await self._calls.call(partial(script.embed, texts, **_labels(request), wire=True))
        return _answer(embeddings_response(body, texts, vectors))

    async def models(self, request: Request) -> Response:
        self._script(request)
        listed = [{"id": name, "object": "model", "created": 0, "owned_by": "memtrace"} for name in _MODELS]
        return _answer({"object": "list", "data": listed})

    async def callback(self, request: Request) -> Response:
        script = self._script(request)
        name, turn = request.path_params["name"], _labels(request)["turn"]
        payload = await _json(request)
        try:
            result = await self._calls.call(lambda: json.dumps(script.callback(name, payload, turn=turn)))
        except ScriptFailedError as failure:
            cause = failure.__cause__
            return _answer({"error": type(cause).__name__, "message": str(cause)}, status=500)
        return Response(result, media_type="application/json")

    async def export(self, request: Request) -> Response:
        script = self._script(request)
        body = unpacked(await request.body(), request.headers.get("content-encoding", ""))
        await self._calls.call(partial(script.exported, request.path_params["signal"], body))
        return Response(b"", media_type="application/x-protobuf")

    def _script(self, request: Request) -> Script:
        return self._scripts.find(request.path_params["prefix"])


class _Sent:
    """A response in the making: what is sent of it, and whether the connection is then dropped."""

    def __init__(self, frames: Sequence[bytes], *, broken: bool, headers: Mapping[str, str] | None = None) -> None:
        self._frames = frames
        self._broken = broken
        named = {"content-type": "text/event-stream", "cache-control": "no-cache"} if headers is None else headers
        self._headers = [(name.encode(), value.encode()) for name, value in named.items()]

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": _OK, "headers": self._headers})
        for frame in self._frames:
            await send({"type": "http.response.body", "body": frame, "more_body": True})
        # A server drops the connection of a response that its application leaves unfinished.
        if not self._broken:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def _plain(body: dict[str, Any], *, broken: bool) -> ASGIApp:
    response = _answer(body)
    return _Sent([], broken=True, headers=response.headers) if broken else response


def _answer(body: Any, *, status: int = _OK, headers: Mapping[str, str] | None = None) -> Response:
    # In ASCII: a prompt may hold half of a surrogate pair, and then so may the answer, which UTF-8 has no form for.
    return Response(json.dumps(body), status_code=status, headers=headers, media_type="application/json")


def _labels(request: Request) -> dict[str, str]:
    return {"turn": request.headers.get(TURN_HEADER, ""), "span": request.headers.get(SPAN_HEADER, "")}


async def _json(request: Request) -> Any:
    body = await request.body()
    try:
        return json.loads(body) if body else None  # httpx sends nothing for a JSON null
    except ValueError as error:
        raise UsageError(f"the body is not JSON: {error}") from error


def _error(status: int, message: str) -> Response:
    return _answer(error_body(status, message), status=status, headers=_NO_RETRY)


async def _malformed(_: Request, error: Exception) -> Response:
    return _error(400, str(error))


async def _failed(_: Request, error: Exception) -> Response:
    return _error(500, str(error))


async def _refused(request: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 404)
    detail = getattr(error, "detail", "")
    if detail == "Not Found":
        detail = f"nothing is served at {request.method} {request.url.path}"
    return _error(status, detail)
