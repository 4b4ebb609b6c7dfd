"""Verdicts depend neither on the order of tests nor on the number of processes; and what breaks off is not green."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

TINY = "memtrace.broken.tiny:TinyMemory"
PLAIN = ("-p", "memtrace.pytest_plugin", "-p", "no:cacheprovider")
SCRIPTS = """
from memtrace.harness.rules import rule

@rule("users.no-foreign-memory")
def test_a_stranger_gets_nothing(stage):
    alice, bob = stage.callers(2)
    stage.turn(alice, f"My locker code is {stage.canary()}.")
    for caller in (alice, bob, alice):
        stage.turn(caller, "What is my locker code?")

@rule("users.reply-goes-to-its-caller")
def test_each_gets_their_own_answer(stage):
    for caller in stage.callers(2):
        stage.turn(caller, "What is my balance?", says=[f"It is {stage.canary()}."])
"""
MEMORIES = """
import asyncio, os, threading
import memtrace.harness.actor
from memtrace.broken.tiny import TinyMemory

memtrace.harness.actor._TURN_SECONDS = 0.3  # it is not the thirty seconds that are tested

class Crashing(TinyMemory):
    def turn(self, caller, text):
        if text == "What is my balance?":
            os._exit(3)
        return super().turn(caller, text)

class Hanging(TinyMemory):
    def turn(self, caller, text):
        if text == "What is my balance?":
            threading.Event().wait()
        return super().turn(caller, text)

class HangingTask(TinyMemory):
    async def turn(self, caller, text):
        if text == "What is my balance?":
            await asyncio.Event().wait()
        return TinyMemory.turn(self, caller, text)

class Failing(TinyMemory):
    def turn(self, caller, text):
        if self.windows:
            raise RuntimeError("not today")
        return super().turn(caller, text)
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(test_script=SCRIPTS, memories=MEMORIES)
    pytester.syspathinsert()
    return pytester


def verdicts(suite: pytest.Pytester, name: str, *arguments: str) -> Mapping[str, object]:
    """The ledger of a run of some boundary tests: the system, and each rule's verdict and scripts."""
    result = suite.runpytest_subprocess(*PLAIN, *arguments, "--ledger-json", name)
    assert result.ret == 0
    ledger = json.loads((suite.path / name).read_text())
    return {"system": ledger["system"]} | {row["rule"]: (row["verdict"], row["scripts"]) for row in ledger["rules"]}


def test_verdicts_are_the_same_in_another_order_and_in_two_processes(suite: pytest.Pytester) -> None:
    some = (
        "--pyargs",
        "boundary_tests.test_export",
        "boundary_tests.test_scripts",
        "--memory",
        TINY,
        "--scripts",
        "30",
    )
    plain = verdicts(suite, "plain.json", *some)
    assert plain["system"] == TINY
    assert len(plain) > 20
    assert verdicts(suite, "random.json", *some, "-p", "randomly") == plain
    assert verdicts(suite, "two.json", *some, "-p", "xdist", "-n", "2") == plain


@pytest.mark.parametrize(("memory", "processes"), [("Hanging", ()), ("HangingTask", ("-p", "xdist", "-n", "2"))])
def test_a_turn_that_never_ends_is_undecided_and_keeps_nothing_waiting(
    suite: pytest.Pytester, memory: str, processes: tuple[str, ...]
) -> None:
    result = suite.runpytest_subprocess(*PLAIN, "--memory", f"memories:{memory}", *processes, timeout=60)
    assert result.ret == 7
    result.stdout.fnmatch_lines([
        "HELD *users.no-foreign-memory *",
        "INCONCLUSIVE *users.reply-goes-to-its-caller *",
        "*the script broke off: NeverEnded: turn t* did not end within 0.3 s",
    ])  # fmt: skip
    assert result.outlines[-1].endswith("1 inconclusive, 0 violated")


def test_a_worker_that_crashes_is_not_green(suite: pytest.Pytester) -> None:
    result = suite.runpytest_subprocess(*PLAIN, "--memory", "memories:Crashing", "-p", "xdist", "-n", "2", timeout=60)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["*crashed while running 'test_script.py::test_each_gets_their_own_answer'"])


def test_nor_is_a_random_script_that_went_astray(suite: pytest.Pytester) -> None:
    arguments = ("--pyargs", "boundary_tests.test_scripts", "--memory", "memories:Failing", "--scripts", "3")
    result = suite.runpytest_subprocess(*PLAIN, *arguments)
    assert result.ret == 1
    result.stdout.fnmatch_lines([
        "*random script ? went astray: turn t* ended failed, which is not ok*: RuntimeError: not today",
        "*the script:",
        "*again: pytest --pyargs boundary_tests.test_scripts --memory memories:Failing --script *",
    ])  # fmt: skip
    assert result.outlines[-1].endswith("0 violated")


def test_what_a_random_script_breaks_is_in_the_ledger_and_the_command_shows_it_again(suite: pytest.Pytester) -> None:
    memory = ("--memory", "memtrace.broken.users:NamesTheUser")
    result = suite.runpytest_subprocess(*PLAIN, "--pyargs", "boundary_tests.test_scripts", *memory, "--scripts", "4")
    assert result.ret == 1
    result.stdout.fnmatch_lines([
        "VIOLATED *users.id-not-in-prompt *",
        "*seen in: random script ?",
        "*the script:",
        "*alice = stage.caller()",
        "*again: pytest --pyargs boundary_tests.test_scripts --memory memtrace.broken.users:NamesTheUser --script *",
    ])  # fmt: skip
    again = next(line for line in result.outlines if "again: " in line).partition("again: pytest ")[2].split()
    result = suite.runpytest_subprocess(*PLAIN, *again)
    assert result.ret == 1
    result.stdout.fnmatch_lines(["VIOLATED *users.id-not-in-prompt *"])


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--script", "nothing"), "*--script 'nothing' is no random script: copy it whole from a report"),
        (("--scripts", "-3"), "*argument --scripts: '-3' is no number of scripts"),
    ],
)
def test_misuse_is_one_clear_line_and_exit_4(suite: pytest.Pytester, arguments: tuple[str, ...], line: str) -> None:
    result = suite.runpytest_subprocess(*PLAIN, "--pyargs", "boundary_tests.test_scripts", "--memory", TINY, *arguments)
    assert result.ret == 4
    result.stderr.fnmatch_lines([line])
