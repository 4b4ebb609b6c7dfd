"""The users rules on memories that do not keep users apart."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playing import accused, play, scripts_of

import boundary_tests.test_users as scripts
import boundary_tests.test_users_ids as ids
import boundary_tests.test_users_overlapping as overlapping
import boundary_tests.test_users_scopes as scopes
from memtrace.broken import Exhibit, gallery
from memtrace.harness.rules import RULES

MODULES = ("memtrace.broken.users:", "memtrace.broken.users_lawful:")
EXHIBITS = [exhibit for exhibit in gallery() if exhibit.name.startswith(MODULES)]
CORRECT = (
    "memtrace.broken.tiny:TinyMemory",
    "memtrace.broken.tiny_eviction:TinyEviction",
    "memtrace.broken.tiny_recall:TinyRecall",
    "memtrace.broken.tiny_swarm:TinySwarm",
)
pytestmark = pytest.mark.usefixtures("serving")


def found(memory: str, rule: str = "") -> Iterator[set[str]]:
    for module in (scripts, ids, overlapping, scopes):
        for _, test, arguments in scripts_of(module, rule):
            yield accused(play(test, memory, **arguments))


@pytest.mark.parametrize("exhibit", [e for e in EXHIBITS if e.breaks], ids=lambda e: e.name)
def test_a_broken_memory_is_caught_by_its_rule_alone(exhibit: Exhibit) -> None:
    assert set().union(*found(exhibit.name, exhibit.breaks)) == {exhibit.breaks}


@pytest.mark.parametrize("memory", [*CORRECT, *(e.name for e in EXHIBITS if e.lawful)])
def test_a_lawful_memory_is_not_accused(memory: str) -> None:
    assert set().union(*found(memory)) == set()


def test_every_rule_has_a_memory_that_breaks_it() -> None:
    rules = {rule for rule in RULES if rule.startswith("users.")}
    assert {exhibit.breaks for exhibit in EXHIBITS} - {""} == rules
