"""The reference memory as a system under test: one memory and one agent for each agent id and project, on one store."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final, cast

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import NoOpTracerProvider

from memtrace.errors import UsageError
from memtrace.export import otlp
from memtrace.harness.system import APPROVAL_TOOL, TOOL, Environment, ModelRequest
from memtrace.model import Caller, Fact, Level, Message, Outcome, Record, Reply, Scope, ToolCall, Unresolved
from memtrace.plane import PlaneFacts
from memtrace.reference.agent import Agent, Runnable
from memtrace.reference.checkpoints import Checkpoints, ResumeRefused
from memtrace.reference.drivers import Cancellation
from memtrace.reference.guardrails import Guardrail
from memtrace.reference.memory import Memory
from memtrace.reference.middleware import RedactEmails, outgoing_of
from memtrace.reference.models import ChatModel
from memtrace.reference.outcomes import RunResult, outcome_of
from memtrace.reference.recall import SqliteRecall
from memtrace.reference.team import Supervisor, Swarm, Worker
from memtrace.reference.tools import MEMORY_TOOLS, Tool, text_parameter
from memtrace.reference.turnlog import TurnLog
from memtrace.stores import open_store
from memtrace.tracing import Tracing, own

IMPORTED_BEFORE_FORKS: Final = (
    __name__, "httpx2", "opentelemetry.exporter.otlp.proto.http.trace_exporter", "requests", "usearch.index",
)  # fmt: skip
"""See `memtrace.harness.system.imported_before_forks`."""
_CLAIMS: Final = frozenset(
    {
        "advance", "after-run", "agent-facts", "agents", "cancel", "conv", "delegate", "erase", "facts", "forget",
        "fork", "guardrails", "handoff", "ids", "learn", "learn-offline", "list", "memory-spans", "memory-tools",
        "own-recall", "own-spans", "plane", "project", "recall", "record-ids", "redaction", "reopen", "resolver",
        "resume", "resume-elsewhere", "save-load", "search", "session", "shared", "stream", "summary", "tools", "turns",
        "update", "window",
    }
)  # fmt: skip
_EXPERT: Final = "expert"
_CLERK: Final = "clerk"
_TIERS: Final = {"user": "user", "agent": "global", "project": "project"}
_NOBODY: Final = Caller()


def sync(env: Environment) -> SyncReference:
    """Turns through ``run``, ``stream``, ``resume`` and ``fork``."""
    return SyncReference(env)


def aio(env: Environment) -> AsyncReference:
    """Turns through ``arun``, ``astream``, ``aresume`` and ``afork``."""
    return AsyncReference(env)


class Reference:
    """All that does not depend on how a turn is driven."""

    capabilities = _CLAIMS
    identity = ("user",)
    refusals = (ResumeRefused, UsageError)

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._provider = _provider(env) if env.options.get("tracing", True) else None
        self._tracing = Tracing(tracer_provider=self._provider or NoOpTracerProvider())
        self._store = open_store(env.store_url, timeout=self._option("store_timeout", 5.0))
        self._checkpoints = Checkpoints(env.dir / "paused.db")
        self._turn_log = TurnLog(env.dir / "turns.db")
        self._recall = SqliteRecall(env.dir / "recall.db") if env.options.get("recall") else None
        self._plane = self._open_plane() if env.plane_url else None
        self._answers = ChatModel(env.model_url, env.answer_model)
        self._remembers = ChatModel(env.model_url, env.memory_model)
        self._memories: dict[tuple[str, str], Memory] = {}
        self._lock = threading.Lock()

    @property
    def declares(self) -> dict[str, Any]:
        """What the page *How memory works* states, or this system was given."""
        return {
            "window": self._option("window", 20),
            "cap": self._option("cap", 200),
            "max_users": self._option("max_users", 10_000),
            "per_message": 10,
            "confidence": 0.6,
            "deadline": 2 * self._option("store_timeout", 5.0),
            "plane_timeout": self._option("plane_timeout", 2.0),
            "plane_retry": 30.0,
            "plane_question_in_url": False,
            "prompt_order": [
                "system",
                "agent-facts",
                "plane-facts",
                "user-facts",
                "summary",
                "recall",
                "window",
                "history",
                "input",
            ],
            **({"missing_plane_says": "cannot be read now"} if self._option("missing_plane", "") == "say" else {}),
        }

    # One memory and one agent for each agent id and project

    def _memory(self, caller: Caller, role: str = "") -> Memory:
        agent, project = (caller.agent or self._env.agent) + role, self._project(caller)
        with self._lock:
            known = self._memories.get((agent, project))
            return known or self._memories.setdefault((agent, project), self._new_memory(agent, project))

    def _project(self, caller: Caller) -> str:
        return caller.project or str(self._option("project", ""))

    def _new_memory(self, agent: str, project: str) -> Memory:
        memory = Memory(
            location=self._store,
            agent_id=agent,
            project_id=project,
            user_id=lambda caller: self._env.resolve(cast("Caller", caller)),
            session_id=lambda caller: cast("Caller", caller).session,
            window=self._option("window", 20),
            learn=self._remembers if self._option("learn", True) else None,
            summarize=self._remembers if self._option("summary", False) else None,
            recall=self._recall,
            embedder=self._env.embed,
            semantic=True,
            max_learned_facts=self._option("cap", 200),
            max_users=self._option("max_users", 10_000),
            turn_log=self._turn_log,
            plane=self._plane,
            on_missing_plane=self._option("missing_plane", "nothing"),
            store_timeout=self._option("store_timeout", 5.0),
            clock=self._env.clock,
            tracing=self._tracing,
        )
        memory.on_erase(self._checkpoints.erase)
        return memory

    def _open_plane(self) -> PlaneFacts:
        timeout = self._option("plane_timeout", 2.0)
        return PlaneFacts(self._env.plane_url, self._env.plane_key, timeout=timeout, clock=self._env.clock)

    def _agent(self, caller: Caller, name: str = "", memory: Memory | None = None, *, tools: bool = True) -> Agent:
        name = name or caller.agent or self._env.agent
        return Agent(
            name,
            self._answers,
            memory or self._memory(caller),
            system_prompt=f"You are {name}.",
            tools=self._tools() if tools else (),
            guardrails=[Guardrail(f"guard-{on}", self._check(on), on=on) for on in ("input", "output")],
            middleware=self._middleware(),
            max_iterations=self._option("limit", 3),
            checkpoints=self._checkpoints,
            after_run=self._env.after_run,
            tracing=self._tracing,
        )

    def _swarm(self, caller: Caller) -> Swarm:
        return Swarm([self._agent(caller), self._agent(caller, _EXPERT)])

    def _supervisor(self, caller: Caller) -> Supervisor:
        clerk = self._agent(caller, _CLERK, self._memory(caller, f"-{_CLERK}"), tools=False)
        return Supervisor(self._agent(caller), [Worker(clerk, _CLERK, "Does as told.")])

    def _tools(self) -> list[Any]:
        query = text_parameter("query")
        return [
            Tool(TOOL, self._env.tool, parameters=query),
            Tool(APPROVAL_TOOL, self._env.tool, parameters=query, approval=True),
            *MEMORY_TOOLS,
        ]

    def _check(self, on: str) -> Any:
        return lambda text: self._env.guard(text, on)

    def _middleware(self) -> list[RedactEmails]:
        return [RedactEmails()] if self._option("redaction", False) else []

    def _option(self, name: str, default: Any) -> Any:
        return self._env.options.get(name, default)

    # Facts

    def add(self, caller: Caller, text: str, scope: str = "user") -> str:
        """Persist a fact by hand."""
        ids = {"user": caller.user}
        return str(self._memory(caller).persist(text, tier=_TIERS[scope], scope_id=ids.get(scope, "")).id)  # type: ignore[arg-type]

    def update(self, caller: Caller, record: str, text: str) -> str:
        """Supersede a fact of the caller's."""
        return str(self._memory(caller).update(text, old=int(record), scope_id=caller.user).id)

    def forget(self, caller: Caller, record: str | None = None) -> int:
        """Forget one fact of the caller's, or all."""
        return self._memory(caller).forget(scope_id=caller.user, fact=None if record is None else int(record))

    def facts(self, caller: Caller, limit: int | None = None, superseded: bool = False) -> list[Fact]:
        """List the caller's facts."""
        memory = self._memory(caller)
        if superseded:
            return [_fact(row) for row in self._store.history(self._scope(caller))[:limit]]
        return [_fact(row) for row in memory.retrieve(scope_id=caller.user, limit=limit)]

    def get(self, caller: Caller, record: str) -> Fact | None:
        """One record of the caller's."""
        found = self._store.get(self._scope(caller), int(record))
        return None if found is None else _fact(found)

    def _scope(self, caller: Caller) -> Scope:
        return Scope(Level.USER, caller.user, self._project(caller))

    def search(self, caller: Caller, query: str) -> list[str]:
        """The caller's facts by meaning."""
        outgoing = outgoing_of(self._middleware())
        return [row.text for row in self._memory(caller).retrieve(query, scope_id=caller.user, outgoing=outgoing)]

    def learn_offline(
        self, *, caller: Caller = _NOBODY, scope: str = "agent", personal: bool = False, **options: Any
    ) -> int:
        """Mine past turns of the caller's agent."""
        memory = self._memory(caller)
        ids = {"user": caller.user, "project": self._project(caller)}
        return len(memory.learn_offline(scope=scope, scope_id=ids.get(scope, ""), personal=personal, **options).facts)

    # Conversation

    def messages(self, caller: Caller) -> list[Message]:
        """What the caller's window holds."""
        return self._memory(caller).for_user(caller.user, caller.session).messages

    def save(self, caller: Caller, path: str) -> None:
        """Save the caller's window."""
        self._memory(caller).for_user(caller.user, caller.session).save(path)

    def load(self, caller: Caller, path: str) -> None:
        """Load it."""
        self._memory(caller).for_user(caller.user, caller.session).load(path)

    def erase(self, caller: Caller) -> None:
        """Erase the caller, in every agent's memory of the project."""
        self._memory(caller)
        for (_, project), memory in list(self._memories.items()):
            if project == self._project(caller):
                memory.erase(caller.user)

    def vacate(self, callers: Sequence[Caller]) -> None:
        """Remove the marks that callers were erased, and the facts of their agents and projects."""
        for caller in callers:
            agent, project = caller.agent or self._env.agent, self._project(caller)
            for level, name in ((Level.USER, caller.user), (Level.AGENT, agent), (Level.PROJECT, project)):
                for place in (level, Level.SESSION):  # marks are kept at the level of a session
                    if name:
                        self._store.delete(Scope(place, name, project))

    # What the harness asks

    def memory_step(self, call: ModelRequest, facts: Sequence[str]) -> str:
        """A summary is prose; extraction wants a JSON list."""
        summary = call.messages[-1].text.startswith("Write the summary")
        return " ".join(facts) or "Nothing yet." if summary else json.dumps(list(facts))

    def handoff_call(self, text: str) -> ToolCall:
        """What the first agent's model says to hand over."""
        return ToolCall("call-handoff", f"handoff_to_{_EXPERT}", json.dumps({"reason": text}))

    def delegate_call(self, text: str) -> ToolCall:
        """What the supervisor's model says to delegate."""
        return ToolCall("call-delegate", f"delegate_to_{_CLERK}", json.dumps({"task": text}))

    def outcome_of(self, error: BaseException) -> Outcome | None:
        """What an exception says of the turn."""
        return outcome_of(error)

    def close(self) -> None:
        """Let go of connections, and export what waits."""
        self._answers.close()
        self._remembers.close()
        self._store.close()
        if self._plane is not None:
            self._plane.close()
        if self._provider is not None:
            self._provider.shutdown()


class SyncReference(Reference):
    """Turns through the blocking entry points."""

    def __init__(self, env: Environment) -> None:
        super().__init__(env)
        self._running: dict[Caller, set[Cancellation]] = {}

    def turn(self, caller: Caller, text: str) -> Reply:
        """One turn."""
        return self._run(self._agent(caller), caller, text)

    def stream(self, caller: Caller, text: str) -> Iterator[str]:
        """One turn, streamed."""
        with self._agent(caller).stream(text, context=_context(caller)) as pieces:
            yield from pieces

    def resume(self, caller: Caller, token: str, approved: bool) -> Reply:
        """Resume a paused run."""
        return _reply(self._agent(caller).resume(token, approved=approved, context=_context(caller)))

    def fork(self, caller: Caller, token: str, approved: bool) -> Reply:
        """Fork a paused run."""
        return _reply(self._agent(caller).fork(token, approved=approved, context=_context(caller)))

    def handoff(self, caller: Caller, text: str) -> Reply:
        """One turn of a swarm."""
        return self._run(self._swarm(caller), caller, text)

    def delegate(self, caller: Caller, text: str) -> Reply:
        """One turn of a supervisor."""
        return self._run(self._supervisor(caller), caller, text)

    def cancel(self, caller: Caller) -> None:
        """Cancel the caller's running turns."""
        for cancellation in list(self._running.get(caller, ())):
            cancellation.set()

    def _run(self, runnable: Runnable, caller: Caller, text: str) -> Reply:
        with self._cancellable(caller) as cancellation:
            return _reply(runnable.run(text, context=_context(caller), cancel=cancellation))

    @contextmanager
    def _cancellable(self, caller: Caller) -> Iterator[Cancellation]:
        cancellation = Cancellation()
        running = self._running.setdefault(caller, set())
        running.add(cancellation)
        try:
            yield cancellation
        finally:
            running.discard(cancellation)


class AsyncReference(Reference):
    """Turns through the coroutines."""

    async def turn(self, caller: Caller, text: str) -> Reply:
        """One turn."""
        return _reply(await self._agent(caller).arun(text, context=_context(caller)))

    async def stream(self, caller: Caller, text: str) -> AsyncIterator[str]:
        """One turn, streamed."""
        async with self._agent(caller).astream(text, context=_context(caller)) as pieces:
            async for piece in pieces:
                yield piece

    async def resume(self, caller: Caller, token: str, approved: bool) -> Reply:
        """Resume a paused run."""
        return _reply(await self._agent(caller).aresume(token, approved=approved, context=_context(caller)))

    async def fork(self, caller: Caller, token: str, approved: bool) -> Reply:
        """Fork a paused run."""
        return _reply(await self._agent(caller).afork(token, approved=approved, context=_context(caller)))

    async def handoff(self, caller: Caller, text: str) -> Reply:
        """One turn of a swarm."""
        return _reply(await self._swarm(caller).arun(text, context=_context(caller)))

    async def delegate(self, caller: Caller, text: str) -> Reply:
        """One turn of a supervisor."""
        return _reply(await self._supervisor(caller).arun(text, context=_context(caller)))


def _provider(env: Environment) -> TracerProvider:
    """Spans whole to the harness, which stands for the local record, and redacted to the collector."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(env.span_processor)
    if not env.options.get("foreign_exporter"):
        own(provider)
        # Without the extra there is no exporter, and the rules about exporting are not exercised.
        with suppress(UsageError):
            provider.add_span_processor(BatchSpanProcessor(otlp(endpoint=env.collector_url, protocol="http/protobuf")))
    return provider


def _context(caller: Caller) -> Caller | None:
    return None if caller.unresolved is Unresolved.ABSENT else caller


def _reply(result: RunResult) -> Reply:
    return Reply(result.outcome, result.text, result.token)


def _fact(row: Record) -> Fact:
    return Fact(
        id=str(row.id),
        text=row.text,
        source=row.source,
        confidence=row.confidence,
        superseded=row.superseded_by is not None,
        created_at=row.created_at,
        source_trace_id=row.source_trace_id,
        owner=row.scope.id,
    )
