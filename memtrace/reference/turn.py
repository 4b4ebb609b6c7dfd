"""One turn of an agent, from the question to what is kept of it: the only implementation of the loop.

Read, run, write (*How memory works*, one turn step by step). The prompt is the system prompt, the blocks and the window
of memory, the history passed in, this turn's input, then what the model and its tools have said since. Memory is
written once, after the last thing that can fail, be blocked, wait or be cancelled; whatever happens before, nothing is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Final

from memtrace.model import Author, Message, Outcome, ToolCall
from memtrace.reference.checkpoints import Checkpoints, Owner, ResumeRefused
from memtrace.reference.effects import Blocking, Complete, Emit, Proceed, Request, Steps, Stream
from memtrace.reference.guardrails import Blocked, Position
from memtrace.reference.middleware import outgoing_of, reply_of, sent
from memtrace.reference.models import Completion
from memtrace.reference.outcomes import IterationLimit, RunResult, outcome_of
from memtrace.reference.plan import NoMemory, Plan, Role, TurnMemory
from memtrace.reference.progress import Progress
from memtrace.reference.tools import ArgumentsError, Usable, arguments_of
from memtrace.tracing import TurnSpan

NOT_APPROVED: Final = "This call was not approved. It was not made."


class Turn:
    """One turn of a plan, for one caller. It is used once.

    Args:
        plan: what is run.
        context: the run's context, which tells who asks.
        streamed: whether someone reads the answer as it comes.
    """

    memory: TurnMemory
    """Opened once, so that it is written for whom it was read."""
    owner: Owner

    def __init__(self, plan: Plan, context: object | None, *, streamed: bool = False) -> None:
        self.plan = plan
        self._context = context
        self._streamed = streamed
        self._outgoing = outgoing_of(plan.middleware)

    def begin(self, question: str, history: Sequence[Message] = ()) -> Steps[RunResult]:
        """A new turn."""
        with self._span() as span:
            yield from self._open(span)
            yield from self._guard("input", question)
            progress = Progress(question, self.plan.roles[0].name, tuple(history))
            return (yield from self._finish(span, progress))

    def resume(self, token: str, *, approved: bool, fork: bool) -> Steps[RunResult]:
        """A paused turn from where it paused, or a fork of it."""
        with self._span() as span:
            yield from self._open(span)
            if self.plan.checkpoints is None:
                raise ResumeRefused(f"{self.plan.name!r} has no paused runs: it was made without checkpoints=")
            take = self.plan.checkpoints.fork if fork else self.plan.checkpoints.resume
            progress: Progress = yield Blocking(partial(take, token, self.plan.name, self.owner))
            return (yield from self._finish(span, progress, approved=approved))

    def delegate(self, plan: Plan, task: str, progress: Progress) -> Steps[str]:
        """A worker's answer to a task that the model of this turn made up.

        The task is no user's message and the answer goes to no user: the worker's memory is read, never written. What
        its model asks memory to do is queued with this turn's. What this turn redacts, the worker's redacts too.
        """
        middleware = (*self.plan.middleware, *plan.middleware)
        worker = Turn(replace(plan, middleware=middleware, tracing=self.plan.tracing), self._context)
        return (yield from worker._work(self, task, progress))

    def _work(self, boss: Turn, task: str, progress: Progress) -> Steps[str]:
        with self._span() as span:
            yield from self._open(span, of=boss)
            yield from self._guard("input", task)
            asked = Message(Author.USER, f"Task delegated by {boss.plan.name}:\n{task}")
            own = Progress(task, self.plan.roles[0].name, queued=progress.queued)
            answer = yield from self._answer(asked, own)
            span.outcome(Outcome.OK)
            return answer or ""

    def _finish(self, span: TurnSpan, progress: Progress, *, approved: bool | None = None) -> Steps[RunResult]:
        answer = yield from self._answer(Message(Author.USER, progress.question), progress, approved=approved)
        yield Proceed()
        if answer is None:
            token = yield from self._pause(progress)
            result = RunResult("", Outcome.PAUSED, token, progress.messages)
        else:
            yield Blocking(partial(self._keep, progress, answer))
            result = RunResult(answer, Outcome.OK, "", (*progress.messages, Message(Author.ASSISTANT, answer)))
        span.outcome(result.outcome)
        return result

    # Memory

    def _open(self, span: TurnSpan, of: Turn | None = None) -> Steps[None]:
        self.memory = yield Blocking(partial(self._opened, of))
        self.owner = Owner(self.memory.requester, self.plan.memory.project_id)
        if self.memory.requester is not None:
            span.requester(self.memory.requester)

    def _opened(self, of: Turn | None) -> TurnMemory:
        memory = self.plan.memory
        if of is not None and memory is of.plan.memory:
            return of.memory
        opened = memory.open(self._context, outgoing=self._outgoing)
        if of is None or isinstance(of.memory, NoMemory) or Owner(opened.requester, memory.project_id) == of.owner:
            return opened
        # The context changed as the turn ran, or two memories disagree: a worker sees no one but the turn's caller.
        return NoMemory()

    def _keep(self, progress: Progress, answer: str) -> None:
        for queued in progress.queued:
            if queued.verb == "remember":
                self.memory.remember(queued.text)
            else:
                self.memory.forget(queued.text)
        self.memory.write(progress.question, answer)

    def _pause(self, progress: Progress) -> Steps[str]:
        checkpoints = self.plan.checkpoints
        assert checkpoints is not None  # noqa: S101  a plan without them has no tool that waits
        token: str = yield Blocking(partial(self._saved, checkpoints, progress))
        return token

    def _saved(self, checkpoints: Checkpoints, progress: Progress) -> str:
        token = checkpoints.save(self.plan.name, self.owner, progress)
        if self.memory.erased:
            checkpoints.discard(token)
        return token

    # The loop

    def _answer(self, asked: Message, progress: Progress, *, approved: bool | None = None) -> Steps[str | None]:
        """The answer, as its user gets it; ``None`` where the run must wait for an approval."""
        recalled: list[Message] = yield Blocking(partial(self.memory.read, progress.question))
        text = yield from self._loop(recalled, asked, progress, approved)
        if text is None:
            return None
        answer = reply_of(self.plan.middleware)(text)
        yield from self._guard("output", answer)
        if answer and self._streamed and not self.plan.streams_live:
            yield Emit(answer)
        for step in self.plan.after_run:
            yield Blocking(partial(step, answer))
        return answer

    def _loop(
        self, recalled: list[Message], asked: Message, progress: Progress, approved: bool | None
    ) -> Steps[str | None]:
        while (yield from self._use_tools(progress, approved)):
            approved = None
            role = self.plan.role(progress.role)
            yield Proceed()
            completion = yield from self._ask(role, (*recalled, *progress.history, asked, *progress.trail))
            progress.calls += 1
            if not completion.tool_calls:
                return completion.text
            if progress.calls >= self.plan.max_iterations:
                raise IterationLimit(f"no answer after {progress.calls} model calls (max_iterations)")
            progress.trail.append(Message(Author.ASSISTANT, completion.text, completion.tool_calls))
        return None

    def _ask(self, role: Role, messages: Sequence[Message]) -> Steps[Completion]:
        if role.system_prompt:
            messages = (Message(Author.SYSTEM, role.system_prompt), *messages)
        request = Request(role.model, sent(messages, self._outgoing), tuple(tool.spec for tool in role.tools))
        live = self._streamed and self.plan.streams_live
        with self.plan.tracing.model_call(role.model.name, request.messages) as call:
            completion: Completion = yield Stream(request) if live else Complete(request)
            call.replied(
                completion.text,
                tool_calls=completion.tool_calls,
                finish=completion.finish,
                input_tokens=completion.input_tokens,
                output_tokens=completion.output_tokens,
            )
        return completion

    def _use_tools(self, progress: Progress, approved: bool | None) -> Steps[bool]:
        """Use what the model called; false where a call has to wait for an approval."""
        role = self.plan.role(progress.role)
        for call in progress.pending():
            tool = role.tool(call.name)
            if tool is not None and tool.approval and approved is None:
                return False
            if tool is not None and tool.approval and not approved:
                result = NOT_APPROVED
            else:
                yield Proceed()
                result = yield from self._use(tool, call, progress)
            approved = None
            progress.trail.append(Message(Author.TOOL, result, tool_call_id=call.id))
        if progress.heir:
            progress.role, progress.heir = progress.heir, ""
        return True

    def _use(self, tool: Usable | None, call: ToolCall, progress: Progress) -> Steps[str]:
        if tool is None:
            return f"There is no tool {call.name!r}."
        with self.plan.tracing.tool(tool.name, call.id):
            try:
                arguments = arguments_of(call, tool.spec)
            except ArgumentsError as error:
                return str(error)
            return (yield from tool.use(self, progress, arguments))

    def _guard(self, on: Position, text: str) -> Steps[None]:
        for guardrail in self.plan.guardrails:
            if guardrail.on == on and not (yield Blocking(partial(guardrail.check, text))):
                raise Blocked(guardrail.name, on)

    @contextmanager
    def _span(self) -> Iterator[TurnSpan]:
        with self.plan.tracing.turn(self.plan.name) as span:
            try:
                yield span
            except BaseException as error:  # however it ends, a cancellation too, the span says how
                span.outcome(outcome_of(error))
                raise
