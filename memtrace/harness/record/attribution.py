"""Which turn a model request or a span belongs to.

The driver labels each turn in a context variable; it follows the code of the turn wherever Python carries context.
From there it is copied onto what the turn causes: as headers on requests to the scripted model, as an attribute on
spans. No span is ever opened on the system's behalf: that would hide a broken trace.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from importlib.util import find_spec
from threading import Lock
from typing import Any, Final
from urllib.parse import urlsplit

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import Span, SpanProcessor

from memtrace import semconv

TURN: Final[ContextVar[str]] = ContextVar("memtrace.turn", default="")
"""The label of the turn that this code runs for; ``""`` where none was opened."""
TURN_HEADER: Final = "x-memtrace-turn"
SPAN_HEADER: Final = "x-memtrace-span"
"""``trace_id-span_id``, lower-case hex, of the span that was current where the request was sent."""

_CLIENTS: Final = (("httpx", "Client"), ("httpx", "AsyncClient"), ("httpx2", "Client"), ("httpx2", "AsyncClient"))
"""openai 3.57 sends through httpx2, everyone else through httpx."""

Address = tuple[str | None, int | None]


@contextmanager
def labelled(turn: str) -> Iterator[None]:
    """What runs inside, and every task and context copied inside, belongs to ``turn``."""
    token = TURN.set(turn)
    try:
        yield
    finally:
        TURN.reset(token)


def current_span() -> str:
    """``trace_id-span_id`` of the current span; ``""`` where there is none."""
    span = trace.get_current_span().get_span_context()
    return f"{span.trace_id:032x}-{span.span_id:016x}" if span.is_valid else ""


class SpanLabel(SpanProcessor):
    """Every span started inside a labelled turn carries the label, as `semconv.TURN`."""

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002  the SDK's signature
        """Stamp the span, in the context of the code that starts it."""
        if turn := TURN.get():
            span.set_attribute(semconv.TURN, turn)


class _Patch:
    """The HTTP clients' ``send``, wrapped while there is an address to watch."""

    def __init__(self) -> None:
        self.addresses: frozenset[Address] = frozenset()
        self._lock = Lock()
        self._wrapped: list[tuple[type, Callable[..., Any], Callable[..., Any]]] = []

    def watch(self, address: Address) -> None:
        with self._lock:
            self.addresses |= {address}
            if not self._wrapped:
                self._install()

    def unwatch(self, address: Address) -> None:
        with self._lock:
            self.addresses -= {address}
            if not self.addresses:
                self._uninstall()

    def label(self, request: Any) -> None:
        if (request.url.host, request.url.port) not in self.addresses:
            return
        if turn := TURN.get():
            request.headers[TURN_HEADER] = turn
        if span := current_span():
            request.headers[SPAN_HEADER] = span

    def _install(self) -> None:
        for module, name in _CLIENTS:
            if find_spec(module) is None:
                continue
            client = getattr(importlib.import_module(module), name)
            original = client.send
            wrapper = (self._wrap_async if name == "AsyncClient" else self._wrap)(original)
            client.send = wrapper
            self._wrapped.append((client, original, wrapper))

    def _uninstall(self) -> None:
        for client, original, wrapper in self._wrapped:
            # Whoever wrapped send after us keeps their wrapper; ours, inside it, does nothing without an address.
            if client.__dict__.get("send") is wrapper:
                client.send = original  # type: ignore[attr-defined]
        self._wrapped.clear()

    def _wrap(self, send: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(send)
        def labelled_send(client: Any, request: Any, *args: Any, **options: Any) -> Any:
            self.label(request)
            return send(client, request, *args, **options)

        return labelled_send

    def _wrap_async(self, send: Callable[..., Any]) -> Callable[..., Any]:
        # A coroutine function, so that the label is read in the context the request is awaited in.
        @wraps(send)
        async def labelled_send(client: Any, request: Any, *args: Any, **options: Any) -> Any:
            self.label(request)
            return await send(client, request, *args, **options)

        return labelled_send


_PATCH: Final = _Patch()


def watch(url: str) -> None:
    """From now on requests of httpx and httpx2 clients to the host and port of ``url`` carry the labels.

    The first address patches the clients' ``send``; requests to any other address are left as they are.
    """
    _PATCH.watch(_address(url))


def unwatch(url: str) -> None:
    """Stop labelling requests to the host and port of ``url``; the last address gone, the clients are as they were."""
    _PATCH.unwatch(_address(url))


def _address(url: str) -> Address:
    parts = urlsplit(url)
    return parts.hostname, parts.port
