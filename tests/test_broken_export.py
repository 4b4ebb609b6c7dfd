"""The export rules on memories whose telemetry is wrong on purpose."""

from __future__ import annotations

import pytest
from playing import accused, play, play_rule, scripts_of

import boundary_tests.test_export as scripts
from memtrace.broken import Exhibit, gallery
from memtrace.model import Verdict

TINY = "memtrace.broken.tiny:TinyMemory"
MODULES = ("memtrace.broken.export:", "memtrace.broken.leaving:", "memtrace.broken.logging_words:")
EXHIBITS = [exhibit for exhibit in gallery() if exhibit.name.startswith(MODULES)]
pytestmark = pytest.mark.usefixtures("serving")


@pytest.mark.parametrize("exhibit", [e for e in EXHIBITS if e.breaks], ids=lambda e: e.name)
def test_a_broken_memory_is_caught_by_its_rule_and_by_no_other(exhibit: Exhibit) -> None:
    found = {}
    for name, test, arguments in scripts_of(scripts):
        found[name] = accused(play(test, exhibit.name, **arguments))
    assert set().union(*found.values()) == {exhibit.breaks}


@pytest.mark.parametrize("exhibit", [e for e in EXHIBITS if e.lawful], ids=lambda e: e.name)
def test_a_lawful_memory_is_not_accused(exhibit: Exhibit) -> None:
    for _, test, arguments in scripts_of(scripts):
        assert accused(play(test, exhibit.name, **arguments)) == set()


@pytest.mark.parametrize("rule", ["export.no-payload-leaves", "export.no-id-in-clear", "export.local-is-complete"])
def test_a_lawful_export_holds(rule: str) -> None:
    verdicts = {
        entry.finding.verdict for entry in play_rule(scripts, rule, "memtrace.broken.leaving:DigestsIds").values()
    }
    assert verdicts == {Verdict.HELD}


@pytest.mark.parametrize(
    "rule", ["export.span-equals-wire", "export.every-call-has-one-span", "export.one-trace-per-turn"]
)
def test_the_small_correct_memory_holds(rule: str) -> None:
    verdicts = {entry.finding.verdict for entry in play_rule(scripts, rule, TINY).values()}
    assert verdicts <= {Verdict.HELD, Verdict.NOT_EXERCISED}
    assert Verdict.HELD in verdicts
