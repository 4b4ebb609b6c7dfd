"""What a run is made of, whatever object it was declared with: roles that speak, and what holds for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from memtrace.errors import UsageError
from memtrace.model import Message
from memtrace.reference.checkpoints import Checkpoints
from memtrace.reference.guardrails import Guardrail
from memtrace.reference.middleware import Middleware, Text
from memtrace.reference.models import Model
from memtrace.reference.tools import Usable
from memtrace.tracing import Tracing


class TurnMemory(Protocol):
    """One turn's memory, for the caller it was opened for. Where nobody can tell who that is, it keeps nothing."""

    @property
    def requester(self) -> str | None:
        """Who asks; ``None`` where nobody can tell."""

    @property
    def erased(self) -> bool:
        """Whether who asks was erased since the turn opened: nothing of it may be kept then, anywhere."""

    def read(self, query: str) -> list[Message]:
        """What memory puts into the prompt, in order."""

    def write(self, question: str, answer: str) -> None:
        """Keep the turn, and do what was queued."""

    def remember(self, text: str) -> None:
        """Queue a fact to be kept."""

    def forget(self, text: str) -> None:
        """Queue a fact to be dropped."""


class OpensTurns(Protocol):
    """A memory, as an agent sees it."""

    @property
    def project_id(self) -> str:
        """The partition that all of it is in."""

    def open(self, context: object | None, *, outgoing: Text) -> TurnMemory:
        """Resolve who asks and open their memory; what leaves the process for it goes through ``outgoing`` first."""

    def on_erase(self, also: Callable[[str, str], object]) -> None:
        """Call this, with the user and the project, when a user is erased."""


class NoMemory:
    """The memory of an agent that has none."""

    requester = None
    erased = False
    project_id = ""

    def open(self, context: object | None, *, outgoing: Text) -> NoMemory:  # noqa: ARG002
        """Nobody's."""
        return self

    def on_erase(self, also: Callable[[str, str], object]) -> None:
        """Nobody is ever erased."""

    def read(self, query: str) -> list[Message]:  # noqa: ARG002
        """Nothing."""
        return []

    def write(self, question: str, answer: str) -> None:
        """Keep nothing."""

    def remember(self, text: str) -> None:
        """Keep nothing."""

    def forget(self, text: str) -> None:
        """There is nothing to drop."""


@dataclass(frozen=True, slots=True)
class Role:
    """One agent's part: its model, what it is told, and what it may use."""

    name: str
    model: Model
    system_prompt: str = ""
    tools: tuple[Usable, ...] = ()

    def tool(self, name: str) -> Usable | None:
        """The tool of that name."""
        return next((tool for tool in self.tools if tool.name == name), None)


@dataclass(frozen=True, slots=True)
class Plan:
    """What holds for a whole run. The first role begins.

    Raises:
        UsageError: it could not run as it stands.
    """

    name: str
    roles: tuple[Role, ...]
    memory: OpensTurns = field(default_factory=NoMemory)
    guardrails: tuple[Guardrail, ...] = ()
    middleware: tuple[Middleware, ...] = ()
    max_iterations: int = 10
    checkpoints: Checkpoints | None = None
    after_run: tuple[Callable[[str], object], ...] = ()
    tracing: Tracing = field(default_factory=Tracing)

    def __post_init__(self) -> None:
        if self.max_iterations < 1:
            raise UsageError(f"max_iterations is {self.max_iterations}: a turn needs at least one call of the model")
        _distinct("agents", [role.name for role in self.roles])
        for role in self.roles:
            _distinct(f"tools of agent {role.name!r}", [tool.name for tool in role.tools])
        if self.checkpoints is None and (waiting := self.waiting()):
            raise UsageError(f"tool {waiting[0]!r} needs an approval: give the agent checkpoints=Checkpoints(path)")

    def role(self, name: str) -> Role:
        """The role of that name."""
        found = next((role for role in self.roles if role.name == name), None)
        if found is None:
            raise UsageError(
                f"{self.name!r} has no agent {name!r}; it has {', '.join(role.name for role in self.roles)}"
            )
        return found

    def waiting(self) -> list[str]:
        """The tools that wait for an approval."""
        return [tool.name for role in self.roles for tool in role.tools if tool.approval]

    @property
    def streams_live(self) -> bool:
        """Whether pieces of an answer may be given out before it is whole, changed and checked."""
        return not self.middleware and all(rail.live for rail in self.guardrails if rail.on == "output")


def _distinct(what: str, names: list[str]) -> None:
    if twice := {name for name in names if names.count(name) > 1}:
        raise UsageError(f"two {what} have the same name: {', '.join(sorted(twice))}")
