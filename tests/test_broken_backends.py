"""The scripts of the backends boundary catch each memory that is broken there, and let the lawful ones pass."""

from __future__ import annotations

import playing
import pytest

from boundary_tests import test_backends
from memtrace.broken import Exhibit, gallery
from memtrace.harness.rules import RULES
from memtrace.model import Verdict

pytestmark = pytest.mark.usefixtures("serving")

BROKEN = [exhibit for exhibit in gallery() if exhibit.breaks.startswith("backends.")]
LAWFUL = [exhibit for exhibit in gallery() if exhibit.lawful and exhibit.name.startswith("memtrace.broken.backends")]
CORRECT = ("memtrace.broken.tiny:TinyMemory", "memtrace.broken.tiny_sqlite:TinySqlite")


def name_of(exhibit: Exhibit) -> str:
    return exhibit.name.rpartition(":")[2]


@pytest.mark.parametrize("exhibit", BROKEN, ids=name_of)
def test_a_broken_memory_is_caught_by_its_rule_alone(exhibit: Exhibit) -> None:
    scripts = playing.scripts_of(test_backends, exhibit.breaks)
    found = [playing.accused(playing.play(test, exhibit.name, **more)) for _, test, more in scripts]
    assert {exhibit.breaks} in found


@pytest.mark.parametrize("exhibit", LAWFUL, ids=name_of)
def test_a_lawful_memory_keeps_the_rules_it_might_be_accused_of_breaking(exhibit: Exhibit) -> None:
    for rule in exhibit.rules:
        played = [playing.play(test, exhibit.name, **more) for _, test, more in playing.scripts_of(test_backends, rule)]
        assert [playing.accused(entries) for entries in played] == [set()] * len(played)
        assert Verdict.HELD in [playing.verdicts(entries)[rule] for entries in played]


@pytest.mark.parametrize(
    ("name", "test"), [pytest.param(name, test, id=name) for name, test, _ in playing.scripts_of(test_backends)]
)
def test_a_correct_memory_holds(name: str, test: playing.Test) -> None:
    assert name
    verdicts = [playing.verdicts(playing.play(test, memory)) for memory in CORRECT]
    for rule in playing.rules_of(test):
        found = [each[rule] for each in verdicts]
        assert Verdict.HELD in found
        assert set(found) <= {Verdict.HELD, Verdict.NOT_EXERCISED}


def test_every_rule_has_a_memory_that_breaks_it() -> None:
    assert {exhibit.breaks for exhibit in BROKEN} == {rule for rule in RULES if rule.startswith("backends.")}
