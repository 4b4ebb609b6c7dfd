"""The scripts of the backends boundary catch each memory that is broken there, and let the lawful ones pass."""

from __future__ import annotations

import subprocess
import sys

import playing
import pytest

from boundary_tests import test_backends
from memtrace.broken import Exhibit, gallery
from memtrace.broken.tiny import Key
from memtrace.broken.tiny_listed import TinyListed
from memtrace.harness.pages import page
from memtrace.harness.rules import RULES
from memtrace.harness.session import Script, make_suite
from memtrace.harness.verdicts.ledger import Entry
from memtrace.model import Caller, Fact, Verdict

pytestmark = pytest.mark.usefixtures("serving")

TIMED = "backends.read-is-flat"
BROKEN = [exhibit for exhibit in gallery() if exhibit.breaks.startswith("backends.")]
LAWFUL = [exhibit for exhibit in gallery() if exhibit.lawful and exhibit.name.startswith("memtrace.broken.backends")]
UNTIMED = [exhibit for exhibit in LAWFUL if TIMED not in exhibit.rules]
CORRECT = ("memtrace.broken.tiny:TinyMemory", "memtrace.broken.tiny_sqlite:TinySqlite")


class KeepsTwoHundred(TinyListed):
    """Drops the oldest."""

    def put(self, key: Key, text: str, *, source: str = "", confidence: float = 1.0) -> str:
        record = super().put(key, text, source=source, confidence=confidence)
        del self.listed[key][:-200]
        return record


class TakesTen(TinyListed):
    """Says so when it is full."""

    def put(self, key: Key, text: str, *, source: str = "", confidence: float = 1.0) -> str:
        if len(self.rows()) == 10:
            raise ValueError("full")
        return super().put(key, text, source=source, confidence=confidence)


class ReadsTenTimes(TinyListed):
    """Fails from then on."""

    def facts(self, caller: Caller, limit: int | None = None, *, superseded: bool = False) -> list[Fact]:
        self.reads = getattr(self, "reads", 0) + 1
        if self.reads > 10:
            raise OSError("gone")
        return super().facts(caller, limit, superseded=superseded)


class ListsNoMoreThanFifty(TinyListed):
    """Fails where more are asked for."""

    def facts(self, caller: Caller, limit: int | None = None, *, superseded: bool = False) -> list[Fact]:
        if limit is not None and limit > 50:
            raise ValueError("too many")
        return super().facts(caller, limit, superseded=superseded)


def name_of(exhibit: Exhibit) -> str:
    return exhibit.name.rpartition(":")[2]


@pytest.mark.parametrize("exhibit", [one for one in BROKEN if one.breaks != TIMED], ids=name_of)
def test_a_broken_memory_is_caught_by_its_rule_alone(exhibit: Exhibit) -> None:
    scripts = playing.scripts_of(test_backends, exhibit.breaks)
    found = [playing.accused(playing.play(test, exhibit.name, **more)) for _, test, more in scripts]
    assert {exhibit.breaks} in found


@pytest.mark.parametrize("exhibit", UNTIMED, ids=name_of)
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
    for rule in set(playing.rules_of(test)) - {TIMED}:
        found = [each[rule] for each in verdicts]
        assert Verdict.HELD in found
        assert set(found) <= {Verdict.HELD, Verdict.NOT_EXERCISED}


def test_every_rule_has_a_memory_that_breaks_it() -> None:
    assert {exhibit.breaks for exhibit in BROKEN} == {rule for rule in RULES if rule.startswith("backends.")}


def timed(memory: str) -> list[Entry]:
    """What the timed script says, where it was asked for."""
    ((_, test, _),) = playing.scripts_of(test_backends, TIMED)
    with make_suite(memory, timed=True) as suite, suite.stage("timed") as stage:
        return suite.play(stage, Script((TIMED,), "timed"), lambda: test(stage=stage))


def test_a_memory_that_reads_all_to_show_the_newest_is_caught_where_reads_are_timed() -> None:
    arguments = ["check", "memtrace.broken.backends:SortsThemAll", "--timed", "--rule", TIMED]
    done = subprocess.run(
        [sys.executable, "-m", "memtrace.cli", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert f"{TIMED} VIOLATED: reading the newest 50 takes longer the more their user has" in done.stdout
    [again] = [line for line in done.stdout.splitlines() if line.startswith("  again:")]
    assert again.endswith("--memory memtrace.broken.backends:SortsThemAll --timed")


def test_a_slow_read_that_is_as_slow_for_few_facts_is_not_accused() -> None:
    found = playing.verdicts(timed("memtrace.broken.backends:TakesItsTime"))[TIMED]
    assert found in (Verdict.HELD, Verdict.INCONCLUSIVE)  # the machine may be too busy to tell


@pytest.mark.parametrize(
    ("memory", "reason"),
    [
        ("KeepsTwoHundred", "of 500 facts that were added 200 are there"),
        ("TakesTen", "fact 11 of 50 could not be added: ValueError: full"),
        ("ReadsTenTimes", "the newest 50 could not be read: OSError: gone"),
        ("ListsNoMoreThanFifty", "the newest 100 could not be read: ValueError: too many"),
    ],
)
def test_a_memory_that_does_not_keep_so_many_facts_or_cannot_read_them_is_undecided(memory: str, reason: str) -> None:
    [found] = [entry.finding for entry in timed(f"{__name__}:{memory}") if entry.finding.rule == TIMED]
    assert found.verdict is Verdict.INCONCLUSIVE
    assert reason in found.reason


def test_a_memory_that_takes_too_long_to_fill_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memtrace.harness.scenes.flatness._FILL_SECONDS", 0.0)
    [found] = [entry.finding for entry in timed("memtrace.broken.tiny_listed:TinyListed")]
    assert found.verdict is Verdict.NOT_EXERCISED
    assert found.reason == "5,550 facts could not be added within 0 s"


def test_nothing_is_timed_unless_it_was_asked_for() -> None:
    ((_, test, _),) = playing.scripts_of(test_backends, TIMED)
    assert (
        playing.verdicts(playing.play(test, "memtrace.broken.tiny_listed:TinyListed"))[TIMED] is Verdict.NOT_EXERCISED
    )


def test_the_page_of_what_is_timed_has_a_command_that_times() -> None:
    assert "SortsThemAll --rule backends.read-is-flat --timed" in page(RULES[TIMED])
