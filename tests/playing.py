"""Playing boundary tests on a memory in this process, without a child pytest.

A test module that plays many asks for the fixture `serving`: then they share one model server, which otherwise takes a
tenth of a second to stop each time.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from types import ModuleType
from typing import Any

import pytest

from memtrace.harness.running.interpreters import Interpreters
from memtrace.harness.scripted_model.server import ModelServer
from memtrace.harness.scripts import cases
from memtrace.harness.session import Script, _id_key, make_suite
from memtrace.harness.verdicts.ledger import Entry
from memtrace.model import Verdict

Test = Callable[..., object]


def play(test: Test, memory: str, **arguments: Any) -> list[Entry]:
    """Play one boundary test on a memory: what its history says of each rule it bears on, its own rules first.

    ``memory`` is what ``--memory`` takes. ``arguments`` are those of a parametrized test.
    """
    mark, suite = _mark(test), make_suite(memory)
    suite._interpreters = _interpreters[-1] if _interpreters else suite._interpreters
    script = Script(mark.args, test.__name__, needs=mark.kwargs["needs"])
    with (
        _id_key(),
        nullcontext(_shared[-1]) if _shared else ModelServer() as suite._server,
        suite.stage(test.__name__, mark.kwargs["options"]) as stage,
    ):
        suite.allowed = dict(getattr(stage.system, "allowed", {}))
        return suite.play(stage, script, lambda: test(stage=stage, **arguments))


def play_rule(module: ModuleType, rule: str, memory: str) -> dict[str, Entry]:
    """What each script of a rule says of it on a memory, by the script's name."""
    found = {}
    for name, test, arguments in scripts_of(module, rule):
        found[name] = next(entry for entry in play(test, memory, **arguments) if entry.finding.rule == rule)
    return found


def scripts_of(module: ModuleType, rule: str = "") -> Iterator[tuple[str, Test, Mapping[str, Any]]]:
    """The boundary tests of a module (of one rule), parametrized ones once for each set of arguments."""
    for name, test in vars(module).items():
        if inspect.isfunction(test) and name.startswith("test_") and rule in ("", *_mark(test).args):
            for arguments in cases(test):
                yield name + "".join(f"[{value}]" for value in arguments.values()), test, arguments


def rules_of(test: Test) -> tuple[str, ...]:
    """The rules that a boundary test is a script of."""
    return tuple(_mark(test).args)


def verdicts(entries: list[Entry]) -> dict[str, Verdict]:
    """The verdict on each rule."""
    return {entry.finding.rule: entry.finding.verdict for entry in entries}


def accused(entries: list[Entry]) -> set[str]:
    """The rules found violated, or undecided; a test that fails shows why."""
    bad = [entry.finding for entry in entries if entry.finding.verdict in (Verdict.VIOLATED, Verdict.INCONCLUSIVE)]
    for finding in bad:
        print(finding.rule, finding.verdict.value, finding.reason, *finding.evidence, sep="\n  ")
    return {finding.rule for finding in bad}


def _mark(test: Test) -> Any:
    return next(mark for mark in test.pytestmark if mark.name == "rule")


_shared: list[ModelServer] = []
_interpreters: list[Interpreters] = []


@pytest.fixture(scope="module")
def serving() -> Iterator[None]:
    """One model server, and one source of second processes, for all that a module plays."""
    with ModelServer() as server, Interpreters() as interpreters:
        _shared.append(server)
        _interpreters.append(interpreters)
        try:
            yield
        finally:
            _shared.pop()
            _interpreters.pop()
