"""Where a system runs, and how its methods are called: plain or async, one after another or at once.

Turns that follow one another run on one *lane*: one thread, or one task of one event loop, that lives as long as the
system. A context variable that a turn leaves behind is therefore seen by the next, as it would be in an application.
Turns that overlap get a lane each. A stream is driven and closed inside one lane.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError as FutureCancelled
from concurrent.futures import Future, wait
from contextlib import ExitStack, aclosing
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Final, Protocol

from anyio.from_thread import BlockingPortal, start_blocking_portal

from memtrace.errors import AdapterError, MemtraceError
from memtrace.harness.record.attribution import labelled
from memtrace.harness.running.store_system import with_loop
from memtrace.harness.system import Environment, Factory, check_claims, in_one_line
from memtrace.model import Fact, Outcome, Reply

Args = Sequence[Any]

_CLOSE_SECONDS: Final = 30.0
_LAST_SECONDS: Final = 1.0
"""How long a call that was given up may still take to end by itself as the system is closed."""


class NeverEnded(AdapterError):
    """A call of the system's did not end: nothing more can be asked of it."""


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """How a stream is consumed: left after so many pieces, or to its end."""

    leave_after: int | None = None


@dataclass(frozen=True, slots=True)
class Performed:
    """What came of calling a method. ``value`` is what it returned, where it is not a turn."""

    outcome: Outcome
    text: str = ""
    token: str = ""
    error: str = ""
    value: Any = None


class Host(Protocol):
    """One process that runs a system."""

    name: str

    def submit(
        self, method: str, args: Args, *, turn: str = "", overlap: bool = False, stream: StreamPlan | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Future[Performed]:  # fmt: skip
        """Call a method of the system; a turn's if ``turn`` labels it, on a lane of its own if it may ``overlap``."""

    def cancel(self, running: Future[Performed], caller: Any) -> None:
        """Cancel a running turn from outside."""

    def close(self) -> None:
        """Close the system."""


def open_system(factory: Factory, environment: Environment) -> Any:
    """A system that can be driven: its claims checked, and a loop around it where it is only a store.

    Raises:
        AdapterError: the factory raised, or the claims do not fit.
    """
    try:
        system = factory(environment)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # an adapter may raise anything
        raise AdapterError(_said(error)) from error
    check_claims(system)
    return with_loop(system, environment)


def _said(error: BaseException) -> str:
    """What a factory raised, in one line; memtrace's own errors say already all there is to say."""
    if isinstance(error, MemtraceError):
        return " ".join(str(error).split())
    return f"the factory raised {in_one_line(error)}"


class LocalHost:
    """Runs a system in this process."""

    def __init__(self, system: Any, name: str = "main") -> None:
        self.system = system
        self.name = name
        self._stack = ExitStack()
        self._lane = _ThreadLane()
        self._tasks: _TaskLane | None = None
        self._running: dict[Future[Performed], Future[None]] = {}
        self._open: set[Future[Performed]] = set()

    def submit(
        self, method: str, args: Args, *, turn: str = "", overlap: bool = False, stream: StreamPlan | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Future[Performed]:  # fmt: skip
        """Call a method on its lane; the future's result is a `Performed`, never an exception of the system's."""
        bound = getattr(self.system, method)
        if inspect.iscoroutinefunction(bound) or inspect.isasyncgenfunction(bound):
            future = self._on_loop(bound, args, turn, overlap, stream, options or {})
        else:
            future = self._on_thread(lambda: self._perform(bound, args, turn, stream, options or {}), overlap=overlap)
        self._open.add(future)
        future.add_done_callback(self._open.discard)
        return future

    def cancel(self, running: Future[Performed], caller: Any) -> None:
        """Cancel a running turn: its task, or through the system's ``cancel``."""
        if inspect.iscoroutinefunction(self.system.turn):
            self._running[running].cancel()
        else:
            self.system.cancel(caller)

    def close(self) -> None:
        """Close the system, then its lanes.

        Raises:
            NeverEnded: an earlier call, or closing itself, has not ended; its lanes are left to it.
            AdapterError: closing raised.
        """
        if wait(list(self._open), _LAST_SECONDS).not_done:
            raise NeverEnded("the system could not be closed: an earlier call has not ended")
        performed = answer_of(self.submit("close", ()), _CLOSE_SECONDS)
        self._lane.stop()
        if self._tasks is not None:
            self._tasks.stop()
        self._stack.close()
        if performed.error:
            raise AdapterError(f"close() raised {performed.error}")

    # Plain methods

    def _on_thread(self, job: Callable[[], Performed], *, overlap: bool) -> Future[Performed]:
        if not overlap:
            return self._lane.submit(job)
        future: Future[Performed] = Future()
        threading.Thread(target=lambda: _settle(future, job), daemon=True, name="overlapping turn").start()
        return future

    def _perform(
        self, bound: Callable[..., Any], args: Args, turn: str, stream: StreamPlan | None, options: Mapping[str, Any]
    ) -> Performed:
        said: list[str] = []
        try:
            with labelled(turn):
                value = bound(*args, **options)
                if stream is not None:
                    return _consumed(_take(value, stream, said), said)
                return _returned(value, is_turn=bool(turn))
        except BaseException as error:  # noqa: BLE001  a library may raise what is no Exception
            return self._failed(error, said)

    # Async methods

    def _on_loop(
        self, bound: Callable[..., Any], args: Args, turn: str, overlap: bool,
        stream: StreamPlan | None, options: Mapping[str, Any],
    ) -> Future[Performed]:  # fmt: skip
        lane = self._lane_of_tasks()

        async def job() -> Performed:
            said: list[str] = []
            try:
                with labelled(turn):
                    if stream is not None:
                        return _consumed(await _atake(bound(*args, **options), stream, said), said)
                    return _returned(await bound(*args, **options), is_turn=bool(turn))
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # noqa: BLE001  a library may raise what is no Exception
                return self._failed(error, said)

        return self._in_a_task(lane.loop, job) if overlap else lane.submit(job)

    def _in_a_task(self, loop: asyncio.AbstractEventLoop, job: Callable[[], Awaitable[Performed]]) -> Future[Performed]:
        """A task of its own. Its future is done when the task is, not when the task was told to stop."""
        ended: Future[Performed] = Future()

        async def run() -> None:
            try:
                ended.set_result(await job())
            except BaseException as error:  # whoever waits hears of it, whatever it is
                ended.set_exception(error)
                raise

        # Not through the portal, which waits for the loop: a callback that is held may be blocking it.
        self._running[ended] = asyncio.run_coroutine_threadsafe(run(), loop)
        return ended

    def _lane_of_tasks(self) -> _TaskLane:
        if self._tasks is None:
            self._tasks = _TaskLane(self._stack.enter_context(start_blocking_portal("asyncio")))
        return self._tasks

    # Outcomes

    def _failed(self, error: BaseException, said: list[str]) -> Performed:
        return Performed(self._outcome(error), text="".join(said), error=f"{type(error).__name__}: {error}")

    def _outcome(self, error: BaseException) -> Outcome:
        if isinstance(error, tuple(getattr(self.system, "refusals", ()))):
            return Outcome.REFUSED
        classify = getattr(self.system, "outcome_of", None)
        found = classify(error) if classify is not None else None
        return Outcome(found) if found is not None else Outcome.FAILED


def result_of(future: Future[Performed], within: float) -> Performed:
    """The result of a call, with cancellation and a call that does not end told as outcomes."""
    try:
        return future.result(within)
    except (FutureCancelled, asyncio.CancelledError):
        return Performed(Outcome.CANCELLED)
    except TimeoutError:
        return Performed(Outcome.FAILED, error=f"did not end within {within:g} s")


def answer_of(future: Future[Performed], within: float) -> Performed:
    """The result of a call.

    Raises:
        NeverEnded: it has not ended in time.
    """
    performed = result_of(future, within)
    if not future.done():
        raise NeverEnded(f"a call of the system's {performed.error}")
    return performed


def _returned(value: Any, *, is_turn: bool) -> Performed:
    if not is_turn:
        return Performed(Outcome.OK, value=value)
    if not isinstance(value, Reply):
        raise AdapterError(f"a turn must return memtrace.model.Reply, not {type(value).__name__}")
    if not isinstance(value.outcome, Outcome) or not isinstance(value.text, str) or not isinstance(value.token, str):
        raise AdapterError(f"a Reply holds an Outcome and two str, not {value!r:.200}")
    return Performed(value.outcome, value.text, value.token)


def _consumed(outcome: Outcome, said: list[str]) -> Performed:
    return Performed(outcome, "".join(said))


def _take(pieces: Iterator[str], plan: StreamPlan, said: list[str]) -> Outcome:
    if not isinstance(pieces, Iterable):
        raise AdapterError(f"stream() must be a generator or an async generator, not return {type(pieces).__name__}")
    for piece in pieces:
        said.append(_text(piece))
        if plan.leave_after is not None and len(said) >= plan.leave_after:
            close = getattr(pieces, "close", None)
            if close is not None:
                close()
            return Outcome.ABANDONED
    return Outcome.OK


async def _atake(pieces: AsyncGenerator[str, None], plan: StreamPlan, said: list[str]) -> Outcome:
    if not isinstance(pieces, AsyncGenerator):
        raise AdapterError(f"stream() must be a generator or an async generator, not return {type(pieces).__name__}")
    async with aclosing(pieces):
        async for piece in pieces:
            said.append(_text(piece))
            if plan.leave_after is not None and len(said) >= plan.leave_after:
                return Outcome.ABANDONED
    return Outcome.OK


def _text(piece: object) -> str:
    if not isinstance(piece, str):
        raise AdapterError(f"stream() must yield str, not {type(piece).__name__}")
    return piece


def _settle(future: Future[Performed], job: Callable[[], Performed]) -> None:
    try:
        future.set_result(job())
    except BaseException as error:  # noqa: BLE001  whatever it is, the one who waits must see it
        future.set_exception(error)


class _ThreadLane:
    """One thread that runs jobs one after another; a job that never ends does not keep the process."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[tuple[Callable[[], Performed], Future[Performed]] | None] = SimpleQueue()
        threading.Thread(target=self._serve, daemon=True, name="turns").start()

    def submit(self, job: Callable[[], Performed]) -> Future[Performed]:
        future: Future[Performed] = Future()
        self._queue.put((job, future))
        return future

    def _serve(self) -> None:
        while (item := self._queue.get()) is not None:
            job, future = item
            _settle(future, job)

    def stop(self) -> None:
        self._queue.put(None)


class _TaskLane:
    """One task that runs jobs one after another, in its own context."""

    def __init__(self, portal: BlockingPortal) -> None:
        self.loop = portal.call(self._get_loop)
        self._queue: asyncio.Queue[tuple[Callable[[], Awaitable[Performed]], Future[Performed]] | None]
        self._queue = portal.call(self._make_queue)
        self._serving = portal.start_task_soon(self._serve)

    async def _get_loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async def _make_queue(self) -> asyncio.Queue[Any]:
        return asyncio.Queue()

    def submit(self, job: Callable[[], Awaitable[Performed]]) -> Future[Performed]:
        future: Future[Performed] = Future()
        self.loop.call_soon_threadsafe(self._queue.put_nowait, (job, future))
        return future

    async def _serve(self) -> None:
        while (item := await self._queue.get()) is not None:
            job, future = item
            try:
                future.set_result(await job())
            except BaseException as error:  # noqa: BLE001  whatever it is, the one who waits must see it
                future.set_exception(error)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self._queue.put_nowait, None)


def as_facts(value: Any) -> tuple[Fact, ...]:
    """What a system's ``facts`` returned, checked."""
    facts = tuple(value)
    if not all(isinstance(fact, Fact) for fact in facts):
        raise AdapterError("facts() must return memtrace.model.Fact objects")
    return facts
