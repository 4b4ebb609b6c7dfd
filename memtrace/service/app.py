"""The plane as a web application."""

from __future__ import annotations

import logging
from typing import Final

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memtrace.errors import StoreError
from memtrace.service import curate_api, page, read_api
from memtrace.service.facts import Refused
from memtrace.service.read_api import Answers
from memtrace.service.requests import refusal
from memtrace.service.storage import PlaneStore

_log: Final = logging.getLogger("memtrace.plane")
_JSON: Final = ("/public/", "/v1/")
"""Paths that programs ask; what is elsewhere is read by people."""


def make_app(store: PlaneStore, *, access_log: bool = False) -> Starlette:
    """The application: the read protocol under ``/public/v1``, the curators' JSON under ``/v1``, and their page."""
    app = Starlette(
        routes=[*read_api.ROUTES, *curate_api.ROUTES, *page.ROUTES, Route("/health", _health)],
        exception_handlers={
            Refused: _refused,
            page.Away: _away,
            HTTPException: _http,
            StoreError: _store_failed,
            Exception: _failed,
        },
    )
    app.add_middleware(_Headers)
    if access_log:
        app.add_middleware(_AccessLog)
    app.router.redirect_slashes = False
    app.state.store = store
    app.state.answers = Answers()
    return app


class _Headers:
    """Puts on every answer what it must say whatever made it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["X-Memtrace-Plane"] = "1"
                headers["X-Content-Type-Options"] = "nosniff"
            await send(message)

        await self._app(scope, receive, marked)


class _AccessLog:
    """Logs a line a request: method, path and status; never the query, a header or a body."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def logged(message: Message) -> None:
            if message["type"] == "http.response.start":
                path = scope["raw_path"].decode("ascii", "backslashreplace")
                _log.info("%s %s %s", scope["method"], path, message["status"])
            await send(message)

        await self._app(scope, receive, logged if scope["type"] == "http" else send)


async def _health(_request: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _away(_request: Request, _error: Exception) -> Response:
    return page.to_login()


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)  # noqa: S101  Starlette's types say less than its table
    # What was not read of a body is still on its way: the connection cannot be used again.
    headers = {"Connection": "close"} if error.status in (408, 413, 415) else {}
    return _told(request, error.status, error.reason, headers)


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  likewise
    headers = dict(error.headers or {})
    if error.status_code == 405:
        headers["Allow"] = _allowed(request)
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=headers)
    reasons = {404: "there is nothing here", 405: f"this takes {headers.get('Allow')}"}
    return _told(request, error.status_code, reasons.get(error.status_code, error.detail), headers)


async def _store_failed(request: Request, error: Exception) -> Response:
    _log.error("the plane's store failed: %s", error)
    return _told(request, 503, "the plane's store does not answer", {"Retry-After": "5"})


async def _failed(request: Request, _error: Exception) -> Response:
    return _told(request, 500, "the plane failed; its log says how", {})


def _told(request: Request, status: int, reason: str, headers: dict[str, str]) -> Response:
    if request.url.path.startswith(_JSON):
        return refusal(status, reason, headers)
    answer = page.problem(request, status, reason)
    answer.headers.update(headers)
    return answer


def _allowed(request: Request) -> str:
    """The methods that any route of this path takes."""
    matching = (route for route in request.app.routes if route.matches(request.scope)[0] is not Match.NONE)
    return ", ".join(sorted({"OPTIONS"}.union(*(route.methods for route in matching))))
