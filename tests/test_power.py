"""The kill matrix: what it says of memories whose fault is known, and of those that have none."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from memtrace.broken import Exhibit, gallery, power
from memtrace.broken.power import Result, chosen, judged, summary
from memtrace.errors import UsageError
from memtrace.harness.scripts import boundary_tests

ONCE = "export.every-call-has-one-span"
TWICE = "memtrace.broken.export:RecordsTwice"
TINY = "memtrace.broken.tiny:TinyMemory"


def test_a_broken_memory_is_caught_by_its_rule_in_the_scripts_of_its_boundary() -> None:
    found = judged(Exhibit(TWICE, breaks=ONCE))
    assert found.right
    assert found.violated[ONCE] > 1
    assert found.violated.keys() == {ONCE}
    assert found.scripts == sum("export" in test.boundaries for test in boundary_tests())
    assert found.line(20).startswith(f"export:RecordsTwice   caught    {ONCE} in {found.violated[ONCE]} of ")


def test_a_fault_that_is_not_there_is_not_seen() -> None:
    found = judged(Exhibit(TINY, breaks="export.span-equals-wire"))
    assert not found.right
    assert found.line(20).startswith("tiny:TinyMemory       NOT SEEN  export.span-equals-wire in 0 of ")


def test_a_memory_that_is_lawful_only_in_name_is_accused() -> None:
    found = judged(Exhibit(TWICE, lawful="it is not", rules=(ONCE,)))
    assert not found.right
    assert f"lawful    ACCUSED of {ONCE} in " in found.line(20)


def test_what_is_left_undecided_of_a_lawful_memory_accuses_it() -> None:
    assert not Result(Exhibit(TINY, lawful="it is"), 3, Counter(), Counter({ONCE: 1})).right
    assert Result(Exhibit(TINY, lawful="it is"), 3).right


def test_the_last_line_counts() -> None:
    caught = Result(Exhibit(TWICE, breaks=ONCE), 3, Counter({ONCE: 1, "export.span-equals-wire": 1}))
    missed = Result(Exhibit(TINY, breaks=ONCE), 3)
    accused = Result(Exhibit(TWICE, lawful="no"), 3, Counter({ONCE: 1}))
    lawful = Result(Exhibit(TINY, lawful="yes"), 3)
    assert summary([caught, missed, accused, lawful]) == (
        "1 of 2 broken memories caught by their rule, 1 of 2 lawful ones accused"
    )
    assert "; also export.span-equals-wire" in caught.line(1)


def test_globs_choose_memories_by_the_rules_they_break_or_seem_to_break() -> None:
    names = {exhibit.name for exhibit in chosen([ONCE])}
    assert names == {exhibit.name for exhibit in gallery() if ONCE in (exhibit.breaks, *exhibit.rules)}
    assert TWICE in names
    assert len(chosen([])) == len(gallery())
    with pytest.raises(UsageError, match="there is no rule 'nosuch'"):
        chosen(["nosuch"])


def test_the_command_prints_the_matrix_and_writes_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "memtrace.broken.power", ONCE, "--json", str(tmp_path / "matrix.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    *rows, last = done.stdout.splitlines()
    memories = chosen([ONCE])
    broken = sum(bool(exhibit.breaks) for exhibit in memories)
    assert last == (
        f"{broken} of {broken} broken memories caught by their rule, 0 of {len(memories) - broken} lawful ones accused"
    )
    assert (done.returncode, done.stderr, len(rows)) == (0, "", len(memories))
    written = json.loads((tmp_path / "matrix.json").read_text())
    assert written["summary"] == last
    assert [memory["memory"] for memory in written["memories"]] == [exhibit.name for exhibit in memories]


def test_a_memory_judged_wrongly_is_status_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(power, "results", lambda exhibits: iter([Result(Exhibit(TINY, breaks=ONCE), 3)]))
    assert power.main([ONCE]) == 1
    assert capsys.readouterr().out.endswith("0 of 1 broken memories caught by their rule, 0 of 0 lawful ones accused\n")


def test_a_matrix_that_cannot_be_written_is_said_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert power.main([ONCE, "--json", "/nosuch/matrix.json"]) == 4
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "memtrace: --json /nosuch/matrix.json: No such file or directory\n")


def test_every_boundary_test_that_pytest_collects_is_played() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:randomly", "-o", "addopts="]
    collected = subprocess.run(
        [*command, "--pyargs", "boundary_tests", "-m", "rule"], capture_output=True, text=True, check=True
    ).stdout
    names = Counter(line.rpartition("::")[2].partition("[")[0] for line in collected.splitlines() if "::" in line)
    assert Counter(test.script.test.partition("-")[0] for test in boundary_tests()) == names
