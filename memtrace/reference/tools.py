"""What a model may call: an application's functions, and the memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from memtrace.model import ToolCall
from memtrace.reference.effects import Blocking, Steps
from memtrace.reference.models import ToolSpec
from memtrace.reference.progress import Progress, Queued, Verb

if TYPE_CHECKING:
    from memtrace.reference.turn import Turn

NO_PARAMETERS: Final[Mapping[str, Any]] = {"type": "object", "properties": {}}


def text_parameter(name: str, description: str = "") -> dict[str, Any]:
    """The JSON schema of one required text."""
    return {"type": "object", "properties": {name: {"type": "string", "description": description}}, "required": [name]}


class Usable(Protocol):
    """What a model may call."""

    @property
    def name(self) -> str:
        """What the model calls it."""

    @property
    def approval(self) -> bool:
        """Whether the run pauses for an approval before it is used."""

    @property
    def spec(self) -> ToolSpec:
        """What the model is told of it."""

    def use(self, turn: Turn, progress: Progress, arguments: dict[str, Any]) -> Steps[str]:
        """Do what the model asked for; the text it is given as the result."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A function of the application's. One that raises fails the turn.

    Attributes:
        name: what the model calls it.
        body: called with the model's arguments by name; plain or ``async def``. A result that is no text becomes JSON.
        description: what the model is told it does.
        parameters: the JSON schema of its arguments.
        approval: pause the run before the body runs; `Agent.resume` goes on.
    """

    name: str
    body: Callable[..., object]
    description: str = field(default="", kw_only=True)
    parameters: Mapping[str, Any] = field(default_factory=lambda: NO_PARAMETERS, kw_only=True)
    approval: bool = field(default=False, kw_only=True)

    @property
    def spec(self) -> ToolSpec:
        """What the model is told of it."""
        return ToolSpec(self.name, self.description, self.parameters)

    def use(self, turn: Turn, progress: Progress, arguments: dict[str, Any]) -> Steps[str]:  # noqa: ARG002
        """Call the body."""
        value = yield Blocking(partial(self.body, **arguments))
        return value if isinstance(value, str) else json.dumps(value, default=str)


@dataclass(frozen=True, slots=True)
class MemoryTool:
    """Lets the model ask memory to keep or to drop a fact: at the end of the turn, and only if the turn succeeds."""

    name: Verb
    description: str
    approval: bool = field(default=False, init=False)

    @property
    def spec(self) -> ToolSpec:
        """What the model is told of it."""
        return ToolSpec(self.name, self.description, text_parameter("text", "the fact, as one short sentence"))

    def use(self, turn: Turn, progress: Progress, arguments: dict[str, Any]) -> Steps[str]:  # noqa: ARG002
        """Queue it."""
        progress.queued.append(Queued(self.name, str(arguments["text"])))
        return "Noted. It takes effect after this turn."
        yield


MEMORY_TOOLS: Final = (
    MemoryTool("remember", "Keep a fact about the user for later conversations."),
    MemoryTool("forget", "Drop a fact about the user that is no longer to be kept."),
)
"""``remember`` and ``forget``."""


class ArgumentsError(Exception):
    """The model's arguments do not fit the tool; the text is for the model to read."""


def arguments_of(call: ToolCall, spec: ToolSpec) -> dict[str, Any]:
    """The arguments of a call, by name.

    Raises:
        ArgumentsError: they are no JSON object, one is missing, or one is unknown.
    """
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        raise ArgumentsError("The arguments are not JSON.") from None
    if not isinstance(arguments, dict):
        raise ArgumentsError("The arguments are not a JSON object.")
    if missing := [name for name in spec.parameters.get("required", ()) if name not in arguments]:
        raise ArgumentsError(f"Missing arguments: {', '.join(missing)}.")
    if unknown := arguments.keys() - spec.parameters.get("properties", {}).keys():
        raise ArgumentsError(f"Unknown arguments: {', '.join(sorted(unknown))}.")
    return arguments
