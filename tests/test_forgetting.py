"""A store of the adopter's own, after the suite: as it was, or with a line that says what is left."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from boundary_tests import test_backends, test_users_ids, test_users_scopes
from memtrace.broken.tiny_sqlite import TinySqlite
from memtrace.harness.record.events import FactWritten, Printed
from memtrace.harness.running.tested_store import TestedStore
from memtrace.harness.services.given import driver
from memtrace.harness.session import Script, Suite, make_suite
from memtrace.harness.stage import Stage
from memtrace.harness.verdicts.ledger import Ledger
from memtrace.harness.verdicts.left import Left, dump_left, load_left, told
from memtrace.harness.verdicts.reporting import markdown, table
from memtrace.model import Caller, Level, Record, Scope, Verdict
from memtrace.stores import open_store
from proofs import __main__ as proofs

MINE = Scope(Level.USER, "mary")
PLAYED = (
    test_backends.test_facts_are_added_replaced_found_and_forgotten_and_are_their_owners_alone,
    test_users_scopes.test_an_agents_facts_reach_its_own_callers_only,
    test_users_scopes.test_facts_of_projects_and_users_that_concatenate_alike_are_apart,
    test_users_ids.test_facts_of_callers_with_similar_ids_are_apart,
)


class Calling(TinySqlite):
    """Tells what was called to remove something."""

    calls: tuple[list[tuple[str, Caller]]] = ([],)

    def forget(self, caller: Caller, record: str | None = None) -> int:
        """As it does."""
        self.calls[0].append(("forget", caller))
        return super().forget(caller, record)


class Keeping(Calling):
    """Forgets nothing."""

    def forget(self, caller: Caller, record: str | None = None) -> int:
        """And says it did."""
        self.calls[0].append(("forget", caller))
        return 1


class Unwilling(TinySqlite):
    """Cannot forget."""

    capabilities = TinySqlite.capabilities - {"forget", "erase"}


@pytest.fixture(autouse=True)
def calls() -> Iterator[list[tuple[str, Caller]]]:
    """What was removed."""
    Calling.calls[0].clear()
    yield Calling.calls[0]
    Calling.calls[0].clear()


@pytest.fixture
def own(tmp_path: Path) -> TestedStore:
    """A file of the adopter's own."""
    return TestedStore("own", f"sqlite:///{tmp_path / 'own.db'}")


def kept(url: str) -> set[Any]:
    """The rows of a Postgres store, or the keys of a Redis one."""
    if url.startswith("redis"):
        with driver("redis").Redis.from_url(url) as client:
            return set(client.keys("*"))
    with driver("postgres").connect(url, autocommit=True) as connection:
        return set(
            connection.execute("SELECT scope, scope_id, project_id, fact, source FROM learned_memory").fetchall()
        )


def play(suite: Suite, test: Callable[..., object] | Any, **arguments: Any) -> list[Verdict]:
    [mark] = [mark for mark in test.pytestmark if mark.name == "rule"]
    script = Script(mark.args, test.__name__, needs=mark.kwargs["needs"])
    with suite.stage(test.__name__, mark.kwargs["options"]) as stage:
        entries = suite.play(stage, script, lambda: test(stage=stage, **arguments))
    return [entry.finding.verdict for entry in entries if entry.own]


@pytest.mark.parametrize("kind", ["postgres", "redis"])
def test_rows_and_keys_are_as_they_were(kind: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue(f"{kind}_url")
    with closing(open_store(url)) as store:
        store.add(Record(MINE, "Has a lamb."))
    before = kept(url)
    with make_suite("reference", store=TestedStore(kind, url)) as suite:
        suite.probe()
        for test in PLAYED:
            assert play(suite, test) == [Verdict.HELD]
        for verb in ("forget", "erase"):
            play(suite, test_users_scopes.test_forgetting_one_user_leaves_the_others_as_they_were, verb=verb)
        assert suite.take_left() == []
    assert kept(url) == before


def tells(stage: Stage) -> None:
    """One user says one thing."""
    stage.add(stage.caller(), f"Has a lamb called {stage.canary()}.")


def written(suite: Suite, script: Callable[[Stage], None]) -> list[FactWritten]:
    """What is in the history of a script."""
    with suite.stage("a script") as stage:
        suite.play(stage, Script((), "a script"), lambda: script(stage))
        return list(stage.history().of(FactWritten))


def test_it_is_no_part_of_the_history_and_is_done_once(own: TestedStore, calls: list[tuple[str, Caller]]) -> None:
    with make_suite(f"{__name__}:Calling", store=own) as suite:
        with suite.stage("a script") as stage:
            suite.play(stage, Script((), "a script"), lambda: tells(stage))
            [added] = stage.history().of(FactWritten)
            assert calls == [("forget", added.caller)]
            assert isinstance(stage.history().events[-1], Printed)
        assert suite.take_left() == []
    assert calls == [("forget", added.caller)]


def test_nothing_is_removed_from_a_place_of_the_suites_own(calls: list[tuple[str, Caller]]) -> None:
    with make_suite(f"{__name__}:Calling", store=TestedStore("sqlite")) as suite:
        written(suite, tells)
    assert calls == []


@pytest.mark.parametrize("user", ["mary", "None", "zq*", "*", ""])
def test_only_ids_that_the_script_has_drawn_are_forgotten(
    own: TestedStore, calls: list[tuple[str, Caller]], user: str
) -> None:
    def script(stage: Stage) -> None:
        stage.add(stage.named(user), "Has a lamb.")

    with make_suite(f"{__name__}:Calling", store=own) as suite:
        written(suite, script)
        left = suite.take_left()
    assert calls == []
    assert [one.names for one in left] == [(user,)] * bool(user)


def test_a_caller_whose_facts_are_listed_still_is_left(own: TestedStore) -> None:
    with make_suite(f"{__name__}:Keeping", store=own) as suite:
        [added] = written(suite, tells)
        assert suite.take_left() == [Left("callers", (added.caller.user,), "facts are listed still after erase")]
        assert suite.take_left() == []


def test_a_script_that_breaks_off_is_forgotten_too(own: TestedStore, calls: list[tuple[str, Caller]]) -> None:
    def broken_off() -> None:
        with make_suite(f"{__name__}:Calling", store=own) as suite, suite.stage("broken off") as stage:
            tells(stage)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken_off()
    assert [verb for verb, _ in calls] == ["forget"]


def test_facts_that_are_no_users_are_told_unless_the_adapter_removes_them(own: TestedStore) -> None:
    def script(stage: Stage) -> None:
        stage.add(stage.caller(), "The shop closes at six.", "agent")

    with make_suite(f"{__name__}:Calling", store=own) as suite:
        written(suite, script)
        [left] = suite.take_left()
    assert left.what == "agents or projects with facts"
    assert left.names[0].startswith("agent-")


def test_it_is_told_in_one_line() -> None:
    left = [Left("callers", (f"u{n}",), "no way") for n in (1, 2, 2, 3, 4)]
    assert told(left) == "left in the store: 4 callers (u1, u2, u3, …): no way"
    assert told([]) == ""
    assert load_left(dump_left(left)) == left
    ledger = Ledger("a memory", left=left)
    assert table(ledger)[-1] == told(left)
    assert markdown(ledger).splitlines()[-1] == told(left)
    assert json.loads(ledger.as_json({}))["left"][0]["why"] == "no way"


def test_check_and_prove_say_what_is_left(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(memories=Path(__file__).read_text().partition("\n@pytest.fixture")[0])
    pytester.makepyfile(
        test_script="from memtrace.harness.rules import rule\n\n@rule('users.own-memory-recalled')\n"
        "def test_one(stage):\n    stage.turn(stage.caller(), 'Hello.')\n"
    )
    pytester.syspathinsert()
    url = f"sqlite:///{tmp_path / 'own.db'}"
    words = ["-p", "memtrace.pytest_plugin", "--memory", "memories:Unwilling", "--store", url]
    lines = [line for line in pytester.runpytest_subprocess(*words).outlines if line.startswith("left in the store: ")]
    assert len(lines) == 1
    assert lines[0].endswith("@example.com): the memory claims neither 'erase' nor 'forget'")
    proofs.main(["2", "--memory", f"{__name__}:Unwilling", "--store", url])
    *_, line, last = capsys.readouterr().out.splitlines()
    assert line.startswith("left in the store: ")
    assert last.startswith("proof 2 ")
