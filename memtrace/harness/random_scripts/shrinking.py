"""Making a script smaller that shows something, as long as it shows it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from memtrace.harness.random_scripts.lines import RandomScript


def smallest(script: RandomScript, shows: Callable[[RandomScript], bool], *, tries: int) -> RandomScript:
    """The smallest script that still ``shows`` it, as far as that many tries lead."""
    candidates = simpler(script)
    for _ in range(tries):
        candidate = next(candidates, None)
        if candidate is None:
            break
        if shows(candidate):
            script, candidates = candidate, simpler(candidate)
    return script


def simpler(script: RandomScript) -> Iterator[RandomScript]:
    """Scripts that are simpler in one way, the boldest first."""
    lines = script.lines
    for size in (len(lines) // 2, len(lines) // 4, 1):
        for end in range(len(lines), 0, -size) if size else ():
            yield _replace(script, lines=(*lines[: max(end - size, 0)], *lines[end:]))
    yield from _plainer(script, "callers", "kin", "unresolved", "options")
    for place, line in enumerate(lines):
        for plainer in _plainer(line, *line.__struct_fields__):
            yield _replace(script, lines=(*lines[:place], plainer, *lines[place + 1 :]))


def _plainer(struct: Any, *names: str) -> Iterator[Any]:
    """The same with one field at its default, where it has one and is not there yet."""
    fields = {field.name: field for field in msgspec.structs.fields(struct)}
    for name in names:
        default = fields[name].default
        if default is not msgspec.NODEFAULT and getattr(struct, name) != default:
            yield _replace(struct, **{name: default})


def _replace(struct: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(struct, **changes)
