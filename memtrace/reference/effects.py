"""A turn is a generator of effects: it says what is to be done, and is sent what came of it.

So there is one implementation of the agent, and two drivers that perform effects: plainly, and on an event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from memtrace.errors import UsageError
from memtrace.model import Message
from memtrace.reference.models import Model, ToolSpec

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """What a model is sent."""

    model: Model
    messages: Sequence[Message]
    tools: tuple[ToolSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class Complete:
    """Ask a model; sent its `Completion`."""

    request: Request


@dataclass(frozen=True, slots=True)
class Stream:
    """Ask a model for its answer, and give its pieces to whoever reads the turn's stream; sent the `Completion`."""

    request: Request


@dataclass(frozen=True, slots=True)
class Blocking:
    """Call what may block; sent what it returns, awaited where it can be."""

    work: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Emit:
    """Give a piece of text to whoever reads the turn's stream."""

    text: str


@dataclass(frozen=True, slots=True)
class Proceed:
    """May the turn go on? Asked where nothing is begun, so that a turn that may not leaves nothing half-told."""


Effect = Complete | Stream | Blocking | Emit | Proceed
Steps = Generator[Effect, Any, T]


class Core(Generic[T]):
    """A turn's steps, and the context that they alone run in.

    The context is a copy of the one it is made in. What the steps leave in it, such as the current span, is never seen
    by who reads the turn's stream; and it is there again whichever thread or task takes or closes the next step.
    """

    def __init__(self, steps: Steps[T]) -> None:
        self._steps = steps
        self._context = copy_context()
        self._result: tuple[T] | None = None

    @property
    def result(self) -> T:
        """What the turn came to.

        Raises:
            UsageError: it has not come to its end.
        """
        if self._result is None:
            raise UsageError("the turn has no result: its stream was not read to the end")
        return self._result[0]

    def advance(self, value: object = None) -> Effect | None:
        """Send what came of the last effect; the next one, or ``None`` at the end."""
        return self._step(self._steps.send, value)

    def fail(self, error: BaseException) -> Effect | None:
        """Raise what the last effect raised where the turn asked for it."""
        return self._step(self._steps.throw, error)

    def close(self) -> None:
        """Abandon the turn, if it has not ended."""
        self._context.run(self._steps.close)

    def context(self) -> Context:
        """The context to perform an effect in: the turn's as it is now, and a copy, for a thread may outlive it."""
        return self._context.copy()

    def _step(self, resume: Callable[[Any], Effect], value: object) -> Effect | None:
        try:
            return self._context.run(resume, value)
        except StopIteration as stop:
            self._result = (stop.value,)
            return None
