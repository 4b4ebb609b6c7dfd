import contextlib
import gc
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import closing
from functools import partial
from urllib.parse import quote, urlsplit, urlunsplit

import pytest
from storing import ALICE, PATIENCE

pytest.register_assert_rewrite("memtrace.stores.conformance")

import psycopg  # noqa: E402

from memtrace.errors import StoreError, UsageError  # noqa: E402
from memtrace.harness.faults.proxy import FaultProxy  # noqa: E402
from memtrace.model import Level, Record, Scope  # noqa: E402
from memtrace.stores import open_store, postgres, postgres_pool, postgres_schema  # noqa: E402
from memtrace.stores.conformance import FactStoreContract  # noqa: E402
from memtrace.stores.conformance.crowd import in_children, in_threads  # noqa: E402
from memtrace.stores.postgres import PostgresStore  # noqa: E402

FAR = time.monotonic() + 3600


@pytest.fixture
def proxy(postgres_url):
    with FaultProxy(postgres_url) as proxy:
        yield proxy


def ask(url, question, *values):
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(question, values)
        return cursor.fetchall() if cursor.description else []


def with_option(url, option):
    return f"{url}{'&' if '?' in url else '?'}options={quote(option)}"


def as_user(url, login, database=None):
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=f"{login}@{place}", path=f"/{database}" if database else parts.path))


class TestPostgres(FactStoreContract):
    @pytest.fixture
    def reopen(self, opened):
        return opened


class TestOpening:
    """A store opens, or says in one line what is wrong and leaves everything as it was."""

    def test_a_new_place_has_the_documented_table(self, store, postgres_url):
        columns = [name for (name,) in ask(
            postgres_url,
            "SELECT attname FROM pg_attribute WHERE attrelid = 'learned_memory'::regclass AND attnum > 0",
        )]  # fmt: skip
        assert columns == [
            "id", "scope", "scope_id", "project_id", "scope_sha256", "fact", "fact_sha256", "confidence", "source",
            "source_trace_id", "source_span_id", "created_at", "superseded_by",
        ]  # fmt: skip

    def test_a_url_opens_it(self, postgres_url):
        with closing(open_store(postgres_url)) as store:
            added = store.add(Record(ALICE, "likes tea"))
            assert store.newest(ALICE) == [added]
            assert isinstance(store, PostgresStore)

    def test_the_table_itself_refuses_an_active_fact_twice(self, store, postgres_url):
        store.add(Record(ALICE, "likes tea"))
        columns = "scope, scope_id, project_id, scope_sha256, fact, fact_sha256, confidence, source, source_trace_id"
        with pytest.raises(psycopg.errors.UniqueViolation):
            ask(
                postgres_url,
                f"INSERT INTO learned_memory ({columns}, source_span_id, created_at)"
                f" SELECT {columns}, source_span_id, created_at FROM learned_memory",
            )

    def test_threads_and_processes_that_open_a_new_place_at_once_all_can(self, opened, postgres_url):
        def write(writer):
            opened().add(Record(ALICE, f"fact {writer}"))

        in_threads(6, write)
        ask(postgres_url, "DROP TABLE learned_memory")
        assert in_children(6, write) == [0] * 6
        assert len(opened().newest(ALICE)) == 6

    def test_another_applications_table_is_left_alone(self, postgres_url):
        ask(postgres_url, "CREATE TABLE learned_memory (fact text)")
        with pytest.raises(StoreError, match="not memtrace's: name another database"):
            PostgresStore(postgres_url)
        assert ask(postgres_url, "SELECT * FROM learned_memory") == []

    def test_a_table_in_another_schema_of_the_path_is_another_place(self, store, postgres_url):
        [(here,)] = ask(postgres_url, "SELECT current_schema()")
        ask(postgres_url, f"CREATE SCHEMA {here}_first")
        try:
            store.add(Record(ALICE, "likes tea"))
            with closing(PostgresStore(with_option(postgres_url, f"-csearch_path={here}_first,{here}"))) as first:
                assert first.newest(ALICE) == []
                first.add(Record(ALICE, "likes jazz"))
            assert [record.text for record in store.newest(ALICE)] == ["likes tea"]
        finally:
            ask(postgres_url, f"DROP SCHEMA {here}_first CASCADE")

    def test_an_older_schema_is_brought_up_to_date_once(self, store, opened, postgres_url, monkeypatch):
        kept = store.add(Record(ALICE, "likes tea"))
        step = ("ALTER TABLE learned_memory ADD COLUMN mood text",)
        monkeypatch.setattr(postgres_schema, "_STEPS", (*postgres_schema._STEPS, step))
        stores = in_threads(4, lambda _: opened())
        assert stores[0].newest(ALICE) == [kept]
        assert ask(postgres_url, "SELECT mood FROM learned_memory") == [(None,)]

    def test_a_failed_step_leaves_the_older_schema(self, store, opened, postgres_url, monkeypatch):
        kept = store.add(Record(ALICE, "likes tea"))
        step = ("ALTER TABLE learned_memory ADD COLUMN mood text", "no statement")
        with monkeypatch.context() as patch:
            patch.setattr(postgres_schema, "_STEPS", (*postgres_schema._STEPS, step))
            with pytest.raises(StoreError, match="syntax error"):
                opened()
        assert opened().newest(ALICE) == [kept]

    def test_a_newer_schema_is_refused(self, store, postgres_url):
        ask(postgres_url, "COMMENT ON TABLE learned_memory IS 'memtrace schema 99'")
        with pytest.raises(StoreError, match=r"newer memtrace \(schema 99, .*\): upgrade memtrace"):
            PostgresStore(postgres_url)

    @pytest.mark.parametrize(
        "url",
        [
            "postgresql://me:secret@host:port/db",
            "postgresql://me:secret@host:99999/db",
            "postgresql://me:se/secret@host/db",
            "postgresql://me:%zzsecret@host/db",
            "postgresql://me:secret@host/db?colour=secret&password=secret",
            "postgresql:secret",
            "postgres://[::1/secret",
        ],
    )
    def test_a_url_that_is_none_is_refused_without_its_password(self, url):
        with pytest.raises(UsageError, match=r"URL.*give ") as refusal:
            open_store(url)
        assert "secret" not in str(refusal.value).replace("[::1/secret", "").replace("colour=secret", "")
        assert "\n" not in str(refusal.value)

    @pytest.mark.parametrize(
        "settings", [{"timeout": 0}, {"timeout": -1.0}, {"timeout": float("inf")}, {"connections": 0}]
    )
    def test_nothing_can_be_done_in_no_time_or_with_no_connection(self, settings):
        with pytest.raises(UsageError, match="timeout must be above 0"):
            PostgresStore("postgresql://host/db", **settings)

    def test_a_missing_driver_is_named_with_its_extra(self):
        program = (
            "import sys; sys.modules['psycopg'] = None\n"
            "from memtrace.errors import UsageError\n"
            "from memtrace.stores import open_store\n"
            "try: open_store('postgresql://me:secret@host/db')\n"
            "except UsageError as error: print(error)"
        )
        said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
        assert "memtrace-otel[postgres]" in said
        assert "secret" not in said


class TestRefusals:
    """What a server says no to is said in one line, with the remedy."""

    def test_a_server_that_is_not_there(self):
        with pytest.raises(StoreError, match="cannot be reached: check the host") as refusal:
            PostgresStore("postgresql://me:secret@127.0.0.1:1/db")
        assert "postgresql://me:***@127.0.0.1:1/db" in str(refusal.value)
        assert isinstance(refusal.value.__cause__, psycopg.OperationalError)
        assert "\n" not in str(refusal.value)

    def test_a_host_that_is_not_there(self):
        with pytest.raises(StoreError, match="cannot be reached: check the host"):
            PostgresStore("postgresql://me@nowhere.invalid/db")

    @pytest.mark.parametrize(
        ("option", "said"),
        [
            ("sslmode=bogus", r"a value that libpq does not know: correct it \(invalid sslmode value: \"bogus\"\)"),
            ("target_session_attrs=x", "a value that libpq does not know: correct it"),
            ("sslmode=require", "does not speak TLS, which sslmode asks for"),
        ],
    )
    def test_an_option_that_cannot_be_kept(self, postgres_url, option, said):
        with pytest.raises(StoreError, match=said):
            PostgresStore(f"{postgres_url}{'&' if '?' in postgres_url else '?'}{option}")

    def test_a_database_that_is_not_there(self, postgres_url):
        with pytest.raises(StoreError, match="no such database: create it"):
            PostgresStore(urlunsplit(urlsplit(postgres_url)._replace(path="/no_such_database")))

    def test_a_read_only_server_is_read_and_not_written(self, store, postgres_url):
        kept = store.add(Record(ALICE, "likes tea"))
        reading = with_option(postgres_url, "-cdefault_transaction_read_only=on")
        with closing(PostgresStore(reading)) as other:
            for write in (
                partial(other.add, Record(ALICE, "likes jazz")),
                partial(other.supersede, ALICE, kept.id, Record(ALICE, "likes jazz")),
                partial(other.delete, ALICE),
            ):
                with pytest.raises(StoreError, match="is read-only: name the primary"):
                    write()
            assert other.history(ALICE) == [kept]
        ask(postgres_url, "DROP TABLE learned_memory")
        with pytest.raises(StoreError, match="is read-only"):
            PostgresStore(reading)

    def test_a_full_disk_leaves_nothing_half_written(self, store, postgres_url):
        kept = store.add(Record(ALICE, "is on Free"))
        ask(
            postgres_url,
            """
            CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN RAISE 'could not extend file' USING ERRCODE = 'disk_full'; END $$;
            CREATE TRIGGER no_room BEFORE UPDATE ON learned_memory FOR EACH ROW EXECUTE FUNCTION no_room()
            """,
        )
        with pytest.raises(StoreError, match="no room left: free some space"):
            store.supersede(ALICE, kept.id, Record(ALICE, "is on Pro"))
        assert store.history(ALICE) == [kept]
        ask(postgres_url, "DROP TRIGGER no_room ON learned_memory")
        assert store.supersede(ALICE, kept.id, Record(ALICE, "is on Pro")) in store.newest(ALICE)

    def test_a_wrong_password(self, postgres_to_harm):
        [(path,)] = ask(postgres_to_harm.url, "SHOW hba_file")
        ask(postgres_to_harm.url, "DROP ROLE IF EXISTS guarded")
        ask(postgres_to_harm.url, "CREATE ROLE guarded SUPERUSER LOGIN PASSWORD 'right'")
        lines = ["host all guarded all scram-sha-256", "host all all all trust"]
        ask(postgres_to_harm.url, f"COPY (SELECT unnest(ARRAY{lines})) TO '{path}'")
        ask(postgres_to_harm.url, "SELECT pg_reload_conf()")
        for login, said in (
            ("guarded:secret", "refused the password"),
            ("guarded", "refused the password"),
            ("nobody:secret", "refused this user"),
        ):
            with pytest.raises(StoreError, match=said) as refusal:
                _open_until_refused(as_user(postgres_to_harm.url, login))
            assert "secret" not in str(refusal.value)
        PostgresStore(as_user(postgres_to_harm.url, "guarded:right")).close()

    def test_a_user_who_may_not_make_the_table(self, postgres_to_harm):
        ask(postgres_to_harm.url, "DROP ROLE IF EXISTS guest")
        ask(postgres_to_harm.url, "CREATE ROLE guest LOGIN")
        ask(postgres_to_harm.url, "DROP DATABASE IF EXISTS others")
        ask(postgres_to_harm.url, "CREATE DATABASE others")
        url = as_user(postgres_to_harm.url, "guest", "others")
        with pytest.raises(StoreError, match="does not permit this: grant"):
            PostgresStore(url)
        ask(postgres_to_harm.url, "ALTER ROLE guest CONNECTION LIMIT 0")
        with pytest.raises(StoreError, match="no connection left: raise max_connections"):
            PostgresStore(url)

    def test_a_database_that_is_not_in_utf8(self, postgres_to_harm):
        ask(postgres_to_harm.url, "DROP DATABASE IF EXISTS latin")
        ask(postgres_to_harm.url, "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
        with pytest.raises(StoreError, match="is in LATIN1: make a database with ENCODING 'UTF8'"):
            PostgresStore(as_user(postgres_to_harm.url, "postgres", "latin"))


def _open_until_refused(url):
    """The server takes a moment to read its rules again."""
    while True:
        PostgresStore(url).close()


class TestOutages:
    """Each call ends; the first one after the outage is answered."""

    @pytest.fixture
    def far(self, opened, proxy, postgres_url):
        store = opened(proxy.url(postgres_url), timeout=PATIENCE)
        store.add(Record(ALICE, "likes tea"))
        return store

    def assert_works_again(self, store):
        assert [record.text for record in store.newest(ALICE)] == ["likes tea"]
        store.delete(ALICE, store.add(Record(ALICE, "likes jazz")).id)

    def test_refused(self, far, proxy):
        proxy.refuse()
        for _ in range(3):
            with pytest.raises(StoreError, match="cannot be reached"):
                far.newest(ALICE)
        with pytest.raises(StoreError, match="cannot be reached"):
            far.add(Record(ALICE, "likes jazz"))
        proxy.pass_through()
        self.assert_works_again(far)

    @pytest.mark.parametrize("fault", ["black_hole", "half_open"])
    def test_silent_after_it_was_connected(self, far, proxy, fault):
        in_threads(3, lambda _: far.newest(ALICE))
        getattr(proxy, fault)()
        with pytest.raises(StoreError, match=r"did not answer in time: .* timeout="):
            far.newest(ALICE)
        assert far._connections._idle == [], "the others are as dead"
        proxy.pass_through()
        self.assert_works_again(far)

    def test_silent_before_it_was_connected(self, far, proxy):
        far.close()
        proxy.black_hole()
        with pytest.raises(StoreError, match="did not answer in time"):
            far.newest(ALICE)
        proxy.pass_through()
        self.assert_works_again(far)

    def test_too_slow(self, far, proxy):
        proxy.slow(PATIENCE * 4)
        with pytest.raises(StoreError, match="did not answer in time"):
            far.newest(ALICE)
        proxy.pass_through()
        self.assert_works_again(far)

    def test_cut_off_in_the_middle_of_a_reply(self, far, proxy):
        proxy.reset_mid_reply(1)
        with pytest.raises(StoreError, match="cannot be reached"):
            far.newest(ALICE)
        proxy.pass_through()
        self.assert_works_again(far)

    def test_cut_off_while_nothing_was_asked(self, far, proxy):
        in_threads(3, lambda _: far.newest(ALICE))
        proxy.reset()
        self.assert_works_again(far)

    def test_a_server_process_that_is_stopped(self, postgres_to_harm):
        with closing(PostgresStore(postgres_to_harm.url, timeout=PATIENCE)) as store:
            store.add(Record(ALICE, "likes tea"))
            with store._connections.lend(FAR) as connection:
                process = connection.info.backend_pid
            os.kill(process, signal.SIGSTOP)
            try:
                with pytest.raises(StoreError, match="did not answer in time"):
                    store.newest(ALICE)
            finally:
                os.kill(process, signal.SIGCONT)
            self.assert_works_again(store)
            store.delete(ALICE)

    def test_a_session_that_is_ended(self, far, postgres_url):
        with far._connections.lend(FAR) as connection:
            process = connection.info.backend_pid
        ask(postgres_url, "SELECT pg_terminate_backend(%s, 5000)", process)
        self.assert_works_again(far)

    def test_a_record_that_another_has_locked(self, opened, postgres_url):
        store = opened(timeout=PATIENCE)
        kept = store.add(Record(ALICE, "likes tea"))
        with psycopg.connect(postgres_url) as other:
            other.execute("SELECT * FROM learned_memory FOR UPDATE")
            with pytest.raises(StoreError, match="stayed locked"):
                store.delete(ALICE, kept.id)
            assert store.newest(ALICE) == [kept]
        self.assert_works_again(store)

    def test_a_statement_that_takes_too_long(self, opened):
        store = opened(timeout=PATIENCE)
        store.add(Record(ALICE, "likes tea"))
        with pytest.raises(StoreError, match="did not finish in time"):
            store._rows("SELECT pg_sleep(60)", {})
        self.assert_works_again(store)

    def test_more_threads_than_connections(self, opened):
        store = opened(connections=2, timeout=PATIENCE)
        in_threads(8, lambda number: store.add(Record(ALICE, f"fact {number}")))
        assert len(store.newest(ALICE)) == 8
        lend = partial(store._connections.lend, FAR)
        with lend(), lend(), pytest.raises(StoreError, match=r"all 2 connections .* connections="):
            store.newest(ALICE)
        assert len(store.newest(ALICE)) == 8


class TestForks:
    """A child has connections of its own, and leaves its parent's alone."""

    def test_a_child_that_ends_normally_leaves_the_parents_session(self, postgres_url):
        program = f"""
import os, sys
from memtrace.model import Level, Record, Scope
from memtrace.stores import open_store
store = open_store({postgres_url!r})
alice = Scope(Level.USER, "alice")
store.add(Record(alice, "of the parent"))
with store._connections.lend(float("inf")) as connection:
    session = connection.info.backend_pid
child = os.fork()
if child == 0:
    store.add(Record(alice, "of the child"))
    sys.exit()
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
with store._connections.lend(float("inf")) as connection:
    assert connection.info.backend_pid == session
print(len(store.newest(alice)))
"""
        run = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True)
        assert (run.stdout, run.stderr, run.returncode) == ("2\n", "", 0)

    def test_what_is_inherited_is_neither_used_nor_closed(self, store):
        with store._connections.lend(FAR) as inherited:
            pass
        store._connections.start_anew()
        with store._connections.lend(FAR) as own:
            assert own is not inherited
        assert inherited.execute("SELECT 1").fetchone() == (1,)
        postgres_pool._inherited.remove(inherited)
        inherited.close()

    def test_a_store_that_is_dropped_closes_its_connections(self, opened, postgres_url):
        store = PostgresStore(postgres_url)
        with store._connections.lend(FAR) as connection:
            pass
        del store
        gc.collect()
        assert connection.closed

    def test_an_idle_connection_holds_none_of_the_rows_it_read(self, store):
        store.add(Record(ALICE, "likes tea"))
        assert len(store.newest(ALICE)) == len(store.newest(ALICE)) == 1  # asked twice, it knows how to read the rows
        with store._connections.lend(FAR) as connection:
            assert connection._reader.pgresult.ntuples == 0

    def test_eight_processes_that_write_at_once_lose_nothing(self, store):
        def write(process):
            for number in range(500):
                store.add(Record(ALICE, f"{process}.{number}"))

        assert in_children(8, write) == [0] * 8
        assert len({record.id for record in store.newest(ALICE, None)}) == 4000

    def test_updates_and_deletions_that_cross_each_other_all_end(self, store):
        def work(thread):
            choice = random.Random(thread)
            for _ in range(40):
                record = store.add(Record(ALICE, f"fact {choice.randrange(4)}", source=choice.choice(["", "learned"])))
                with contextlib.suppress(UsageError):  # another thread was faster
                    store.supersede(ALICE, record.id, Record(ALICE, f"fact {choice.randrange(4)}"))
                store.delete(ALICE, choice.choice(store.newest(ALICE) or [record]).id)
                store.prune(ALICE, "learned", 2)

        in_threads(6, work)
        known = {record.id for record in store.history(ALICE)}
        followed = {record.superseded_by for record in store.history(ALICE)} - {None}
        assert followed <= known, "what superseded a record was deleted without it"


class TestReading:
    """The newest cost what they are, not what is stored."""

    @pytest.mark.parametrize("statement", ["_NEWEST", "_NEWEST_OF_SOURCE"])
    def test_a_read_walks_an_index_also_where_nothing_was_analyzed(self, store, statement):
        for number in range(60):
            store.add(Record(ALICE, f"fact {number}"))
        query = getattr(postgres, statement).replace("%(here)s", "$1").replace("%(source)s", "$2") + " LIMIT 50"
        types = "(bytea, text)" if "$2" in query else "(bytea)"
        here = f"'\\x{postgres.place(ALICE).hex()}'" + (", ''" if "$2" in query else "")
        with store._connections.lend(FAR) as connection:
            connection.execute(f"PREPARE reading{types} AS {query}")
            plan = [line for (line,) in connection.execute(f"EXPLAIN EXECUTE reading({here})")]
            connection.execute("DEALLOCATE reading")
        assert not any("Sort" in line or "Seq Scan" in line for line in plan), plan
        assert any(f"Index Scan using learned_memory{statement.lower()}" in line for line in plan), plan

    def test_an_id_and_a_source_of_any_length_are_stored(self, store):
        long = random.Random(0).randbytes(20_000).hex()
        for scope in (Scope(Level.USER, long), Scope(Level.USER, long + "2", long), Scope(Level.USER, long, long)):
            added = store.add(Record(scope, "likes tea", source=long))
            assert store.newest(scope, source=long) == store.everyone(Level.USER, scope.project)[:1] == [added]


FAULTS = {
    "ids match as prefixes": ("_NEWEST", "scope_sha256 = ", "scope_sha256 <= ", "test_odd_ids_are_kept_apart"),
    "ties the other way": ("_NEWEST", "id DESC", "id", "test_of_equal_times_the_one_added_last_comes_first"),
    "superseded ones show": (
        "_NEWEST",
        "superseded_by IS NULL",
        "true",
        "test_an_update_keeps_the_old_fact_marked_superseded",
    ),
    "a record of any scope": (
        "_WITH_ID",
        "scope_sha256 = ",
        "scope_sha256 <> ",
        "test_a_record_is_found_in_its_own_scope_only",
    ),
    "everyone of all projects": (
        "_EVERYONE",
        "project_id = ",
        "project_id >= ",
        "test_everyone_is_one_level_of_one_project",
    ),
    "learned for ever": (
        "_ADD",
        postgres._TAKES_OVER,
        "false",
        "test_a_learned_fact_that_is_then_added_by_hand_is_by_hand",
    ),
    "an update by hand is lost": (
        "_SUPERSEDE",
        postgres._TAKES_OVER,
        "false",
        "test_a_learned_fact_that_an_update_by_hand_brings_in_is_by_hand",
    ),
    "its own text is news": (
        "_SUPERSEDE",
        "old.fact_sha256 <> %(fact_sha256)s",
        "true",
        "test_updating_a_fact_with_its_own_text_changes_nothing",
    ),
    "an old one is updated": (
        "_SUPERSEDE",
        "AND superseded_by IS NULL AND id = ",
        "AND id = ",
        "test_only_an_active_record_is_superseded",
    ),
    "superseded ones stay": ("_DELETE", "known.superseded_by = gone.id", "false", "test_a_deleted_record_takes_all"),
    "a scope's old ones stay": ("_DELETE_ALL", "IS NOT NULL", "= 0", "test_a_whole_scope_is_deleted_with"),
    "pruning by id": ("_PRUNE", "ORDER BY created_at DESC, ", "ORDER BY ", "test_pruning_keeps_the_newest_of_one"),
}


@pytest.mark.parametrize(("statement", "right", "wrong", "promise"), FAULTS.values(), ids=FAULTS.keys())
def test_the_contract_catches(store, monkeypatch, statement, right, wrong, promise):
    scope = Scope(Level.USER, "alice", "project")
    [name] = [each for each in dir(FactStoreContract) if each.startswith(promise)]
    getattr(FactStoreContract(), name)(store, scope)
    store.delete(scope)
    faulty = getattr(postgres, statement).replace(right, wrong)
    assert faulty != getattr(postgres, statement)
    monkeypatch.setattr(postgres, statement, faulty)
    with pytest.raises((AssertionError, StoreError, pytest.fail.Exception)):
        getattr(FactStoreContract(), name)(store, scope)
