"""The two that perform a turn's effects: one plainly, one on an event loop. Each yields the pieces of its stream.

Both keep to the same manners. An effect that raises, raises inside the turn. Whoever leaves a stream early, from
whatever task or thread, or just forgets it, abandons the turn. A cancelled turn first lets a running `Blocking` effect
end: a write is whole, and nothing of a turn goes on after it.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, closing, suppress
from contextvars import Context
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from memtrace.errors import MemtraceError
from memtrace.reference.effects import Blocking, Complete, Core, Effect, Emit, Stream
from memtrace.reference.models import Completion, ModelError

T = TypeVar("T")
_END: Final = None


class Cancelled(MemtraceError):
    """The turn was cancelled; nothing of it is kept."""


class Cancellation:
    """Set from any thread, it stops a turn before its next step. A `threading.Event` will do as well."""

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


@dataclass(frozen=True, slots=True)
class _Done:
    """What came of an effect."""

    value: object = None


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
                _stop_if(cancel)
                with closing(_performed(effect, core.context())) as items:
                    for item in items:
                        if isinstance(item, _Done):
                            value = item.value
                        else:
                            _stop_if(cancel)
                            yield item
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001  it is the turn's: its spans must hear of it
                effect = core.fail(error)
            else:
                effect = core.advance(value)


async def apieces(core: Core[Any]) -> AsyncGenerator[str, None]:
    """The pieces of a turn's stream."""
    with closing(core):
        effect = core.advance()
        while effect is not None:
            value: object = None
            try:
                async with aclosing(_aperformed(effect, core.context())) as items:
                    async for item in items:
                        if isinstance(item, _Done):
                            value = item.value
                        else:
                            yield item
            except GeneratorExit:
                raise
            except BaseException as error:  # noqa: BLE001  it is the turn's: its spans must hear of it
                effect = core.fail(error)
            else:
                effect = core.advance(value)


def _stop_if(cancel: Cancellable | None) -> None:
    if cancel is not None and cancel.is_set():
        raise Cancelled("the turn was cancelled")


def _performed(effect: Effect, context: Context) -> Generator[str | _Done, None, None]:
    match effect:
        case Emit(text):
            yield text
            yield _Done()
        case Blocking(work):
            yield _Done(_called(work, context))
        case Complete(request):
            yield _Done(context.run(request.model.complete, request.messages, request.tools))
        case Stream():
            yield from _streamed(effect, context)


async def _aperformed(effect: Effect, context: Context) -> AsyncGenerator[str | _Done, None]:
    match effect:
        case Emit(text):
            yield text
            yield _Done()
        case Blocking(work):
            yield _Done(await _acalled(work, context))
        case Complete(request):
            yield _Done(await _task(request.model.acomplete(request.messages, request.tools), context))
        case Stream():
            async with aclosing(_astreamed(effect, context)) as items:
                async for item in items:
                    yield item


def _called(work: Callable[[], object], context: Context) -> object:
    value = context.run(work)
    if not inspect.isawaitable(value):
        return value
    # In a thread of its own, for this one may have an event loop that runs.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(context.run, asyncio.run, _awaited(value)).result()


async def _acalled(work: Callable[[], object], context: Context) -> object:
    if inspect.iscoroutinefunction(work):
        return await _task(work(), context)
    value = await _to_the_end(asyncio.get_running_loop().run_in_executor(None, context.run, _tame, work))
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


async def _to_the_end(work: asyncio.Future[T]) -> T:
    """Wait for a thread; a cancellation is raised after its work, not instead of it."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        while not work.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait({work})
        _retrieve(work)
        raise


def _retrieve(work: asyncio.Future[Any]) -> None:
    """Look at a result that no one wants, or asyncio logs that no one did."""
    if not work.cancelled():
        work.exception()


def _streamed(effect: Stream, context: Context) -> Generator[str | _Done, None, None]:
    last: object = None
    items = effect.request.model.stream(effect.request.messages, effect.request.tools)
    try:
        while (item := context.run(next, items, _END)) is not _END:
            last = item
            if isinstance(item, str) and not effect.held:
                yield item
    finally:
        context.run(items.close)
    yield _Done(_whole(last))


async def _astreamed(effect: Stream, context: Context) -> AsyncGenerator[str | _Done, None]:
    last: object = None
    source = effect.request.model.astream(effect.request.messages, effect.request.tools)
    async with aclosing(_driven(source, context)) as items:
        async for item in items:
            last = item
            if isinstance(item, str) and not effect.held:
                yield item
    yield _Done(_whole(last))


def _whole(last: object) -> Completion:
    if not isinstance(last, Completion):
        raise ModelError("the model's stream ended without a completion")
    return last


async def _driven(source: AsyncGenerator[T, None], context: Context) -> AsyncGenerator[T, None]:
    """The items of a stream that one task of its own reads and closes: what it opens, it leaves where it opened it."""
    queue: asyncio.Queue[T | None] = asyncio.Queue()

    async def drive() -> None:
        try:
            async with aclosing(source):
                async for item in source:
                    queue.put_nowait(item)
        finally:
            queue.put_nowait(_END)

    driver = _task(drive(), context)
    try:
        while (item := await queue.get()) is not _END:
            yield item
        await driver
    finally:
        driver.cancel()
        await asyncio.wait({driver})
        _retrieve(driver)
