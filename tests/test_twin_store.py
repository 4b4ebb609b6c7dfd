"""Comparing two stores, where the memory takes only one of them."""

from __future__ import annotations

from typing import Any

import pytest
from playing import play

from boundary_tests import test_backends
from memtrace.broken.tiny import TinyMemory
from memtrace.harness.system import Environment
from memtrace.harness.verdicts.judging import worst
from memtrace.model import Caller, Verdict

TEST = test_backends.test_the_same_calls_give_the_same_on_this_store_and_on_a_fresh_one


def refusing(env: Environment) -> TinyMemory:
    """A memory that opens one store, and no other."""
    if not env.store_url.endswith("/memory.db"):
        raise RuntimeError(f"no driver\nfor {env.store_url[:10]}")
    return TinyMemory(env)


class Late(TinyMemory):
    """One that connects when it is first used."""

    def add(self, caller: Caller, text: str, scope: str = "user") -> str:
        """In the one store that there is."""
        refusing(self.env)
        return super().add(caller, text, scope)


@pytest.mark.parametrize("memory", ["refusing", "Late"])
def test_a_memory_that_refuses_the_twin_is_not_exercised_and_the_reason_is_told(memory: str) -> None:
    entries: list[Any] = play(TEST, f"{__name__}:{memory}")
    [finding] = [entry.finding for entry in entries if entry.own]
    assert finding.verdict is Verdict.NOT_EXERCISED
    assert finding.reason.startswith("the memory takes no SQLite file to compare this store with (")
    assert finding.reason.endswith("RuntimeError: no driver for sqlite:///)")


def test_one_that_takes_both_is_compared() -> None:
    found = worst(entry.finding for entry in play(TEST, "memtrace.broken.tiny:TinyMemory") if entry.own)
    assert found is not None
    assert found.verdict is Verdict.HELD


def raising(env: Environment) -> TinyMemory:
    """A memory whose turns fail at length."""
    memory = TinyMemory(env)

    def turn(caller: Caller, text: str) -> None:
        raise RuntimeError("no server\n\tat one address\nnor at another")

    memory.turn = turn  # type: ignore[method-assign, assignment]
    return memory


def test_why_nothing_was_decided_is_one_line() -> None:
    entries = play(
        test_backends.test_while_the_store_fails_turns_that_begin_at_once_end_in_time_with_what_was_known,
        f"{__name__}:raising",
    )
    [finding] = [entry.finding for entry in entries if entry.own]
    assert finding.verdict is Verdict.INCONCLUSIVE
    assert "no server at one address nor at another" in finding.reason
