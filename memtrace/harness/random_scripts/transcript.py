"""Calling a stage's verbs, and keeping what was called as lines of Python that a boundary test could hold."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final

from memtrace.harness.scenes.interleaving import Line
from memtrace.harness.scripted_model.openai_api import Step
from memtrace.harness.stage import Stage, TurnResult
from memtrace.harness.system import TOOL
from memtrace.model import Caller, ToolCall

_OK = 200
_EMPTY: Final[Container[Any]] = ("", (), [], None)
_LEFT_OUT: Final[Mapping[str, Container[Any]]] = {
    "via": ("run",), "approved": (True,), "says": _EMPTY, "tool_returns": _EMPTY, "blocks": _EMPTY, "fails": _EMPTY,
}  # fmt: skip
"""Options that go without saying."""


class Transcript:
    """The lines so far. Callers, turns and records go by names; turns have the names that reports give them."""

    def __init__(self, stage: Stage) -> None:
        self.lines: list[str] = []
        self._stage = stage
        self._names: dict[Any, str] = {}

    def introduce(self, name: str, caller: Caller, **fields: Any) -> None:
        """A caller, by the name the lines use; ``fields`` are what another caller has too."""
        self._names[caller] = name
        self.lines.append(f"{name} = {_call('stage.caller', (), fields, self.code)}")

    def call(self, verb: str, *args: Any, **options: Any) -> Any:
        """Call a verb; what goes without saying is left out of the line, and what may come of it."""
        return self.apply(f"stage.{verb}", getattr(self._stage, verb), *args, **options)

    def apply(self, name: str, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call a function, and keep the call as a line under a name."""
        shown = {key: value for key, value in options.items() if not _goes_without_saying(key, value)}
        self.lines.append(_call(name, args, shown, self.code))
        result = function(*args, **options)
        if given := self._name(result):
            self.lines[-1] = f"{given} = {self.lines[-1]}"
        return result

    def _name(self, result: Any) -> str:
        """The name that a result goes by from now on; empty where no later line may need it."""
        if isinstance(result, TurnResult):
            return self._names.setdefault(result, result.turn.partition("-")[0])
        if isinstance(result, str) and result:
            records = sum(1 for name in self._names.values() if name.startswith("record"))
            return self._names.setdefault(result, f"record{records + 1}")
        return ""

    def code(self, value: Any) -> str:
        """A value as Python has it."""
        match value:
            case Caller() | TurnResult() | str() if value in self._names:
                return self._names[value]
            case Stage():
                return "stage"
            case Enum():
                return f"{type(value).__name__}.{value.name}"
            case Path():
                return f"stage.directory / {value.name!r}"
            case Step():
                return _step(value)
            case Line():
                return _call("Line", (value.caller, value.text, value.says), {}, self.code)
            case list() | tuple():
                return f"[{', '.join(map(self.code, value))}]"
        return repr(value)


def _goes_without_saying(key: str, value: Any) -> bool:
    return key == "expect" or value in _LEFT_OUT.get(key, ())


def _call(name: str, args: Sequence[Any], options: Mapping[str, Any], code: Callable[[Any], str]) -> str:
    given = [*map(code, args), *(f"{key}={code(value)}" for key, value in options.items())]
    return f"{name}({', '.join(given)})"


def _step(step: Step) -> str:
    if step.status != _OK:
        return f"fails({step.status})"
    if len(step.calls) != 1:
        return repr(step)
    arguments = _arguments(step.calls[0])
    say = f", say={step.text!r}" if step.text else ""
    if step.calls[0].name == TOOL and list(arguments) == ["query"]:
        return f"use_tool({arguments['query']!r}{say})"
    return f"call_tool({step.calls[0].name!r}, {arguments!r}{say})"


def _arguments(call: ToolCall) -> dict[str, Any]:
    return dict(json.loads(call.arguments))
