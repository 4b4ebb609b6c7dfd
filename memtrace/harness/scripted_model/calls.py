"""Scripts as the model server sees them: found by path prefix, asked on threads of their own.

A thread for each request, so that any number may be held without starving the others.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol, TypeVar

from starlette.exceptions import HTTPException

from memtrace.harness.scripted_model.openai_api import Step
from memtrace.harness.system import ModelRequest

T = TypeVar("T")


class Script(Protocol):
    """What the server asks. Called on a thread of the request's own; may block, and may raise (a 500).

    ``turn`` and ``span`` are the labels the request came with, ``""`` where it had none; ``api`` is ``chat`` or
    ``responses``; ``wire`` is always true here.
    """

    def complete(self, request: ModelRequest, *, turn: str, span: str, api: str, streamed: bool, wire: bool) -> Step:
        """What the model answers."""

    def embed(self, texts: Sequence[str], *, turn: str, span: str, wire: bool) -> list[list[float]]:
        """One vector a text."""

    def callback(self, name: str, payload: Any, *, turn: str) -> Any:
        """What a callback of the harness's gives another process; JSON in, JSON out."""

    def exported(self, signal: str, body: bytes) -> None:
        """Telemetry came, as to a collector; the body is as it was before compression."""


class Scripts:
    """The scripts by path prefix."""

    def __init__(self) -> None:
        self._scripts: dict[str, Script | None] = {}

    def add(self, script: Script) -> str:
        """The new script's prefix. It is random: a straggler of an earlier session may find its port in use again."""
        prefix = secrets.token_hex(4)
        self._scripts[prefix] = script
        return prefix

    def end(self, prefix: str) -> None:
        """The script is over."""
        self._scripts[prefix] = None

    def end_all(self) -> None:
        """Every script is over."""
        for prefix in list(self._scripts):
            self.end(prefix)

    def find(self, prefix: str) -> Script:
        """The script.

        Raises:
            HTTPException: 410 where it is over, 404 where there never was one.
        """
        script = self._scripts.get(prefix)
        if script is not None:
            return script
        if prefix in self._scripts:
            raise HTTPException(410, "the script that this address belonged to is over")
        raise HTTPException(404, f"no script has the prefix {prefix!r}")


class ScriptFailedError(Exception):
    """A script raised; the exception is the cause."""

    def __init__(self, cause: BaseException) -> None:
        super().__init__(f"{type(cause).__name__}: {cause}")
        self.__cause__ = cause


class Calls:
    """Calls to scripts, each on a daemon thread: one that is held for ever keeps neither the server nor the process."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[Any]] = set()
        self._over = False

    async def call(self, function: Callable[[], T]) -> T:
        """What the function returns.

        Raises:
            ScriptFailedError: it raised.
            HTTPException: 410, the server stops.
        """
        if self._over:
            raise _stopped()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        threading.Thread(target=_run, args=(function, future), name="memtrace-script-call", daemon=True).start()
        try:
            return await future
        finally:
            self._waiting.discard(future)

    def let_go(self) -> None:
        """Nobody waits for a script any more, nor will. Called from any thread."""
        self._over = True
        for future in tuple(self._waiting):
            _deliver(future, partial(future.set_exception, _stopped()))


def _stopped() -> HTTPException:
    return HTTPException(410, "the scripted model has stopped")


def _run(function: Callable[[], T], future: asyncio.Future[T]) -> None:
    try:
        deliver = partial(future.set_result, function())
    except BaseException as error:  # noqa: BLE001  a script may raise anything, pytest's own outcomes too
        deliver = partial(future.set_exception, ScriptFailedError(error))
    _deliver(future, deliver)


def _deliver(future: asyncio.Future[T], deliver: Callable[[], None]) -> None:
    def unless_done() -> None:
        if not future.done():
            deliver()

    with suppress(RuntimeError):  # the loop is closed: the server stopped while this was held
        future.get_loop().call_soon_threadsafe(unless_done)
