"""A proof of several stores: what is played on which, and how that is told."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from histories import HistoryWriter

from memtrace.broken.tiny_sqlite import TinySqlite
from memtrace.errors import AdapterError
from memtrace.harness.record.events import Noted
from memtrace.harness.record.history import History
from memtrace.harness.running.tested_store import TestedStore
from memtrace.harness.scenes.flatness import SIZES
from memtrace.harness.seen.slopes import DURATIONS
from memtrace.harness.services import Server, Unavailable, discard, fresh, is_empty
from memtrace.harness.system import Environment
from memtrace.model import Finding, Level, Record, Scope, Verdict
from memtrace.stores import open_store
from proofs import __main__ as command
from proofs.act import Result
from proofs.proof_5_backends import PROOF
from proofs.report import printed, summed_up
from proofs.stores import OWN, run_on_each, verdicts

LIFE, TIMED = PROOF.acts
UNTIMED = replace(PROOF, acts=(LIFE,))
TINY = "memtrace.broken.tiny:TinyMemory"
LISTED = ["sqlite    cat, dog            tree                bird, dog           bird                nothing"]


def made_of(*names: str) -> list[TestedStore]:
    """Stores that are files, whatever they are called."""
    return [TestedStore(name) for name in names]


def without(monkeypatch: pytest.MonkeyPatch) -> None:
    """No server can be had here."""

    def start(kind: str) -> Server:
        raise Unavailable(kind, ["testcontainers: no daemon answers", f"on PATH: there is no {kind}"])

    monkeypatch.setattr("memtrace.harness.running.tested_store.start", start)
    monkeypatch.delenv("MEMTRACE_REQUIRE_SERVICES", raising=False)


@pytest.mark.usefixtures("postgres_server", "redis_server")
def test_facts_live_alike_on_every_store_that_can_be_had() -> None:
    results = run_on_each(UNTIMED, "reference", stores=made_of(*PROOF.stores))
    assert verdicts(results) == dict.fromkeys(PROOF.stores, Verdict.HELD)
    assert [one.counter is not None for one in results] == [True, False, False]
    assert {tuple(LIFE.show(one.history)) for one in results} == {(LISTED[0][10:],)}


def test_a_store_that_cannot_be_had_is_said_to_be_missing_and_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    without(monkeypatch)
    monkeypatch.setattr(command, "PROOFS", (UNTIMED,))
    saved = tmp_path / "proof.json"
    assert command.main(["5", "--json", str(saved)]) == 0
    lines = capsys.readouterr().out.splitlines()
    why = "no redis server can be had here: testcontainers: no daemon answers; on PATH: there is no redis"
    assert f"  redis    not exercised: {why}" in lines
    assert "  verdict  HELD on sqlite; NOT EXERCISED on postgres, redis" in lines
    assert lines[-1] == "proof 5 held (not exercised on postgres, redis)"
    assert command.main(["--replay", str(saved)]) == 0
    again = capsys.readouterr().out.splitlines()
    assert [line for line in again if line in lines] == again
    assert again[-1] == lines[-1]


def test_without_their_drivers_servers_are_not_exercised_and_the_proof_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def absent(module: str) -> None:
        raise ModuleNotFoundError(name=module)

    monkeypatch.setattr("memtrace.harness.services.given.import_module", absent)
    monkeypatch.setattr(command, "PROOFS", (UNTIMED,))
    for name in ("MEMTRACE_POSTGRES_URL", "MEMTRACE_REDIS_URL", "MEMTRACE_REQUIRE_SERVICES"):
        monkeypatch.delenv(name, raising=False)
    assert command.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  postgres not exercised: psycopg is not installed: pip install 'memtrace-otel[postgres]'" in lines
    assert "  redis    not exercised: redis is not installed: pip install 'memtrace-otel[redis]'" in lines
    assert lines[-1] == "proof 5 held (not exercised on postgres, redis)"


def test_a_saved_report_names_the_store_of_each_act(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    without(monkeypatch)
    monkeypatch.setattr(command, "PROOFS", (UNTIMED,))
    saved = tmp_path / "proof.json"
    command.main(["--json", str(saved)])
    acts = json.loads(saved.read_text())["proofs"][0]["acts"]
    assert [act["store"] for act in acts] == list(PROOF.stores)
    assert [bool(act["unplayed"]) for act in acts] == [False, True, True]


def test_a_memory_that_takes_no_store_is_played_once_on_its_own() -> None:
    results = run_on_each(UNTIMED, TINY, stores=made_of("one", "two"))
    assert verdicts(results) == {OWN: Verdict.HELD, "two": Verdict.NOT_EXERCISED}
    assert "elsewhere" in results[-1].missing


def test_a_memory_that_takes_a_store_is_played_there() -> None:
    results = run_on_each(UNTIMED, "memtrace.broken.tiny_sqlite:TinySqlite", stores=made_of("one", "two"))
    assert verdicts(results) == {"one": Verdict.HELD, "two": Verdict.HELD}


def picky(env: Environment) -> TinySqlite:
    """A memory for SQLite alone."""
    if not env.store_url.startswith("sqlite:"):
        raise ValueError(f"no driver for {env.store_url}")
    return TinySqlite(env)


@pytest.mark.usefixtures("redis_server")
def test_a_store_that_a_memory_cannot_open_is_not_exercised_but_for_the_first() -> None:
    results = run_on_each(UNTIMED, f"{__name__}:picky", stores=[*made_of("one"), TestedStore("redis")])
    assert verdicts(results) == {"one": Verdict.HELD, "redis": Verdict.NOT_EXERCISED}
    assert "no driver for redis://" in results[-1].missing
    with pytest.raises(AdapterError, match="no driver for redis://"):
        run_on_each(UNTIMED, f"{__name__}:picky", stores=[TestedStore("redis")])


@pytest.mark.parametrize("url", ["nosuch://ann:hunter2@h/d", "redis://ann:hunter2@127.0.0.1:1/0"])
def test_a_store_that_was_named_and_cannot_be_had_is_misuse_before_anything_is_played(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], url: str
) -> None:
    monkeypatch.setattr(command, "PROOFS", (UNTIMED,))
    monkeypatch.setattr(command, "run_on_each", lambda *_, **__: pytest.fail("something was played"))
    assert command.main(["5", "--memory", f"{__name__}:picky", "--store", f"sqlite,{url}"]) == 4
    printed = capsys.readouterr()
    [line] = printed.err.splitlines()
    assert printed.out == ""
    assert url.replace("hunter2", "***") in line
    assert "hunter2" not in line


def judged(store: str, verdict: Verdict, reason: str = "") -> Result:
    findings = tuple(Finding(rule, verdict, reason) for rule in LIFE.rules)
    return Result(LIFE, findings, History([]), store=store)


def test_what_differs_between_stores_is_told_of_each() -> None:
    results = [judged("sqlite", Verdict.HELD), judged("redis", Verdict.VIOLATED, "it is gone")]
    lines = list(printed(UNTIMED, [*results, judged("postgres", Verdict.HELD)]))
    assert "    ✓ backends.lifecycle held on sqlite, postgres" in lines
    assert "    ✗ backends.lifecycle violated on redis: it is gone" in lines
    assert lines[-1] == "  verdict  VIOLATED on redis; HELD on sqlite, postgres"
    assert summed_up(UNTIMED, results) == "proof 5 violated"


def test_the_table_shows_medians_with_their_spread_and_the_slope() -> None:
    write = HistoryWriter()
    took = [0.001] * 90 + [0.002] * 10
    write.add(Noted, name=DURATIONS, value={str(size): [size / 50 * one for one in took] for size in SIZES})
    [line] = TIMED.show(write.history())
    assert line.split("  ")[0] == "1.00 [1.00-2.00]"
    assert line.endswith("1.00 [1.00 to 1.00]")
    assert TIMED.show(History([])) == ["no read was timed"]


@pytest.mark.parametrize("kind", ["postgres", "redis"])
def test_a_place_is_empty_until_something_is_kept_there(kind: str, request: pytest.FixtureRequest) -> None:
    server: Server = request.getfixturevalue(f"{kind}_server")
    url = fresh(server)
    assert is_empty(server, url)
    with closing(open_store(url)) as store:
        store.add(Record(Scope(Level.USER, "alice"), "Has a cat."))
    assert not is_empty(server, url)
    discard(server, url)


def test_several_stores_are_for_this_proof_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["2", "--store", "sqlite,redis"]) == 4
    assert "only proof 5 runs on several stores" in capsys.readouterr().err
