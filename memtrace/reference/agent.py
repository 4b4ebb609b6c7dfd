"""An agent with a memory, and the ways into a turn of it: plain or async, whole or streamed, new, resumed or forked."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterator, Sequence
from typing import Self

from memtrace.model import Message
from memtrace.reference import drivers
from memtrace.reference.checkpoints import Checkpoints
from memtrace.reference.drivers import Cancellable
from memtrace.reference.effects import Core
from memtrace.reference.guardrails import Guardrail
from memtrace.reference.middleware import Middleware
from memtrace.reference.models import Model
from memtrace.reference.outcomes import RunResult
from memtrace.reference.plan import NoMemory, OpensTurns, Plan, Role
from memtrace.reference.tools import Usable
from memtrace.reference.turn import Turn
from memtrace.tracing import Tracing


class StreamedRun:
    """The pieces of an answer as they come. Left before its end, by `close` or for ever, the turn is abandoned."""

    __slots__ = ("_core", "_pieces")

    def __init__(self, core: Core[RunResult], pieces: Generator[str, None, None]) -> None:
        self._core = core
        self._pieces = pieces

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        return next(self._pieces)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the stream."""
        self._pieces.close()

    @property
    def result(self) -> RunResult:
        """What the turn came to, once the stream has been read to its end.

        Raises:
            UsageError: it has not.
        """
        return self._core.result


class AsyncStreamedRun:
    """As `StreamedRun`, on an event loop."""

    __slots__ = ("_core", "_pieces")

    def __init__(self, core: Core[RunResult], pieces: AsyncGenerator[str, None]) -> None:
        self._core = core
        self._pieces = pieces

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    async def __anext__(self) -> str:
        return await anext(self._pieces)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Leave the stream."""
        await self._pieces.aclose()

    @property
    def result(self) -> RunResult:
        """What the turn came to, once the stream has been read to its end.

        Raises:
            UsageError: it has not.
        """
        return self._core.result


class Runnable:
    """The ways into a turn. All of them read and write memory alike.

    Each raises `Blocked` where a guardrail refused the input or the answer, `IterationLimit` where the model never came
    to an answer, `Cancelled` where ``cancel`` was set, and otherwise whatever a model, tool, step or store raised; then
    nothing of the turn is kept. A run that waits for an approval is a result, with a ``token``.

    Args, of all of them:
        context: tells memory's resolver who asks. Without it nobody can tell.
        messages: earlier messages to put before the input, which memory does not keep.
        cancel: stops the turn once it is set, before the next model call, tool, piece of the stream, or the write.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        if plan.checkpoints is not None:
            plan.memory.on_erase(plan.checkpoints.erase)

    def run(
        self,
        text: str,
        *,
        context: object | None = None,
        messages: Sequence[Message] = (),
        cancel: Cancellable | None = None,
    ) -> RunResult:
        """Answer a user."""
        return drivers.run(self._new(text, context, messages), cancel)

    async def arun(self, text: str, *, context: object | None = None, messages: Sequence[Message] = ()) -> RunResult:
        """Answer a user. Cancelling the task cancels the turn."""
        return await drivers.arun(self._new(text, context, messages))

    def stream(
        self,
        text: str,
        *,
        context: object | None = None,
        messages: Sequence[Message] = (),
        cancel: Cancellable | None = None,
    ) -> StreamedRun:
        """Answer a user as the answer comes. The turn begins with the first piece that is asked for."""
        core = self._new(text, context, messages, streamed=True)
        return StreamedRun(core, drivers.pieces(core, cancel))

    def astream(
        self, text: str, *, context: object | None = None, messages: Sequence[Message] = ()
    ) -> AsyncStreamedRun:
        """As `stream`. Cancelling the task that waits for a piece cancels the turn."""
        core = self._new(text, context, messages, streamed=True)
        return AsyncStreamedRun(core, drivers.apieces(core))

    def resume(
        self, token: str, *, approved: bool, context: object | None = None, cancel: Cancellable | None = None
    ) -> RunResult:
        """Go on with a paused run, once: its call is made, or the model is told that it was not approved.

        Raises:
            ResumeRefused: it is not this caller's, or was resumed already.
        """
        return drivers.run(self._paused(token, context, approved=approved), cancel)

    async def aresume(self, token: str, *, approved: bool, context: object | None = None) -> RunResult:
        """As `resume`."""
        return await drivers.arun(self._paused(token, context, approved=approved))

    def fork(
        self, token: str, *, approved: bool, context: object | None = None, cancel: Cancellable | None = None
    ) -> RunResult:
        """Run once more from where a run paused, whether it was resumed or not.

        Raises:
            ResumeRefused: it is not this caller's.
        """
        return drivers.run(self._paused(token, context, approved=approved, fork=True), cancel)

    async def afork(self, token: str, *, approved: bool, context: object | None = None) -> RunResult:
        """As `fork`."""
        return await drivers.arun(self._paused(token, context, approved=approved, fork=True))

    def _new(
        self, text: str, context: object | None, messages: Sequence[Message], *, streamed: bool = False
    ) -> Core[RunResult]:
        return Core(Turn(self.plan, context, streamed=streamed).begin(text, messages))

    def _paused(self, token: str, context: object | None, *, approved: bool, fork: bool = False) -> Core[RunResult]:
        return Core(Turn(self.plan, context).resume(token, approved=approved, fork=fork))


class Agent(Runnable):
    """A model with a memory.

    Args:
        name: what it is called, on spans and by other agents.
        model: what answers.
        memory: what it knows of whoever asks; without one, nothing.
        system_prompt: comes first in every prompt.
        tools: what the model may use; `MEMORY_TOOLS` are those of memory.
        guardrails: checks of the input and of the answer.
        middleware: changes what every model is sent, memory's own included, and the reply.
        max_iterations: model calls a turn may make.
        checkpoints: where paused runs wait; needed where a tool needs approval.
        after_run: a step of the application's after the answer, given the answer; plain or ``async def``. The turn
            succeeds only if it does.
        tracing: where spans go.

    Raises:
        UsageError: it could not run as it stands.
    """

    def __init__(
        self,
        name: str,
        model: Model,
        memory: OpensTurns | None = None,
        *,
        system_prompt: str = "",
        tools: Sequence[Usable] = (),
        guardrails: Sequence[Guardrail] = (),
        middleware: Sequence[Middleware] = (),
        max_iterations: int = 10,
        checkpoints: Checkpoints | None = None,
        after_run: Callable[[str], object] | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        super().__init__(
            Plan(
                name,
                (Role(name, model, system_prompt, tuple(tools)),),
                memory=memory or NoMemory(),
                guardrails=tuple(guardrails),
                middleware=tuple(middleware),
                max_iterations=max_iterations,
                checkpoints=checkpoints,
                after_run=(after_run,) if after_run else (),
                tracing=tracing or Tracing(),
            )
        )
