"""What somebody sees who runs boundary tests with pytest."""

from __future__ import annotations

import json
import re

import pytest

SCRIPT = """
from memtrace.harness.rules import rule

@rule("users.no-foreign-memory")
def test_a_stranger_gets_nothing(stage):
    alice, bob = stage.callers(2)
    stage.turn(alice, f"My locker code is {stage.canary()}.")
    for caller in (alice, bob, alice):
        stage.turn(caller, "What is my locker code?")
"""
MEMORIES = """
from memtrace.broken.tiny import TinyMemory

class Leaky(TinyMemory):
    def key(self, caller, user):
        return (caller.project, "user", "everybody")

class Empty(TinyMemory):
    def prompt(self, caller, key, text):
        return [{"role": "user", "content": text}]

class Deaf(TinyMemory):
    def ask(self, messages):
        return "Whatever.", []

class Allowed(Leaky):
    allowed = {"users.no-foreign-memory": "one household, one memory"}

class Boasting(TinyMemory):
    capabilities = TinyMemory.capabilities | {"handoff"}

class Unsure(TinyMemory):
    capabilities = frozenset({"turns"})

def raising(env):
    raise RuntimeError("no database here")
"""
TINY = "memtrace.broken.tiny:TinyMemory"


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(test_script=SCRIPT, memories=MEMORIES)
    pytester.syspathinsert()
    return pytester


def run(suite: pytest.Pytester, memory: str | None, *options: str) -> pytest.RunResult:
    arguments = ["--memory", memory] if memory else []
    return suite.runpytest_subprocess("-p", "memtrace.pytest_plugin", *arguments, *options)


def last_line(result: pytest.RunResult) -> str:
    return [line for line in result.outlines if line.strip()][-1]


def test_a_correct_memory_passes_and_the_count_is_the_last_line(suite: pytest.Pytester) -> None:
    result = run(suite, TINY)
    assert result.ret == 0
    count = r"[1-9]\d* held, 0 allowed, 0 known, 0 not exercised, 0 inconclusive, 0 violated"
    assert re.fullmatch(count, last_line(result))


def test_a_leak_fails_with_the_prompt_around_the_word_and_the_command_to_see_it_again(suite: pytest.Pytester) -> None:
    result = run(suite, "memories:Leaky")
    assert result.ret == 1
    result.stdout.fnmatch_lines([
        "users.no-foreign-memory VIOLATED: a caller was shown what only another said or was told",
        "*the answer prompt of turn*",
        "*My locker code is zq*",
        "*where it came from*",
        "*again: pytest --pyargs test_script::test_a_stranger_gets_nothing --memory memories:Leaky",
        "*fix:   memtrace rules users.no-foreign-memory",
    ])  # fmt: skip
    assert "Traceback" not in result.stdout.str()
    assert last_line(result).endswith("1 violated")


def test_a_build_server_is_told_of_a_leak_once(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")  # pytest's own summary holds whole failures there
    told = run(suite, "memories:Leaky").stdout.str()
    assert told.count("  again: pytest ") == 1
    assert run(suite, "memories:Leaky", "-vv").stdout.str().count("  again: pytest ") == 2


def test_a_memory_that_returns_nothing_is_undecided_not_green(suite: pytest.Pytester) -> None:
    result = run(suite, "memories:Empty")
    assert result.ret == 7
    result.stdout.fnmatch_lines(["*INCONCLUSIVE: no owner was shown their own words again"])


def test_what_an_adapter_allows_is_an_expected_failure(suite: pytest.Pytester) -> None:
    result = run(suite, "memories:Allowed")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["ALLOWED*users.no-foreign-memory*", "*one household, one memory*"])


def test_an_excuse_that_is_no_longer_needed_fails(suite: pytest.Pytester) -> None:
    suite.makeini("[pytest]\nmemtrace_known =\n    users.no-foreign-memory: https://example.com/issues/1\n")
    assert run(suite, "memories:Leaky").ret == 0
    result = run(suite, TINY)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*users.no-foreign-memory is excused*but holds*"])


def test_a_system_without_the_capability_exercises_nothing(suite: pytest.Pytester) -> None:
    result = run(suite, "memories:Unsure")
    assert result.ret == 5
    result.stdout.fnmatch_lines(["NOT EXERCISED*does not claim ids*"])


@pytest.mark.parametrize(
    ("memory", "line"),
    [
        (None, "no memory was named.*"),
        ("nosuch", "memory 'nosuch' is unknown: give one of *"),
        ("memories:nosuch", "*has no callable 'nosuch'"),
        ("memories:raising", "the factory raised RuntimeError: no database here"),
        ("memories:Boasting", "*claims 'handoff' but has no method 'handoff'*"),
        ("memories:Deaf", "*a turn called no model*wire env.model_url*"),
    ],
)
def test_misuse_is_one_clear_line_and_exit_4(suite: pytest.Pytester, memory: str | None, line: str) -> None:
    result = run(suite, memory)
    assert result.ret == 4
    result.stderr.fnmatch_lines([f"ERROR: {line}"])
    assert "Traceback" not in result.stdout.str() + result.stderr.str()


def test_an_empty_selection_is_never_green(suite: pytest.Pytester) -> None:
    assert run(suite, TINY, "--rule", "nosuch.*").ret == 5


def test_the_ledger_is_written_as_json_and_markdown(suite: pytest.Pytester) -> None:
    run(suite, "memories:Leaky", "--ledger-json", "ledger.json", "--ledger-markdown", "ledger.md")
    ledger = json.loads((suite.path / "ledger.json").read_text())
    assert ledger["counts"]["violated"] == 1
    (row,) = [row for row in ledger["rules"] if row["rule"] == "users.no-foreign-memory"]
    assert row["verdict"] == "violated"
    assert row["scripts"] == [1, 1]
    assert len(row["history_sha256"]) == 64
    assert "| violated | `users.no-foreign-memory` |" in (suite.path / "ledger.md").read_text()


def test_verdicts_are_the_same_under_xdist(suite: pytest.Pytester) -> None:
    result = run(suite, "memories:Leaky", "-p", "xdist", "-n", "2")
    assert result.ret == 1
    assert last_line(result) == last_line(run(suite, "memories:Leaky"))


def test_other_peoples_tests_are_left_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_plain="def test_plain():\n    pass\n")
    result = pytester.runpytest_subprocess()
    assert result.ret == 0
    assert "memory boundaries" not in result.stdout.str()
