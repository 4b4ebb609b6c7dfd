"""Somebody who has only a store can be judged on a prompt too."""

from __future__ import annotations

import pytest
from playing import play, verdicts

from boundary_tests.test_users import test_a_stranger_asking_the_same_question_gets_nothing_of_the_owners as script
from memtrace.errors import AdapterError
from memtrace.harness.session import make_suite
from memtrace.harness.system import Environment, complaints
from memtrace.model import Caller, Fact, Verdict

RULE = "users.no-foreign-memory"


class Listing:
    """Rows of a user, newest first."""

    capabilities = frozenset({"facts", "list", "ids"})

    def __init__(self, env: Environment) -> None:
        self.rows: list[tuple[str, str]] = []

    def add(self, caller: Caller, text: str, scope: str = "user") -> int:
        self.rows.append((caller.user, text))
        return len(self.rows)

    def facts(self, caller: Caller, limit: int | None = None, *, superseded: bool = False) -> list[Fact]:
        return [Fact(str(n), text) for n, (user, text) in enumerate(self.rows) if self.visible(user, caller)][:limit]

    def visible(self, user: str, caller: Caller) -> bool:
        return user == caller.user

    def close(self) -> None:
        pass


class Searching(Listing):
    """Async, and it can only search."""

    capabilities = frozenset({"facts", "search", "ids"})

    async def search(self, caller: Caller, query: str) -> list[str]:
        return [text for user, text in self.rows if self.visible(user, caller)]


class Shared(Listing):
    """Forgets whose rows they are."""

    def visible(self, user: str, caller: Caller) -> bool:
        return True


class WriteOnly(Listing):
    capabilities = frozenset({"facts", "ids"})


@pytest.mark.parametrize(
    ("store", "verdict"),
    [("Listing", Verdict.HELD), ("Searching", Verdict.HELD), ("Shared", Verdict.VIOLATED)],
)
def test_a_store_is_judged_on_the_prompt_of_a_loop_around_it(store: str, verdict: Verdict) -> None:
    assert verdicts(play(script, f"{__name__}:{store}"))[RULE] is verdict


def test_the_report_says_that_the_loop_is_not_the_systems() -> None:
    with make_suite(f"{__name__}:Listing") as suite:
        suite.probe()
        assert suite.note == "the turn loop is memtrace's own: the system is a store"


def test_a_store_that_can_show_nothing_cannot_be_judged() -> None:
    assert complaints(WriteOnly(env=None)) == [
        "claims no 'turns', and neither 'list' nor 'search': nothing it keeps can reach a prompt"
    ]
    with make_suite(f"{__name__}:WriteOnly") as suite, pytest.raises(AdapterError, match="nothing it keeps"):
        suite.probe()
