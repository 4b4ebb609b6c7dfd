"""Boundary tests played without pytest, one after another: for what plays many of them on many memories."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Final

from memtrace.harness.session import Script, Suite
from memtrace.harness.stage import Stage
from memtrace.harness.verdicts.ledger import Entry

_SUITE: Final = "boundary_tests"


@dataclass(frozen=True, slots=True)
class BoundaryTest:
    """A boundary test, with the parameters of one case of it where it has any."""

    script: Script
    options: Mapping[str, Any]
    drive: Callable[[Stage], object]

    @property
    def boundaries(self) -> set[str]:
        """The boundaries of its rules."""
        return {rule.partition(".")[0] for rule in self.script.rules}


def boundary_tests() -> Iterator[BoundaryTest]:
    """Every boundary test there is, those with parameters once for each case."""
    for info in pkgutil.iter_modules(importlib.import_module(_SUITE).__path__, f"{_SUITE}."):
        for name, test in vars(importlib.import_module(info.name)).items():
            if inspect.isfunction(test) and name.startswith("test_"):
                yield from _tests_of(name, test)


def _tests_of(name: str, test: Any) -> Iterator[BoundaryTest]:
    for rule in (mark for mark in getattr(test, "pytestmark", ()) if mark.name == "rule"):
        for case in cases(test):
            script = Script(rule.args, "-".join([name, *map(str, case.values())]), needs=rule.kwargs["needs"])
            yield BoundaryTest(script, rule.kwargs["options"], partial(_drive, test, case))


def _drive(test: Callable[..., object], case: Mapping[str, Any], stage: Stage) -> object:
    return test(stage=stage, **case)


def cases(test: Any) -> Iterator[dict[str, Any]]:
    """The arguments of each case of a test, beside the stage: one empty one where it has no parameters."""
    axes = []
    for mark in (mark for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"):
        names = mark.args[0].replace(" ", "").split(",") if isinstance(mark.args[0], str) else list(mark.args[0])
        axes.append([dict(zip(names, case if len(names) > 1 else (case,), strict=True)) for case in mark.args[1]])
    for rows in product(*axes):
        yield {name: value for row in rows for name, value in row.items()}


def play(suite: Suite, test: BoundaryTest) -> list[Entry]:
    """What one test's history says of each rule it bears on."""
    with suite.stage(test.script.test, test.options) as stage:
        return suite.play(stage, test.script, partial(test.drive, stage))
