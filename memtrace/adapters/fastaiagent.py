"""fastaiagent, the SDK the *How memory works* page describes, as a system under test.

It is used as its documentation says: one ``Memory`` and one ``Agent`` for each agent id and project, all on one fact
store, with the model behind the SDK's own HTTP client. Where the SDK has no call for something, it is not claimed:
its ``forget`` removes facts, and nothing removes a user.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from types import SimpleNamespace
from typing import Any, Final
from uuid import uuid4

from fastaiagent import (
    Agent,
    AgentConfig,
    AgentMiddleware,
    AgentResult,
    FunctionTool,
    Guardrail,
    GuardrailResult,
    LLMClient,
    Memory,
    RedactPII,
    Resume,
    RunContext,
    SQLiteCheckpointer,
    Supervisor,
    Swarm,
    TextDelta,
    Worker,
    config,
    connect,
    disconnect,
    interrupt,
)
from fastaiagent._internal.errors import GuardrailBlockedError, MaxIterationsError
from fastaiagent.agent import memory_blocks
from fastaiagent.agent.memory_blocks import PlaneFactBlock
from fastaiagent.guardrail import GuardrailPosition
from fastaiagent.learn import Fact as StoredFact
from fastaiagent.learn import MemoryStore, cli, make_fact_store
from fastaiagent.learn.extractor import run_extraction
from fastaiagent.trace import otel
from typer import Exit

from memtrace.adapters.vectors import VectorFile
from memtrace.harness.system import APPROVAL_TOOL, TOOL, Environment, ModelRequest
from memtrace.model import Author, Caller, Fact, Message, Outcome, Reply, ToolCall, Unresolved

_CLAIMS: Final = frozenset(
    {
        "turns", "ids", "conv", "window", "stream", "cancel", "tools", "guardrails", "after-run", "resume",
        "resume-elsewhere", "fork", "handoff", "delegate", "facts", "update", "forget", "list", "record-ids",
        "agent-facts", "agents", "plane", "advance", "project", "resolver", "learn", "learn-offline", "summary",
        "recall", "own-recall", "search", "save-load", "redaction", "reopen", "shared", "own-spans", "memory-spans",
    }
)  # fmt: skip
_EXPERT: Final = "expert"
_CLERK: Final = "clerk"
_NOBODY: Final = Caller()
_PAYLOADS: Final = "FASTAIAGENT_TRACE_PAYLOADS"


def sync(env: Environment) -> _SyncAgents:
    """The SDK through ``run``, ``stream``, ``resume`` and ``fork``."""
    return _SyncAgents(env)


def aio(env: Environment) -> _AsyncAgents:
    """The SDK through ``arun``, ``astream``, ``aresume`` and ``afork``."""
    return _AsyncAgents(env)


class NamesNobody(Exception):
    """The SDK refused an empty user id; it says so with a ValueError, as it says much else."""


class _Agents:
    """All that does not depend on how a turn is driven."""

    capabilities = _CLAIMS
    identity = ("user",)
    refusals = (Exit, NamesNobody)

    def __init__(self, env: Environment) -> None:
        _record(env)
        self._env = env
        self._disconnect = _connected(env)
        self._tls = ssl.create_default_context()
        self._window = int(env.options.get("window", 20))
        self._cap = int(env.options.get("cap", 200))
        self._max_users = int(env.options.get("max_users", 10_000))
        self._store = _fact_store(env.store_url)
        self._recall = VectorFile(env.dir / "recall.db") if env.options.get("recall") else None
        self._checkpoints = SQLiteCheckpointer()
        self._memories: dict[tuple[str, str], Memory] = {}
        self._replaced: list[int] = []

    @property
    def declares(self) -> dict[str, Any]:
        """The values that the *How memory works* page states, or that this system was given."""
        return {
            "window": self._window,
            "cap": self._cap,
            "max_users": self._max_users,
            "per_message": 10,
            "confidence": 0.6,
            "plane_timeout": self._env.options.get("plane_timeout", 10.0),
            "plane_retry": PlaneFactBlock.retry_after_seconds,
            "plane_question_in_url": True,  # its protocol has it as query=
            "prompt_order": [
                "system",
                "agent-facts",
                "plane-facts",
                "user-facts",
                "summary",
                "recall",
                "window",
                "input",
            ],
            "telemetry": ["local.db*"],  # traces, documented as complete, and checkpoints
        }

    # One memory and one agent for each agent id and project

    def _memory(self, caller: Caller, role: str = "") -> Memory:
        agent, project = (caller.agent or self._env.agent) + role, self._project(caller)
        known = self._memories.get((agent, project))
        return known or self._memories.setdefault((agent, project), self._new_memory(agent, project))

    def _project(self, caller: Caller) -> str:
        return caller.project or str(self._env.options.get("project", ""))

    def _new_memory(self, agent: str, project: str) -> Memory:
        options = self._env.options
        return _PlaneTimed(
            float(options.get("plane_timeout", 10.0)),
            plane_agent_id=agent if self._env.plane_url else None,
            location=self._store,
            agent_id=agent,
            project_id=project,
            user_id=lambda context: self._env.resolve(context.state),
            window=self._window,
            learn=self._llm(self._env.memory_model) if options.get("learn", True) else None,
            max_learned_facts=self._cap,
            summarize=self._llm(self._env.memory_model) if options.get("summary") else None,
            recall=self._recall,
            semantic="auto",
            embedder=SimpleNamespace(embed=self._env.embed),
            max_users=self._max_users,
        )

    def _agent(self, caller: Caller, name: str = "", memory: Memory | None = None) -> Agent:
        name = name or caller.agent or self._env.agent
        return Agent(
            name=name,
            system_prompt=f"You are {name}.",
            llm=self._llm(self._env.answer_model),
            memory=memory or self._memory(caller),
            tools=self._tools(),
            guardrails=self._guardrails(),
            middleware=self._middleware(),
            config=AgentConfig(max_iterations=int(self._env.options.get("limit", 3))),
            checkpointer=self._checkpoints,
        )

    def _swarm(self, caller: Caller) -> Swarm:
        agents = [self._agent(caller), self._agent(caller, _EXPERT)]
        return Swarm("swarm", agents, entrypoint=agents[0].name, handoffs={agents[0].name: [_EXPERT]})

    def _supervisor(self, caller: Caller) -> Supervisor:
        clerk = self._agent(caller, _CLERK, self._memory(caller, f"-{_CLERK}"))
        return Supervisor(
            "supervisor",
            llm=self._llm(self._env.answer_model),
            workers=[Worker(clerk, role=_CLERK, description="Does as told.")],
            middleware=self._middleware(),
        )

    def _llm(self, model: str) -> LLMClient:
        # Without a context of its own the client loads all certificates at each call: most of a turn's time.
        return LLMClient("openai", model, api_key="any", base_url=self._env.model_url, max_retries=0, verify=self._tls)

    def _tools(self) -> list[FunctionTool]:
        async def lookup(query: str) -> str:
            return await asyncio.to_thread(self._env.tool, query)

        async def transfer(query: str) -> str:
            answer = interrupt("approval", {"query": query})
            return await lookup(query) if answer.approved else "Declined."

        tools = {TOOL: lookup, APPROVAL_TOOL: transfer}
        return [FunctionTool(name, fn, f"{name} by query", register=False) for name, fn in tools.items()]

    def _guardrails(self) -> list[Guardrail]:
        return [
            Guardrail(
                f"guard-{position.value}",
                position=position,
                fn=lambda text, position=position: GuardrailResult(passed=self._env.guard(text, position.value)),
            )
            for position in (GuardrailPosition.input, GuardrailPosition.output)
        ]

    def _middleware(self) -> list[AgentMiddleware]:
        redaction: list[AgentMiddleware] = [RedactPII()] if self._env.options.get("redaction") else []
        return [*redaction, _AfterRun(self._env)]

    # Facts

    def add(self, caller: Caller, text: str, scope: str = "user") -> str:
        memory = self._memory(caller)
        if scope == "agent":
            return str(memory.persist(text, tier="global"))
        with _named(caller):
            return str(memory.persist(text, id=caller.user))

    def update(self, caller: Caller, record: str, text: str) -> str:
        with _named(caller):
            new = self._memory(caller).update(text, old=int(record), id=caller.user)
        self._replaced.append(int(record))
        return str(new)

    def forget(self, caller: Caller, record: str | None = None) -> int:
        memory = self._memory(caller)
        if record is None:
            with _named(caller):
                return memory.forget(tier="user", id=caller.user)
        found = self._store.get(int(record))
        if found is None:
            return 0
        if found.scope == "agent":
            return memory.forget(tier="global", fact=found.fact)
        return memory.forget(tier="user", id=caller.user, fact=found.fact)

    def facts(self, caller: Caller, limit: int | None = None, superseded: bool = False) -> list[Fact]:
        active = self._memory(caller).retrieve(tier="user", id=caller.user, limit=limit)
        return [_fact(row) for row in (*active, *(self._history(caller) if superseded else ()))]

    def get(self, caller: Caller, record: str) -> Fact | None:
        # The store's get() knows no caller: whose a fact is, it leaves to the application to compare.
        found = self._store.get(int(record))
        return _fact(found) if found is not None and found.scope_id == caller.user else None

    def _history(self, caller: Caller) -> list[StoredFact]:
        """Superseded facts: the SQLite store lists them; of the others only what was replaced here is known."""
        if isinstance(self._store, MemoryStore):
            rows = self._store.list_all(self._project(caller))
        else:
            rows = [row for record in self._replaced if (row := self._store.get(record))]
        return [row for row in rows if row.superseded_by is not None and row.scope_id == caller.user]

    def search(self, caller: Caller, query: str) -> list[str]:
        return [row.fact for row in self._memory(caller).retrieve(query, tier="user", id=caller.user)]

    def learn_offline(
        self, *, caller: Caller = _NOBODY, scope: str = "agent", personal: bool = False, **options: Any
    ) -> int:
        if scope != "agent" and not personal:
            # The gate is the command line's; the function below it has none. It exits, as documented.
            cli.extract(SimpleNamespace(invoked_subcommand=None), scope=scope, allow_personal=False)  # type: ignore[arg-type]
        ids = {"user": caller.user, "project": self._project(caller)}
        results = run_extraction(
            llm=self._llm(self._env.memory_model),
            store=self._store,
            scope=scope,  # type: ignore[arg-type]
            scope_id=ids.get(scope, caller.agent or self._env.agent),
            project_id=self._project(caller),
            agent_name=caller.agent or self._env.agent,
            max_traces=options.get("max_traces", 100),
            dry_run=options.get("dry_run", False),
        )
        return sum(len(result.new_ids) for result in results)

    # Conversation

    def messages(self, caller: Caller) -> list[Message]:
        if not caller.user:
            return []  # an unresolved caller has no window to ask for
        window = self._memory(caller).for_user(caller.user).messages
        return [Message(Author(message.role.value), str(message.content)) for message in window]

    def save(self, caller: Caller, path: str) -> None:
        self._memory(caller).for_user(caller.user).save(path)

    def load(self, caller: Caller, path: str) -> None:
        self._memory(caller).for_user(caller.user).load(path)

    # What the harness asks

    def memory_step(self, call: ModelRequest, facts: Sequence[str]) -> str:
        """A summary is prose; online and offline extraction both want a JSON list."""
        summary = call.messages[-1].text.startswith("You are maintaining a running conversation summary")
        return " ".join(facts) if summary else json.dumps(list(facts))

    def handoff_call(self, text: str) -> ToolCall:
        return ToolCall(f"call-{uuid4().hex}", f"handoff_to_{_EXPERT}", json.dumps({"reason": text}))

    def delegate_call(self, text: str) -> ToolCall:
        return ToolCall(f"call-{uuid4().hex}", f"delegate_to_{_CLERK}", json.dumps({"task": text}))

    def outcome_of(self, error: BaseException) -> Outcome | None:
        match error:
            case GuardrailBlockedError():
                return Outcome.BLOCKED
            case MaxIterationsError():
                return Outcome.LIMIT
        return None

    def close(self) -> None:
        self._disconnect()
        self._checkpoints.close()
        close = getattr(self._store, "close", None)
        if close is not None:
            close()


class _PlaneTimed(Memory):
    """A memory whose plane block has the timeout that was asked for: the SDK's block takes one, its memory does not."""

    def __init__(self, plane_timeout: float, **settings: Any) -> None:
        self._plane_timeout = plane_timeout
        super().__init__(**settings)

    def _global_blocks(self) -> list[Any]:
        blocks = super()._global_blocks()
        for block in blocks:
            if isinstance(block, PlaneFactBlock):
                block.timeout = self._plane_timeout
        return blocks


class _SyncAgents(_Agents):
    """Turns through the blocking entry points; ``stream`` collects, as the SDK's does, and so yields one piece."""

    def __init__(self, env: Environment) -> None:
        super().__init__(env)
        self._running: dict[Caller, str] = {}

    def turn(self, caller: Caller, text: str) -> Reply:
        run = self._running[caller] = uuid4().hex
        return _reply(self._agent(caller).run(text, context=_context(caller), execution_id=run))

    def stream(self, caller: Caller, text: str) -> Iterator[str]:
        yield self._agent(caller).stream(text, context=_context(caller)).output

    def cancel(self, caller: Caller) -> None:
        self._agent(caller).cancel(self._running[caller])

    def resume(self, caller: Caller, token: str, approved: bool) -> Reply:
        answer = Resume(approved=approved)
        return _reply(self._agent(caller).resume(token, resume_value=answer, context=_context(caller)))

    def fork(self, caller: Caller, token: str, approved: bool) -> Reply:  # noqa: ARG002  a fork answers no pause
        return _reply(self._agent(caller).fork(token, context=_context(caller)))

    def handoff(self, caller: Caller, text: str) -> Reply:
        return _reply(self._swarm(caller).run(text, context=_context(caller)))

    def delegate(self, caller: Caller, text: str) -> Reply:
        return _reply(self._supervisor(caller).run(text, context=_context(caller)))


class _AsyncAgents(_Agents):
    """Turns through the coroutines, on one event loop."""

    async def turn(self, caller: Caller, text: str) -> Reply:
        return _reply(await self._agent(caller).arun(text, context=_context(caller)))

    async def stream(self, caller: Caller, text: str) -> AsyncIterator[str]:
        async with aclosing(self._agent(caller).astream(text, context=_context(caller))) as events:
            async for event in events:
                if isinstance(event, TextDelta):
                    yield event.text

    async def resume(self, caller: Caller, token: str, approved: bool) -> Reply:
        answer = Resume(approved=approved)
        return _reply(await self._agent(caller).aresume(token, resume_value=answer, context=_context(caller)))

    async def fork(self, caller: Caller, token: str, approved: bool) -> Reply:  # noqa: ARG002  a fork answers no pause
        return _reply(await self._agent(caller).afork(token, context=_context(caller)))

    async def handoff(self, caller: Caller, text: str) -> Reply:
        return _reply(await self._swarm(caller).arun(text, context=_context(caller)))

    async def delegate(self, caller: Caller, text: str) -> Reply:
        return _reply(await self._supervisor(caller).arun(text, context=_context(caller)))


class _AfterRun(AgentMiddleware):
    """The application's step after the answer."""

    name = "after_run"

    def __init__(self, env: Environment) -> None:
        self._env = env

    async def after_run(self, ctx: Any, result: AgentResult) -> AgentResult:  # noqa: ARG002  the SDK's signature
        await asyncio.to_thread(self._env.after_run, result.output)
        return result


def _record(env: Environment) -> None:
    """Send the SDK's spans to the harness, and keep its own files in the script's directory."""
    otel.reset()
    otel.suppress_global_provider()  # the process belongs to the harness
    settings: Any = config
    settings.local_db_path = str(env.dir / "local.db")
    settings.trace_enabled = bool(env.options.get("tracing", True))
    otel.add_span_processor(env.span_processor)


def _connected(env: Environment) -> Callable[[], None]:
    """The SDK connected to the plane, where there is one, payloads on or off as memtrace's own switch has them.

    Its pauses go by the environment's clock: its blocks take no clock, so their module is given one. What undoes all
    that is returned.
    """
    if not env.plane_url:
        return lambda: None
    before = os.environ.get(_PAYLOADS)
    os.environ[_PAYLOADS] = "1" if os.environ.get("MEMTRACE_TRACE_PAYLOADS") == "1" else "0"
    connect(env.plane_key, env.plane_url, auto_register=False, export_traces=False, export_checkpoints=False)
    blocks: Any = memory_blocks
    blocks.time = SimpleNamespace(time=time.time, monotonic=env.clock)

    def undo() -> None:
        disconnect()
        blocks.time = time
        del os.environ[_PAYLOADS]
        if before is not None:
            os.environ[_PAYLOADS] = before

    return undo


def _fact_store(url: str) -> Any:
    return MemoryStore(url.removeprefix("sqlite:///")) if url.startswith("sqlite:") else make_fact_store(url)


@contextmanager
def _named(caller: Caller) -> Iterator[None]:
    """What a ValueError means while a user is named, or while nobody is."""
    try:
        yield
    except ValueError as error:
        if caller.user:
            raise
        raise NamesNobody(str(error)) from error


def _context(caller: Caller) -> RunContext[Caller] | None:
    return None if caller.unresolved is Unresolved.ABSENT else RunContext(state=caller)


def _reply(result: AgentResult) -> Reply:
    match result.status:
        case "paused":
            return Reply(Outcome.PAUSED, token=result.execution_id)
        case "cancelled":
            return Reply(Outcome.CANCELLED)
    return Reply(Outcome.OK, result.output)


def _fact(row: StoredFact) -> Fact:
    return Fact(
        id=str(row.id),
        text=row.fact,
        source=row.source,
        confidence=row.confidence,
        superseded=row.superseded_by is not None,
        created_at=row.created_at,
        source_trace_id=row.source_trace_id or "",
        owner=row.scope_id,
    )
