"""How a plane is in trouble: what its network does, and what it answers, by name."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from memtrace.harness.faults.proxy import FaultProxy
from memtrace.harness.plane.front import Answer, Asked, Connection, Fault, Plane

_JSON: Final = {"Content-Type": "application/json"}
_DRIPPED: Final = 150
"""Bytes a second of an answer: the whole takes many times the deadline of any script, a byte far less than one."""
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


NETWORK: Final[Mapping[str, Callable[[FaultProxy], None]]] = MappingProxyType(
    {
        "refused": lambda network: network.refuse(),
        "reset": lambda network: network.reset_mid_reply(),
        "black hole": lambda network: network.black_hole(),
        "slow drip": lambda network: network.drip(_DRIPPED),
    }
)
"""What the network between a client and the plane does."""
ANSWERS: Final[Mapping[str, Callable[..., Fault]]] = MappingProxyType(
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
        "a million facts": lambda: _a_million,
        "twice": lambda: _twice,
    }
)
"""What the plane answers. ``twice`` is no outage: the facts are right, and each is there twice."""
FAULTS: Final = (*NETWORK, *ANSWERS)
