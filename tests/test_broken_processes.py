"""The scripts of the processes boundary catch each memory that is broken there, and let the lawful ones pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import playing
import pytest

from boundary_tests import test_processes, test_processes_forgetting
from memtrace.broken import Exhibit, gallery
from memtrace.harness.rules import RULES
from memtrace.model import Verdict

pytestmark = pytest.mark.usefixtures("serving")

BROKEN = [exhibit for exhibit in gallery() if exhibit.breaks.startswith("processes.")]
LAWFUL = [exhibit for exhibit in gallery() if exhibit.lawful and exhibit.name.startswith("memtrace.broken.processes")]
CORRECT = (
    "memtrace.broken.tiny_processes:TinyProcesses",
    "memtrace.broken.tiny_own_recall:TinyOwnRecall",
    "memtrace.broken.processes_forgetting:TinyForgetfulLog",
)


def scripts(rule: str = "") -> list[tuple[str, playing.Test, Mapping[str, Any]]]:
    modules = (test_processes, test_processes_forgetting)
    return [script for module in modules for script in playing.scripts_of(module, rule)]


def name_of(exhibit: Exhibit) -> str:
    return exhibit.name.rpartition(":")[2]


@pytest.mark.parametrize("exhibit", BROKEN, ids=name_of)
def test_a_broken_memory_is_caught_by_its_rule_alone(exhibit: Exhibit) -> None:
    found = [playing.accused(playing.play(test, exhibit.name, **more)) for _, test, more in scripts(exhibit.breaks)]
    assert {exhibit.breaks} in found


@pytest.mark.parametrize("exhibit", LAWFUL, ids=name_of)
def test_a_lawful_memory_keeps_the_rules_it_might_be_accused_of_breaking(exhibit: Exhibit) -> None:
    for rule in exhibit.rules:
        played = [playing.play(test, exhibit.name, **more) for _, test, more in scripts(rule)]
        assert [playing.accused(entries) for entries in played] == [set()] * len(played)
        assert Verdict.HELD in [playing.verdicts(entries)[rule] for entries in played]


@pytest.mark.parametrize(
    ("test", "arguments"), [pytest.param(test, arguments, id=name) for name, test, arguments in scripts()]
)
def test_a_correct_memory_holds(test: playing.Test, arguments: Mapping[str, Any]) -> None:
    verdicts = [playing.verdicts(playing.play(test, memory, **arguments)) for memory in CORRECT]
    for rule in playing.rules_of(test):
        found = [each[rule] for each in verdicts]
        assert Verdict.HELD in found
        assert set(found) <= {Verdict.HELD, Verdict.NOT_EXERCISED}


def test_every_rule_has_a_memory_that_breaks_it() -> None:
    assert {exhibit.breaks for exhibit in BROKEN} == {rule for rule in RULES if rule.startswith("processes.")}
