"""The plane rules on memories that read curated facts wrongly."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playing import accused, play, scripts_of

import boundary_tests.test_plane as scripts
from memtrace.broken import Exhibit, gallery
from memtrace.harness.rules import RULES

EXHIBITS = [exhibit for exhibit in gallery() if exhibit.name.startswith("memtrace.broken.plane:")]
CORRECT = "memtrace.broken.tiny_plane:TinyPlane"
pytestmark = pytest.mark.usefixtures("serving")


def found(memory: str, rule: str = "") -> Iterator[set[str]]:
    for _, test, arguments in scripts_of(scripts, rule):
        yield accused(play(test, memory, **arguments))


@pytest.mark.parametrize("exhibit", [e for e in EXHIBITS if e.breaks], ids=lambda e: e.name)
def test_a_broken_memory_is_caught_by_its_rule_alone(exhibit: Exhibit) -> None:
    assert set().union(*found(exhibit.name, exhibit.breaks)) == {exhibit.breaks}


@pytest.mark.parametrize("memory", [CORRECT, *(e.name for e in EXHIBITS if e.lawful)])
def test_a_lawful_memory_is_not_accused(memory: str) -> None:
    assert set().union(*found(memory)) == set()


def test_every_rule_has_a_memory_that_breaks_it() -> None:
    rules = {rule for rule in RULES if rule.startswith("plane.")}
    assert {exhibit.breaks for exhibit in EXHIBITS} - {""} == rules
