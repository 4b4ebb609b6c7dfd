"""The authors rules on memories that do not keep apart who said what."""

from __future__ import annotations

import pytest
from playing import accused, play, scripts_of

import boundary_tests.test_authors as scripts
from memtrace.broken import Exhibit, gallery
from memtrace.harness.rules import RULES

TINY = ("memtrace.broken.tiny:TinyMemory", "memtrace.broken.tiny_offline:TinyOffline")
EXHIBITS = [exhibit for exhibit in gallery() if exhibit.name.startswith("memtrace.broken.authors:")]
pytestmark = pytest.mark.usefixtures("serving")


def found(memory: str, rule: str = "") -> list[set[str]]:
    return [accused(play(test, memory, **arguments)) for _, test, arguments in scripts_of(scripts, rule)]


@pytest.mark.parametrize("exhibit", [e for e in EXHIBITS if e.breaks], ids=lambda e: e.name)
def test_a_broken_memory_is_caught_by_its_rule_alone(exhibit: Exhibit) -> None:
    assert {exhibit.breaks} in found(exhibit.name, exhibit.breaks)


@pytest.mark.parametrize("memory", [*TINY, *(e.name for e in EXHIBITS if e.lawful)])
def test_a_lawful_memory_is_not_accused(memory: str) -> None:
    assert set().union(*found(memory)) == set()


def test_every_rule_has_a_memory_that_breaks_it() -> None:
    rules = {rule for rule in RULES if rule.startswith("authors.")}
    assert {exhibit.breaks for exhibit in EXHIBITS} - {""} == rules
