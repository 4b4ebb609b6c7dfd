"""Removing everything that is kept of a user, wherever it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from memtrace.reference import saved
from memtrace.reference.marks import Marks
from memtrace.reference.recall import Namespace
from memtrace.model import Scope

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Erased:
    """How much went: rows of facts, conversations of this process, recalled messages, saved files."""

    facts: int = 0
    conversations: int = 0
    recalled: int = 0
    files: int = 0
