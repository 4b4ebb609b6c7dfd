"""The checks: one pure function a rule, from a history to a judgement; one package a boundary."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, ModuleType
from typing import Final

from memtrace.harness.checks import authors, backends, export, plane, processes, turns, users
from memtrace.harness.findings import Check


def _checks(*modules: ModuleType) -> dict[str, Check]:
    return {thing.rule: thing for module in modules for thing in vars(module).values() if hasattr(thing, "rule")}


CHECKS: Final[Mapping[str, Check]] = MappingProxyType(
    _checks(turns, users, authors, processes, backends, plane, export)
)
"""Every check, by the id of its rule."""
