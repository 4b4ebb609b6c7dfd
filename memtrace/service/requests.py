"""What comes in, checked: keys, parameters and bodies; and what goes out when it does not pass."""

from __future__ import annotations

import json
import math
from typing import Any, Final
from urllib.parse import parse_qsl

import anyio
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse

from memtrace.service.facts import Refused
from memtrace.service.keys import Key, Role
from memtrace.service.storage import PlaneStore

LARGEST_BODY: Final = 64 * 1024
_BODY_SECONDS: Final = 10.0
_LONGEST_KEY: Final = 200


def store_of(request: Request) -> PlaneStore:
    """The plane that the application serves."""
    store: PlaneStore = request.app.state.store
    return store


def given_key(request: Request) -> str:
    """The API key that came with the request.

    Raises:
        Refused: with status 401.
    """
    key = request.headers.get("x-api-key", "")
    if not key or len(key) > _LONGEST_KEY:
        raise Refused(401, "give a working API key in the header X-API-Key")
    return key


async def require_curator(request: Request) -> Key:
    """The curator's key that came with the request.

    Raises:
        Refused: 401: there is none that works; 403: it is a reader's.
    """
    found = await run_in_threadpool(store_of(request).admit, given_key(request))
    if found is None:
        raise Refused(401, "give a working API key in the header X-API-Key")
    if found[0].role is not Role.CURATOR:
        raise Refused(403, "this key only reads: curating needs a curator's key")
    return found[0]


def parameter(request: Request, name: str, default: str = "") -> str:
    """A query parameter, given at most once.

    Raises:
        Refused: with status 400.
    """
    values = request.query_params.getlist(name)
    if len(values) > 1:
        raise Refused(400, f"{name}: given {len(values)} times; give it once")
    return values[0] if values else default


def whole(request: Request, name: str, *, default: int, most: int, least: int = 1) -> int:
    """A query parameter that counts.

    Raises:
        Refused: with status 400.
    """
    text = parameter(request, name)
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 20 and least <= int(text) <= most):
        raise Refused(400, f"{name}: give a whole number from {least} to {most}")
    return int(text)


def share(request: Request, name: str) -> float:
    """A query parameter from 0 to 1.

    Raises:
        Refused: with status 400.
    """
    text = parameter(request, name, "0")
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0.0 <= value <= 1.0:
        raise Refused(400, f"{name}: give a number from 0 to 1")
    return value


async def json_body(request: Request, *, optional: bool = False) -> dict[str, Any]:
    """The JSON object that came as the body.

    Raises:
        Refused: 415: it is not declared as JSON; 413: too large; 408: too slow; 400: it is no JSON object.
    """
    declared = _content_type(request)
    if optional and not declared:
        if await _body(request):
            raise Refused(415, "send JSON, as Content-Type: application/json")
        return {}
    if declared != "application/json":
        raise Refused(415, "send JSON, as Content-Type: application/json")
    body = await _body(request)
    if optional and not body:
        return {}
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise Refused(400, "the body is not JSON") from None
    if not isinstance(value, dict):
        raise Refused(400, "the body is no JSON object")
    return value


async def form_body(request: Request) -> dict[str, str]:
    """The fields of a form of ours.

    Raises:
        Refused: 415: it is no form; 413: too large; 408: too slow; 400: it is not UTF-8.
    """
    if _content_type(request) != "application/x-www-form-urlencoded":
        raise Refused(415, "send a form, as Content-Type: application/x-www-form-urlencoded")
    try:
        pairs = parse_qsl((await _body(request)).decode(), keep_blank_values=True, errors="strict", max_num_fields=20)
    except ValueError:
        raise Refused(400, "the form cannot be read") from None
    return dict(pairs)


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def _body(request: Request) -> bytes:
    """The body, of which no more is read than may be sent."""
    too_large = Refused(413, f"the body is too large: at most {LARGEST_BODY} bytes are read")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and (len(declared) > 18 or int(declared) > LARGEST_BODY):
        raise too_large
    body = bytearray()
    try:
        with anyio.fail_after(_BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > LARGEST_BODY:
                    raise too_large
    except TimeoutError:
        raise Refused(408, "the body took too long to come") from None
    except ClientDisconnect:
        raise Refused(400, "the connection was closed before the body's end") from None
    return bytes(body)


def refusal(status: int, reason: str, headers: dict[str, str] | None = None) -> JSONResponse:
    """An answer that says in one line why it is not the one hoped for."""
    return JSONResponse({"error": reason}, status, headers={"Cache-Control": "no-store", **(headers or {})})
