"""Instrument code without rewriting it: `traced` wraps a function, `instrument` the methods of an object.

A wrapper is of its function's kind: plain, coroutine, generator or async generator. A wrapped generator runs in a
context of its own, copied when it is first stepped (as a task's is when it is made): its span is current while it runs
and never for its consumer, and whoever closes it, from whichever task or thread, ends the span and touches no other.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextvars import Context, copy_context
from functools import wraps
from types import AsyncGeneratorType, CoroutineType, GeneratorType, TracebackType, coroutine
from typing import Any, Final, Self, TypedDict, TypeVar, Unpack, cast
from weakref import finalize

from memtrace.calls import Call
from memtrace.errors import UsageError
from memtrace.operation import Operation
from memtrace.tracing import Tracing, default

Function = TypeVar("Function", bound=Callable[..., Any])
Names = str | Sequence[str]

_MARK: Final = "__memtrace_operation__"
_LATER: Final = (CoroutineType, GeneratorType, AsyncGeneratorType)


class Parameters(TypedDict, total=False):
    """Which parameter holds what a span says, where it has none of the usual names (`calls.USUAL_NAMES`)."""

    query: str
    user: str
    session: str
    messages: str
    system: str
    model: str


class Methods(TypedDict, total=False):
    """Which methods do what: a name, or several."""

    read: Names
    retrieve: Names
    write: Names
    persist: Names
    update: Names
    forget: Names
    model_call: Names
    tool: Names
    turn: Names


def traced(
    operation: str, *, name: str = "", tracing: Tracing | None = None, **parameters: Unpack[Parameters]
) -> Callable[[Function], Function]:
    """A decorator: each call of the function is a span of this operation (one of `calls.OPERATIONS`).

    ``name`` is the agent's, the tool's, or the model's where the call does not say it. What the span says of the call
    is taken from its arguments and its result: a prompt from ``messages``, a list from a read, an answer from a model
    call in the form of the usual APIs. A coroutine, generator or async generator is followed to its end, whether the
    function is one or returns one; a client library's own stream object is not, and its span ends as the stream begins.

    Raises:
        UsageError: no such operation, or the function has no such parameter.
    """

    def wrap(function: Function) -> Function:
        if isinstance(function, (staticmethod, classmethod)):
            return type(function)(wrap(function.__func__))
        call = Call(
            function, operation, tracing=tracing or default, name=name, parameters=cast("dict[str, str]", parameters)
        )
        wrapper = _shell(function)(function, call)
        setattr(wrapper, _MARK, operation)
        return wrapper  # type: ignore[return-value]  # a function of the same signature

    return wrap


def instrument(
    target: object,
    *,
    name: str = "",
    tracing: Tracing | None = None,
    parameters: Parameters | None = None,
    **methods: Unpack[Methods],
) -> Callable[[], None]:
    """Wrap methods of an object, or functions of a class or module, as `traced` does; returns what undoes it.

    ::

        memtrace.instrument(my_memory, read="get_context", write="add_turn")
        memtrace.instrument(client.chat.completions, model_call="create")

    What is wrapped already stays as it is.

    Raises:
        UsageError: there is no such method, or the object does not let its methods be replaced.
    """
    found = [(operation, method) for operation, names in methods.items() for method in _listed(names)]
    for operation, method in found:
        if not callable(getattr(target, method, None)):
            raise UsageError(f"{operation}={method!r}: {_title(target)} has no method of that name")
    undo: list[Callable[[], None]] = []

    def restore() -> None:
        while undo:
            undo.pop()()

    try:
        for operation, method in found:
            if not isinstance(getattr(getattr(target, method), _MARK, None), str):
                wrap = traced(operation, name=name, tracing=tracing, **(parameters or {}))
                undo.append(_replace(target, method, wrap))
    except UsageError:
        restore()
        raise
    return restore


def _listed(names: object) -> list[str]:
    return [names] if isinstance(names, str) else list(names)  # type: ignore[call-overload]  # Names


def _replace(target: object, method: str, wrap: Callable[[Any], Any]) -> Callable[[], None]:
    """Put the wrapper in the method's place; returns what puts it back."""
    before: dict[str, Any] = dict(getattr(target, "__dict__", {}))
    # A class's static and class methods are wrapped as such, not as what they are bound to.
    function = inspect.getattr_static(target, method) if isinstance(target, type) else getattr(target, method)
    try:
        setattr(target, method, wrap(function))
    except (AttributeError, TypeError, ValueError) as error:
        raise UsageError(f"{_title(target)} does not let {method!r} be replaced: instrument its class") from error
    if method in before:
        return lambda: setattr(target, method, before[method])
    return lambda: delattr(target, method)


def _title(target: object) -> str:
    return target.__qualname__ if isinstance(target, type) else f"this {type(target).__qualname__}"


def _shell(function: Callable[..., Any]) -> Callable[[Callable[..., Any], Call], Callable[..., Any]]:
    """The wrapper for functions of this kind."""
    if inspect.isasyncgenfunction(function):
        return _async_generator_shell
    if inspect.isgeneratorfunction(function):
        return _generator_shell
    return _coroutine_shell if inspect.iscoroutinefunction(function) else _plain_shell


def _plain_shell(function: Callable[..., Any], call: Call) -> Callable[..., Any]:
    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        if call.idle:
            return function(*args, **kwargs)
        with call.open(args, kwargs) as span:
            return _passed_on(call, span, function(*args, **kwargs))

    return run


def _coroutine_shell(function: Callable[..., Any], call: Call) -> Callable[..., Any]:
    @wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        if call.idle:
            return await function(*args, **kwargs)
        return await _awaited(call, call.open(args, kwargs), function(*args, **kwargs))

    return run


def _generator_shell(function: Callable[..., Any], call: Call, kept: Operation | None = None) -> Callable[..., Any]:
    @wraps(function)
    def run(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        if kept is None and call.idle:
            return (yield from function(*args, **kwargs))
        work = function(*args, **kwargs)
        with _Stepping(call, kept or call.open(args, kwargs)) as stepping:
            return (yield from _driven(stepping.context, work, stepping.add))

    return run


def _async_generator_shell(
    function: Callable[..., Any], call: Call, kept: Operation | None = None
) -> Callable[..., Any]:
    @wraps(function)
    async def run(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        work = function(*args, **kwargs)
        with _Stepping(call, kept or call.open(args, kwargs)) as stepping:
            step = _first_step(work)
            try:
                while True:
                    try:
                        piece = await _inside(stepping.context, step)
                    except StopAsyncIteration:
                        return
                    stepping.add(piece)
                    try:
                        step = work.asend((yield piece))
                    except BaseException as error:  # noqa: BLE001  what is thrown in is the work's to handle
                        step = work.athrow(error)
            finally:
                del step  # An exception that reaches this frame would keep itself alive.

    return run


def _passed_on(call: Call, span: Operation, result: Any) -> Any:
    """The result; where it is work that has yet to be done, that work with the span kept open over it."""
    if not isinstance(result, _LATER):
        call.tell(span, result)
        return result
    span.keep()
    if isinstance(result, CoroutineType):
        later: Any = _awaited(call, span, result)
    else:
        shell = _generator_shell if isinstance(result, GeneratorType) else _async_generator_shell
        later = shell(lambda: result, call, span)()
    finalize(later, span.abandon)
    return later


async def _awaited(call: Call, span: Operation, work: Awaitable[Any]) -> Any:
    with span:
        return _passed_on(call, span, await work)


class _Stepping:
    """A span that is current in a context of its own, and what its work has given so far."""

    __slots__ = ("_call", "_pieces", "_span", "context")

    def __init__(self, call: Call, span: Operation) -> None:
        self._call, self._span = call, span
        self._pieces: list[object] = []
        self.context = copy_context()

    def add(self, piece: object) -> None:
        """Remember a piece, if the span may say something of it."""
        if self._span.recording:
            self._pieces.append(piece)

    def __enter__(self) -> Self:
        self.context.run(self._span.__enter__)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._call.tell_pieces(self._span, self._pieces)
        self.context.run(self._span.__exit__, kind, error, traceback)


def _driven(context: Context, work: Generator[Any, Any, Any], seen: Callable[[Any], None]) -> Generator[Any, Any, Any]:
    """``yield from work``, each step of which runs inside the context."""
    step: Callable[[Any], Any] = work.send
    value: Any = None
    try:
        while True:
            try:
                piece = context.run(step, value)
            except StopIteration as stop:
                return stop.value
            seen(piece)
            try:
                step, value = work.send, (yield piece)
            except BaseException as error:  # noqa: BLE001  what is thrown in is the work's to handle
                step, value = work.throw, error
    finally:
        del value  # An exception that reaches this frame would keep itself alive.


def _first_step(work: AsyncGenerator[Any, Any]) -> Awaitable[Any]:
    """The first step, unknown to the event loop: as it ends it closes each generator it knows, in a task of its own.

    The wrapper is known to it, and closes the work in the work's context.
    """
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(None, None)
    try:
        return work.asend(None)
    finally:
        sys.set_asyncgen_hooks(*hooks)


@coroutine
def _inside(context: Context, work: Awaitable[Any]) -> Generator[Any, Any, Any]:
    """``await work``, each step of which runs inside the context, in the same task."""
    return (yield from _driven(context, work.__await__(), _ignore))


def _ignore(_: object) -> None:
    """What an ``await`` passes up is the event loop's."""
