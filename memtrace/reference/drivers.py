"""The two that perform a turn's effects: one plainly, one on an event loop. Each yields the pieces of its stream.

Both keep to the same manners. An effect that raises, raises inside the turn. Whoever leaves a stream early, from
whatever task or thread, or just forgets it, abandons the turn. A cancelled turn first lets a running `Blocking` effect
end, and one that has not begun never does: a write is whole, and nothing of a turn goes on after it.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import aclosing, closing, suppress
from contextvars import Context
from functools import partial
from typing import Any, Final, Protocol, Self, TypeVar

from memtrace.errors import MemtraceError
from memtrace.reference.effects import Blocking, Complete, Core, Emit, Proceed, Request, Stream
from memtrace.reference.models import Completion, ModelError
from memtrace.reference.threads import Threads

T = TypeVar("T")
_READING: Final[set[asyncio.Task[Completion]]] = set()
"""An event loop holds no task that waits: one whose stream was forgotten must live until it is cancelled."""


_THREADS: Final = Threads()
"""Not an event loop's own, which are few: turns that wait for a store would take them all, and with them all that looks
up a host's name."""


class Cancelled(MemtraceError):
    """The turn was cancelled; nothing of it is kept."""


class Cancellation:
    """Set from any thread, it stops a turn before its next model call, tool, piece or write.

    A `threading.Event` will do as well.
    """

    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event = threading.Event()

    def set(self) -> None:
        """Cancel."""
        self._event.set()

    def is_set(self) -> bool:
        """Whether the turn is to stop."""
        return self._event.is_set()


class Cancellable(Protocol):
    """What a turn asks before each step whether it is to stop."""

    def is_set(self) -> bool:
        """Whether it is."""


def run(core: Core[T], cancel: Cancellable | None = None) -> T:
    """The result of a turn."""
    for _ in pieces(core, cancel):
        pass
    return core.result


async def arun(core: Core[T]) -> T:
    """The result of a turn."""
    async with aclosing(apieces(core)) as stream:
        async for _ in stream:
            pass
    return core.result


def pieces(core: Core[Any], cancel: Cancellable | None = None) -> Generator[str, None, None]:
    """The pieces of a turn's stream.

    Raises:
        Cancelled: ``cancel`` was set before the turn's last step.
    """
    with closing(core):
        effect = core.advance()
        while effect is not None:
            value: object = None
            try:
                match effect:
                    case Proceed():
                        _stop_if(cancel)
                    case Emit(text):
                        yield text
                    case Stream(request):
                        value = yield from _streamed(request, core.context(), cancel)
                    case _:
                        value = _performed(effect, core.context())
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001  it is the turn's: its spans must hear of it
                effect = core.fail(error)
            else:
                effect = core.advance(value)


async def apieces(core: Core[Any]) -> AsyncGenerator[str, None]:
    """The pieces of a turn's stream.

    It is the only asynchronous generator of a turn: forgotten ones are closed in no order.
    """
    with closing(core):
        effect = core.advance()
        while effect is not None:
            value: object = None
            try:
                match effect:
                    case Proceed():
                        pass  # a task is cancelled where it waits
                    case Emit(text):
                        yield text
                    case Stream(request):
                        async with _Reader(request, core.context()) as reader:
                            while (piece := await reader.piece()) is not None:
                                yield piece
                        value = await reader.completion()
                    case _:
                        value = await _aperformed(effect, core.context())
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001  it is the turn's: its spans must hear of it
                effect = core.fail(error)
            else:
                effect = core.advance(value)


def _stop_if(cancel: Cancellable | None) -> None:
    if cancel is not None and cancel.is_set():
        raise Cancelled("the turn was cancelled")


def _performed(effect: Complete | Blocking, context: Context) -> object:
    if isinstance(effect, Blocking):
        return _called(effect.work, context)
    request = effect.request
    return context.run(request.model.complete, request.messages, request.tools)


async def _aperformed(effect: Complete | Blocking, context: Context) -> object:
    if isinstance(effect, Blocking):
        return await _acalled(effect.work, context)
    request = effect.request
    return await _task(request.model.acomplete(request.messages, request.tools), context)


def _streamed(request: Request, context: Context, cancel: Cancellable | None) -> Generator[str, None, Completion]:
    last: object = None
    items = request.model.stream(request.messages, request.tools)
    try:
        while (item := context.run(next, items, None)) is not None:
            last = item
            if isinstance(item, str):
                _stop_if(cancel)
                yield item
    finally:
        context.run(items.close)
    return _whole(last)


class _Reader:
    """Reads a model's stream in one task of its own, which opens and closes all that the stream needs."""

    def __init__(self, request: Request, context: Context) -> None:
        self._request = request
        self._context = context
        self._pieces: asyncio.Queue[str | None] = asyncio.Queue()

    async def __aenter__(self) -> Self:
        self._task = _task(self._read(), self._context)
        _READING.add(self._task)
        self._task.add_done_callback(_READING.discard)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait({self._task})
        _retrieve(self._task)

    async def piece(self) -> str | None:
        """The next piece; ``None`` at the end."""
        return await self._pieces.get()

    async def completion(self) -> Completion:
        """All of it, at the end."""
        return await self._task

    async def _read(self) -> Completion:
        last: object = None
        try:
            async with aclosing(self._request.model.astream(self._request.messages, self._request.tools)) as items:
                async for item in items:
                    last = item
                    if isinstance(item, str):
                        self._pieces.put_nowait(item)
            return _whole(last)
        finally:
            self._pieces.put_nowait(None)


def _whole(last: object) -> Completion:
    if not isinstance(last, Completion):
        raise ModelError("the model's stream ended without a completion")
    return last


def _called(work: Callable[[], object], context: Context) -> object:
    value = context.run(_tame, work)
    if not inspect.isawaitable(value):
        return value
    # In a thread of its own, for this one may have an event loop that runs.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(context.run, asyncio.run, _awaited(value)).result()


async def _acalled(work: Callable[[], object], context: Context) -> object:
    if inspect.iscoroutinefunction(work):
        return await _task(work(), context)
    value = await _to_the_end(_THREADS.start(partial(context.run, _tame, work)))
    return await _task(_awaited(value), context) if inspect.isawaitable(value) else value


def _tame(work: Callable[[], object]) -> object:
    try:
        return work()
    except StopIteration as error:
        # A future cannot hold one: before Python 3.12 whoever waits for it would wait for ever.
        raise RuntimeError("the called function raised StopIteration") from error


async def _awaited(value: Awaitable[T]) -> T:
    return await value


def _task(coroutine: Coroutine[Any, Any, T], context: Context) -> asyncio.Task[T]:
    return asyncio.get_running_loop().create_task(coroutine, context=context)


async def _to_the_end(begun: Future[T]) -> T:
    """Wait for a thread; a cancellation is raised after its work, not instead of it, unless that has yet to begin."""
    work = asyncio.wrap_future(begun)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        begun.cancel()
        while not work.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({work})
        _retrieve(work)
        raise


def _retrieve(work: asyncio.Future[Any]) -> None:
    """Look at a result that no one wants, or asyncio logs that no one did."""
    if not work.cancelled():
        work.exception()
