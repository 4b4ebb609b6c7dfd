"""What a plane in trouble answers: one function a fault, by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from memtrace.harness.plane_front import Answer, Asked, Connection, Fault, Plane

REFUSED: Final = "refused"
"""Nobody listens; there is no connection to answer on."""
_JSON: Final = {"Content-Type": "application/json"}
_LONGEST: Final = 60.0
_DRIPPED: Final = 3.0
"""Seconds for the whole of a dripped answer: many times the deadline of any script, byte by byte far below it."""
_MANY: Final = 1_000_000


def _status(status: int, **headers: str) -> Fault:
    return _always(Answer(status, {**_JSON, **headers}, b'{"error": "no"}'))


def _body(body: bytes, kind: str = "application/json") -> Fault:
    return _always(Answer(200, {"Content-Type": kind}, body))


def _always(answer: Answer) -> Fault:
    def fault(connection: Connection, asked: Asked, plane: Plane) -> Answer | None:  # noqa: ARG001  a fault's signature
        return answer

    fault.status = answer.status  # type: ignore[attr-defined]
    return fault


def _redirect(connection: Connection, asked: Asked, plane: Plane) -> Answer | None:  # noqa: ARG001  a fault's signature
    if "/elsewhere/" in asked.target:
        return Answer(200, _JSON, json.dumps({"facts": [{"content": "followed a redirect"}]}).encode())
    return Answer(302, {"Location": "/elsewhere" + asked.target})


def _truncated(connection: Connection, asked: Asked, plane: Plane) -> Answer | None:  # noqa: ARG001  likewise
    whole = plane(asked).body or b'{"facts": [{"content": "x"}]}'
    return Answer(200, _JSON, whole[: len(whole) // 2])


def _cut_short(connection: Connection, asked: Asked, plane: Plane) -> Answer | None:  # noqa: ARG001  likewise
    connection.send(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"facts": [')
    return None


def _black_hole(connection: Connection, asked: Asked, plane: Plane) -> Answer | None:  # noqa: ARG001  likewise
    connection.pause(_LONGEST)
    return None


def _reset(connection: Connection, asked: Asked, plane: Plane) -> Answer | None:  # noqa: ARG001  likewise
    connection.send(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{"facts": [')
    connection.reset()
    return None


def _drip(connection: Connection, asked: Asked, plane: Plane) -> Answer | None:  # noqa: ARG001  likewise
    """A whole and right answer in the end, one byte at a time."""
    body = json.dumps({"facts": [{"content": "dripped"}]})
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    whole = (head + body).encode()
    for byte in whole:
        if not connection.send(bytes([byte])) or not connection.pause(_DRIPPED / len(whole)):
            return None
    return None


def _a_million(connection: Connection, asked: Asked, plane: Plane) -> Answer | None:  # noqa: ARG001  likewise
    connection.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n")
    for piece in _many():
        if not connection.send(piece):
            break
    return None


def _many() -> Iterator[bytes]:
    yield b'{"facts":[{"content":"many"}'
    thousand = b',{"content":"many"}' * 1000
    for _ in range(_MANY // 1000):
        yield thousand
    yield b"]}"


def _twice(connection: Connection, asked: Asked, plane: Plane) -> Answer | None:  # noqa: ARG001  likewise
    """Each fact twice, the second time with other spaces."""
    answer = plane(Asked(asked.method, asked.target, {**asked.headers, "if-none-match": '"no"'}))
    facts = json.loads(answer.body)["facts"]
    again = [{**fact, "content": f" {fact['content']}  "} for fact in facts]
    return Answer(answer.status, _JSON, json.dumps({"facts": [*facts, *again]}).encode())


FAULTS: Final[Mapping[str, Callable[..., Fault]]] = MappingProxyType(
    {
        "500": lambda: _status(500),
        "503": lambda: _status(503),
        "503, retry after": lambda seconds=40: _status(503, **{"Retry-After": str(seconds)}),
        "429": lambda seconds=40: _status(429, **{"Retry-After": str(seconds)}),
        "400": lambda: _status(400),
        "401": lambda: _status(401),
        "403": lambda: _status(403),
        "404": lambda: _status(404),
        "redirect": lambda: _redirect,
        "html": lambda: _body(b"<!doctype html><title>Sign in</title>", "text/html"),
        "empty": lambda: _body(b""),
        "no list": lambda: _body(b'{"facts": "none"}'),
        "wrong types": lambda: _body(b'{"facts": [{"content": 7}, null]}'),
        "another thing": lambda: _body(b'[{"content": "not what was asked for"}]'),
        "truncated": lambda: _truncated,
        "cut short": lambda: _cut_short,
        "reset": lambda: _reset,
        "black hole": lambda: _black_hole,
        "slow drip": lambda: _drip,
        "a million facts": lambda: _a_million,
        "twice": lambda: _twice,
    }
)
"""Every fault but `REFUSED`, by name. ``twice`` is no outage: the facts are right, and each is there twice."""
