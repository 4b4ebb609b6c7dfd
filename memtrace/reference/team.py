"""Agents that work together on one turn: a swarm hands a conversation over, a supervisor delegates tasks.

Either way there is one user, one question and one final answer, and they alone are kept. What agents say to each other
is written by models: it is no user's message, in memory or in a prompt, and nothing is learned from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from memtrace.errors import UsageError
from memtrace.reference.agent import Agent, Runnable
from memtrace.reference.effects import Steps
from memtrace.reference.models import ToolSpec
from memtrace.reference.plan import NoMemory, OpensTurns, Plan, Role
from memtrace.reference.progress import Progress
from memtrace.reference.tools import Usable, text_parameter
from memtrace.reference.turn import Turn

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Handoff:
    """Lets the model hand the conversation over to another agent, once all of its calls have their results."""

    to: str
    approval: bool = field(default=False, init=False)

    @property
    def name(self) -> str:
        """``handoff_to_<agent>``."""
        return f"handoff_to_{self.to}"

    @property
    def spec(self) -> ToolSpec:
        """What the model is told of it."""
        return ToolSpec(self.name, f"Hand the conversation over to {self.to}.", text_parameter("reason"))

    def use(self, turn: Turn, progress: Progress, arguments: dict[str, Any]) -> Steps[str]:  # noqa: ARG002
        """Name the heir."""
        if progress.heir:
            return f"Not handed over: {progress.heir} takes over already."
        progress.heir = self.to
        return f"{self.to} takes over."
        yield


@dataclass(frozen=True, slots=True)
class Worker:
    """An agent, or a team, that a supervisor may delegate tasks to.

    Attributes:
        agent: who does them.
        role: what the supervisor knows it as.
        description: what the supervisor is told it can do.
    """

    agent: Runnable
    role: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class Delegation:
    """Lets the model have a task done by a worker, and read its answer."""

    worker: Worker
    approval: bool = field(default=False, init=False)

    @property
    def name(self) -> str:
        """``delegate_to_<role>``."""
        return f"delegate_to_{self.worker.role}"

    @property
    def spec(self) -> ToolSpec:
        """What the model is told of it."""
        return ToolSpec(self.name, self.worker.description, text_parameter("task"))

    def use(self, turn: Turn, progress: Progress, arguments: dict[str, Any]) -> Steps[str]:
        """Have it done, inside this turn."""
        return (yield from turn.delegate(self.worker.agent.plan, str(arguments["task"]), progress))


class Swarm(Runnable):
    """Agents that hand one conversation over to each other; the first one begins.

    They share one memory: it is read once for all of them, and the turn is recorded once. What one agent has checked,
    redacted or done after the run, is so for the whole run, whoever answers.

    Args:
        agents: who takes part. The memory, the iteration limit and the tracing are the first one's.
        name: what the swarm is called; the first agent's name where it is empty.
        handoffs: agent's name to the names it may hand over to; without it, each to every other.

    Raises:
        UsageError: an agent brings a memory that is not the first one's, or a name is unknown or there twice.
    """

    def __init__(
        self, agents: Sequence[Agent], *, name: str = "", handoffs: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        if not agents:
            raise UsageError("a swarm needs at least one agent")
        plans = [agent.plan for agent in agents]
        first = plans[0]
        targets = _targets([plan.name for plan in plans], handoffs)
        super().__init__(
            replace(
                first,
                name=name or first.name,
                roles=tuple(_with(plan.roles[0], [Handoff(to) for to in targets[plan.name]]) for plan in plans),
                memory=_shared(plans),
                checkpoints=next((plan.checkpoints for plan in plans if plan.checkpoints), None),
                guardrails=_union([plan.guardrails for plan in plans]),
                middleware=_union([plan.middleware for plan in plans]),
                after_run=_union([plan.after_run for plan in plans]),
            )
        )


class Supervisor(Runnable):
    """An agent that delegates tasks to workers, and answers the user itself.

    Args:
        agent: who talks to the user. The turn is kept in its memory.
        workers: who does tasks, with what their own memories know of this turn's caller; nothing is written there.

    Raises:
        UsageError: a worker's tool needs an approval, which only the supervisor's own tools can wait for.
    """

    def __init__(self, agent: Agent, workers: Sequence[Worker]) -> None:
        for worker in workers:
            if waiting := worker.agent.plan.waiting():
                raise UsageError(
                    f"worker {worker.role!r} cannot wait for an approval: give {waiting[0]!r} to the supervisor"
                )
        role = agent.plan.roles[0]
        super().__init__(replace(agent.plan, roles=(_with(role, [Delegation(worker) for worker in workers]),)))


def _with(role: Role, tools: Sequence[Usable]) -> Role:
    return replace(role, tools=(*role.tools, *tools))


def _targets(names: list[str], handoffs: Mapping[str, Sequence[str]] | None) -> dict[str, list[str]]:
    if handoffs is None:
        return {name: [other for other in names if other != name] for name in names}
    if unknown := {*handoffs, *(to for targets in handoffs.values() for to in targets)} - set(names):
        raise UsageError(f"handoffs name agents that are not in the swarm: {', '.join(sorted(unknown))}")
    return {name: list(handoffs.get(name, ())) for name in names}


def _shared(plans: Sequence[Plan]) -> OpensTurns:
    memory = plans[0].memory
    for plan in plans[1:]:
        if plan.memory is not memory and not isinstance(plan.memory, NoMemory):
            raise UsageError(f"agent {plan.name!r} has a memory of its own; a swarm has one, its first agent's")
    return memory


def _union(groups: Sequence[tuple[T, ...]]) -> tuple[T, ...]:
    """All items once, in order."""
    found: list[T] = []
    for item in (item for group in groups for item in group):
        if not any(item is known for known in found):
            found.append(item)
    return tuple(found)
