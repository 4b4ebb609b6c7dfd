"""Guardrails: an application's own checks of what a user asks and of what the agent answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from memtrace.errors import MemtraceError

Position = Literal["input", "output"]


class Blocked(MemtraceError):
    """A guardrail refused the input or the answer; nothing of the turn is kept.

    Attributes:
        guardrail: its name.
        on: ``"input"`` or ``"output"``.
    """

    def __init__(self, guardrail: str, on: Position) -> None:
        super().__init__(f"the guardrail {guardrail!r} blocked the {on}")
        self.guardrail = guardrail
        self.on = on


@dataclass(frozen=True, slots=True)
class Guardrail:
    """Lets a text pass, or blocks the turn. A check that raises fails the turn: nothing passes unchecked.

    Attributes:
        name: what it is called where it blocks.
        check: the text to whether it may pass; plain or ``async def``.
        on: the user's input, or the agent's answer.
        live: of an answer that is streamed: give its pieces out as they come, and check when it is whole. A blocked
            answer has then been seen, though it is not kept. Without it the pieces wait for the check.
    """

    name: str
    check: Callable[[str], object]
    on: Position = field(default="output", kw_only=True)
    live: bool = field(default=False, kw_only=True)
