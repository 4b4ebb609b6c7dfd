"""The callbacks that belong to the harness: tool body, guardrail, resolver, the step after the answer, the clock.

Each call is recorded with the turn it belongs to and can be held or made to fail. A second process reaches the same
callbacks over the scripted model's server, so that there is one record and one clock.
"""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Any

from memtrace.harness.record.attribution import TURN
from memtrace.harness.record.events import CalledBack
from memtrace.harness.record.recorder import Recorder
from memtrace.harness.running.holds import Holds, Point
from memtrace.model import Caller, Unresolved


class ScriptedError(Exception):
    """An application's own code failed, because the script asked for it."""


class Callbacks:
    """One script's callbacks."""

    def __init__(self, recorder: Recorder, holds: Holds) -> None:
        self._recorder = recorder
        self._holds = holds
        self._results: dict[str, deque[str]] = defaultdict(deque)
        self._blocked: set[tuple[str, str]] = set()
        self._failing: set[tuple[str, str]] = set()
        self._answers: dict[str, deque[object]] = {}
        self._moved = 0.0
        self._stopped_at: float | None = None

    # What the script sets up

    def tool_returns(self, turn: str, results: Sequence[str]) -> None:
        """What the tool gives in a turn, in order; after that ``Nothing found.``."""
        self._results[turn].extend(results)

    def block(self, turn: str, position: str) -> None:
        """The guardrail blocks this turn's ``input`` or ``output``."""
        self._blocked.add((turn, position))

    def fail(self, turn: str, point: Point) -> None:
        """The callback at ``point`` raises in this turn."""
        self._failing.add((turn, point))

    def resolve_as(self, caller: Caller, *values: object) -> None:
        """What the resolver gives for a caller: each value once, the last one from then on."""
        self._answers[caller.user] = deque(values)

    def advance(self, seconds: float) -> None:
        """Move the clock."""
        self._moved += seconds

    def stop_clock(self) -> None:
        """Let the clock stand still."""
        self._stopped_at = self.clock()

    def start_clock(self) -> None:
        """Let the clock go on, from the time that it is."""
        self._stopped_at = None

    # What the environment offers

    def tool(self, query: str, turn: str | None = None) -> str:
        """The body of the one tool."""
        owner, attribution = self._enter("tool", turn)
        results = self._results[owner]
        result = results.popleft() if results else "Nothing found."
        self._called("tool", owner, attribution, query, result)
        return result

    def guard(self, text: str, position: str, turn: str | None = None) -> bool:
        """Whether the guardrail lets a text pass."""
        owner, attribution = self._enter("guard", turn)
        passed = (owner, position) not in self._blocked
        self._called("guard", owner, attribution, f"{position}: {text}", "passed" if passed else "blocked")
        return passed

    def after_run(self, text: str, turn: str | None = None) -> None:
        """The application's step after the answer."""
        owner, attribution = self._enter("after_run", turn)
        self._called("after_run", owner, attribution, text)

    def resolve(self, caller: Caller, turn: str | None = None) -> object:
        """Who the resolver says a caller is."""
        owner, attribution = self._enter("resolve", turn)
        value = self._who(caller)
        self._called(
            "resolve", owner, attribution, caller.user, value if isinstance(value, str) else type(value).__name__
        )
        return value

    def clock(self) -> float:
        """Seconds since the epoch, as far as the system can tell."""
        return time.time() + self._moved if self._stopped_at is None else self._stopped_at

    def call(self, name: str, payload: Any, turn: str) -> Any:
        """One of the above, by name, for another process; an id that is no text travels as ``{"not-an-id": …}``."""
        match name:
            case "tool":
                return self.tool(str(payload), turn)
            case "guard":
                return self.guard(payload["text"], payload["position"], turn)
            case "after_run":
                return self.after_run(str(payload), turn)
            case "resolve":
                value = self.resolve(Caller(**payload), turn)
                return value if value is None or isinstance(value, str) else {"not-an-id": type(value).__name__}
            case "clock":
                return self.clock()
        raise ScriptedError(f"no callback {name!r}")

    def _who(self, caller: Caller) -> object:
        values = self._answers.get(caller.user)
        if values:
            return values.popleft() if len(values) > 1 else values[0]
        match caller.unresolved:
            case None:
                return caller.user
            case Unresolved.RAISING:
                raise ScriptedError("the resolver failed")
            case Unresolved.EMPTY:
                return ""
            case Unresolved.NOT_AN_ID:
                return object()
            case _:
                return None

    def _enter(self, point: Point, turn: str | None) -> tuple[str, str]:
        owner, attribution = self._recorder.attribute(TURN.get() if turn is None else turn)
        self._holds.pass_by(point, owner)
        if (owner, point) in self._failing:
            self._called(point, owner, attribution, "", "raised")
            raise ScriptedError(f"{point} failed")
        return owner, attribution

    def _called(self, point: str, turn: str, attribution: str, given: str, result: str = "") -> None:
        self._recorder.add(CalledBack, point=point, turn=turn, attribution=attribution, given=given, result=result)
