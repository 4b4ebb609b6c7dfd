"""The gallery: memories that are each wrong in one place, and odd ones that are lawful all the same.

Each departs from a small correct memory as little as it can. A rule is worth having only if a memory here breaks it and
no other rule notices; it is fair only if the lawful ones stay green.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

_Class = TypeVar("_Class", bound=type)


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One memory of the gallery.

    Attributes:
        name: what ``--memory`` takes: ``memtrace.broken.turns:Forgetful``.
        breaks: the one rule it breaks, or ``""``.
        report: the URL of a public report of the same fault, or ``""``.
        lawful: why it is lawful although it looks wrong, or ``""``.
        rules: the rules that a lawful one might be accused of breaking.
        what: the first line of its docstring.
    """

    name: str
    breaks: str = ""
    report: str = ""
    lawful: str = ""
    rules: tuple[str, ...] = ()
    what: str = ""


def broken(rule: str, *, report: str = "") -> Callable[[_Class], _Class]:
    """Mark a memory as one that breaks this rule and no other."""

    def mark(memory: _Class) -> _Class:
        memory.breaks = rule  # type: ignore[attr-defined]
        memory.report = report  # type: ignore[attr-defined]
        return memory

    return mark


def lawful(why: str, *, rules: tuple[str, ...]) -> Callable[[_Class], _Class]:
    """Mark a memory as one that keeps these rules in a way of its own."""

    def mark(memory: _Class) -> _Class:
        memory.lawful = why  # type: ignore[attr-defined]
        memory.rules = rules  # type: ignore[attr-defined]
        return memory

    return mark


def gallery() -> list[Exhibit]:
    """Every marked memory of this package, in the order of its modules and of their source."""
    return [exhibit for info in pkgutil.iter_modules(__path__) for exhibit in _exhibits(f"{__name__}.{info.name}")]


def _exhibits(module: str) -> Iterator[Exhibit]:
    for name, thing in vars(importlib.import_module(module)).items():
        if isinstance(thing, type) and thing.__module__ == module and not vars(thing).keys().isdisjoint(_MARKS):
            marks = {mark: vars(thing)[mark] for mark in _MARKS if mark in vars(thing)}
            yield Exhibit(f"{module}:{name}", what=(thing.__doc__ or "").partition("\n")[0], **marks)


_MARKS = ("breaks", "report", "lawful", "rules")
