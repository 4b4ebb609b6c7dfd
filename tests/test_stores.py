import gc
import itertools
import os
import re
import shutil
import sqlite3
import subprocess
import threading
from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from storing import ALICE, BOB, opening

pytest.register_assert_rewrite("memtrace.stores.conformance")

from memtrace.errors import StoreError, UsageError  # noqa: E402
from memtrace.model import Level, Record  # noqa: E402
from memtrace.stores import SqliteStore, sqlite, sqlite_file, sqlite_pool  # noqa: E402
from memtrace.stores.conformance import FactStoreContract  # noqa: E402
from memtrace.stores.conformance.crowd import in_children, in_threads  # noqa: E402

COLUMNS = [
    "id",
    "scope",
    "scope_id",
    "project_id",
    "fact",
    "fact_sha256",
    "confidence",
    "source",
    "source_trace_id",
    "source_span_id",
    "created_at",
    "superseded_by",
]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


@pytest.fixture
def unsynced(monkeypatch):
    """No waiting for the disk: the kernel keeps what was written though a process is killed."""
    monkeypatch.setitem(sqlite_file._SYNCHRONOUS, False, "OFF")


@pytest.fixture
def opened(path, unsynced):
    with opening(SqliteStore, path) as opened:
        yield opened


@pytest.fixture
def store(opened):
    return opened()


def bytes_on_disk(path):
    """All bytes of a database's files, read by another process: closing a file here would drop SQLite's locks on it."""
    files = [f"{path}{suffix}" for suffix in ("", "-wal", "-shm", "-journal") if Path(f"{path}{suffix}").exists()]
    return subprocess.run([shutil.which("cat"), *files], capture_output=True, check=True).stdout


def ask(path, question):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(question).fetchall()


class TestSqlite(FactStoreContract):
    @pytest.fixture
    def reopen(self, opened):
        return opened


class TestSqliteInMemory(FactStoreContract):
    @pytest.fixture
    def path(self):
        return ":memory:"


class TestOpening:
    """A store opens, or says in one line what is wrong and leaves everything as it was."""

    def test_a_new_file_has_the_documented_table(self, store, path):
        columns = [name for _, name, *_ in ask(path, "PRAGMA table_info(learned_memory)")]
        assert columns == COLUMNS
        assert ask(path, "PRAGMA journal_mode") == [("wal",)]
        assert ask(path, "PRAGMA page_size") == [(8192,)]

    def test_a_file_of_other_pages_keeps_them(self, path, opened):
        with closing(sqlite3.connect(path)) as made:
            made.execute("PRAGMA page_size = 4096")
            made.execute("VACUUM")  # which writes the empty file
        opened().add(Record(ALICE, "likes tea"))
        assert ask(path, "PRAGMA page_size") == [(4096,)]

    def test_the_table_itself_refuses_an_active_fact_twice(self, store, path):
        store.add(Record(ALICE, "likes tea"))
        with closing(sqlite3.connect(path)) as other, pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
            other.execute(f"INSERT INTO learned_memory SELECT id + 1, {', '.join(COLUMNS[1:])} FROM learned_memory")

    def test_a_new_file_is_its_owners_alone(self, store, path):
        store.add(Record(ALICE, "likes tea"))
        assert {oct(file.stat().st_mode & 0o777) for file in path.parent.iterdir()} == {"0o600"}

    def test_threads_that_open_a_new_file_at_once_all_can(self, tmp_path, opened):
        for number in range(5):
            stores = in_threads(8, lambda _, at=tmp_path / f"{number}.db": opened(at))
            for writer, store in enumerate(stores):
                store.add(Record(ALICE, f"fact {writer}"))
            assert len(stores[0].newest(ALICE)) == 8

    def test_processes_that_open_a_new_file_at_once_all_can(self, tmp_path, opened):
        for number in range(5):
            at = tmp_path / f"{number}.db"
            codes = in_children(6, lambda writer, at=at: SqliteStore(at).add(Record(ALICE, f"fact {writer}")))
            assert codes == [0] * 6
            assert len(opened(at).newest(ALICE)) == 6

    def test_a_relative_path_is_of_the_folder_it_was_given_in(self, tmp_path, monkeypatch, opened):
        monkeypatch.chdir(tmp_path)
        store = opened("memory.db")
        (tmp_path / "elsewhere").mkdir()
        monkeypatch.chdir("elsewhere")
        in_threads(2, lambda writer: store.add(Record(ALICE, f"fact {writer}")))
        store.close()
        assert len(store.newest(ALICE)) == 2
        assert not list((tmp_path / "elsewhere").iterdir())

    def test_a_name_like_a_uri_is_a_name(self, tmp_path, monkeypatch, opened):
        monkeypatch.chdir(tmp_path)
        opened("file:memory.db?mode=memory").add(Record(ALICE, "likes tea"))
        assert (tmp_path / "file:memory.db?mode=memory").stat().st_size > 0

    @pytest.mark.parametrize("name", ["", "a\0b"])
    def test_what_is_no_path_is_refused(self, name):
        with pytest.raises(UsageError, match="no path"):
            SqliteStore(name)

    def test_a_folder_is_refused(self, tmp_path):
        _assert_refused(tmp_path, "is a folder: name a file in it")

    def test_a_missing_folder_is_named(self, tmp_path):
        _assert_refused(tmp_path / "none" / "memory.db", f"make the folder {tmp_path / 'none'} first")

    @pytest.mark.parametrize("below", ["memory.db", "none/memory.db"])
    def test_a_file_where_a_folder_should_be_is_named(self, path, below):
        path.write_text("")
        _assert_refused(path / below, f"{path} is a file and no folder, so name another place")

    def test_a_name_that_no_file_can_have_is_refused(self, tmp_path):
        _assert_refused(tmp_path / ("a" * 5000), "cannot be opened")

    def test_a_file_that_is_no_database_is_left_alone(self, path):
        path.write_text("Dear diary, " * 1000)
        _assert_refused(path, "is no SQLite database: name another file, or if it was one, restore it from a backup")
        assert path.read_text() == "Dear diary, " * 1000

    @pytest.mark.parametrize("mark", ["user_version = 24", "application_id = 7", "cache_size = 10"])
    def test_another_applications_database_is_left_alone(self, path, mark):
        with closing(sqlite3.connect(path)) as other:
            other.execute("CREATE TABLE learned_memory (fact TEXT)")
            other.execute(f"PRAGMA {mark}")
        before = path.read_bytes()
        _assert_refused(path, "is another application's database")
        assert path.read_bytes() == before

    @pytest.mark.parametrize("lost", ["user_version", "application_id", "user_version = 0; PRAGMA application_id"])
    def test_a_file_that_a_dump_left_without_its_marks_is_told_with_the_remedy(self, path, opened, lost):
        kept = opened().add(Record(ALICE, "likes tea"))
        opened().close()
        with closing(sqlite3.connect(path)) as other:
            other.executescript(f"PRAGMA {lost} = 0")
            before = list(other.iterdump())
        with pytest.raises(StoreError, match="has lost the marks of a memory's file") as refusal:
            SqliteStore(path)
        assert "\n" not in str(refusal.value)
        with closing(sqlite3.connect(path)) as other:
            assert list(other.iterdump()) == before
            other.executescript(re.search("PRAGMA .*; PRAGMA [^;]*;", str(refusal.value))[0])
        assert opened().newest(ALICE) == [kept]

    def test_a_newer_schema_is_left_alone(self, path, opened, monkeypatch):
        with monkeypatch.context() as newer:
            newer.setattr(sqlite_file, "_STEPS", (*sqlite_file._STEPS, ("CREATE TABLE more (x)",)))
            opened().close()
        before = path.read_bytes()
        _assert_refused(path, "was written by a newer memtrace (schema 2, this one knows 1): upgrade memtrace")
        assert path.read_bytes() == before

    def test_an_older_schema_is_brought_up_to_date_with_its_facts(self, path, opened, monkeypatch):
        kept = opened().add(Record(ALICE, "likes tea"))
        added = ("ALTER TABLE learned_memory ADD COLUMN mood TEXT", "CREATE INDEX by_mood ON learned_memory (mood)")
        monkeypatch.setattr(sqlite_file, "_STEPS", (*sqlite_file._STEPS, added))
        in_threads(4, lambda _: opened())
        assert opened().newest(ALICE) == [kept]
        assert ask(path, "SELECT mood FROM learned_memory") == [(None,)]
        assert ask(path, "PRAGMA user_version") == [(2,)]

    def test_a_schema_that_fails_half_way_is_not_there(self, path, opened, monkeypatch):
        with monkeypatch.context() as broken:
            broken.setattr(sqlite_file, "_STEPS", (("CREATE TABLE learned_memory (fact TEXT)", "CREATE NONSENSE"),))
            _assert_refused(path, "syntax error")
        assert ask(path, "SELECT count(*) FROM sqlite_master") == [(0,)]
        assert opened().newest(ALICE) == []

    @pytest.mark.parametrize(("durable", "synchronous"), [(False, 1), (True, 2)])
    def test_durable_waits_for_the_disk(self, path, durable, synchronous):
        with closing(SqliteStore(path, durable=durable)) as store, store._connections.lend() as connection:
            assert connection.execute("PRAGMA synchronous").fetchone() == (synchronous,)


def _assert_refused(path, remedy):
    with pytest.raises(StoreError) as refusal:
        SqliteStore(path)
    assert str(path) in str(refusal.value)
    assert remedy in str(refusal.value)
    assert "\n" not in str(refusal.value)


class TestFailing:
    """A write that fails leaves nothing of itself, and the next one works."""

    def test_a_full_disk(self, store, path):
        old = store.add(Record(ALICE, "is on Free"))
        with store._connections.lend() as connection:
            (pages,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count = {pages + 10}")
        for write in (
            lambda: store.add(Record(ALICE, "x" * 1_000_000)),
            lambda: store.supersede(ALICE, old.id, Record(ALICE, "x" * 1_000_000)),
        ):
            with pytest.raises(StoreError, match=r"memory\.db has no room left: free some space") as failure:
                write()
            assert isinstance(failure.value.__cause__, sqlite3.Error)
            assert store.history(ALICE) == [old]
        store.supersede(ALICE, old.id, Record(ALICE, "is on Pro"))

    def test_a_read_only_file(self, store):
        kept = store.add(Record(ALICE, "likes tea"))
        with store._connections.lend() as connection:
            connection.execute("PRAGMA query_only = ON")
        for write in (
            lambda: store.add(Record(ALICE, "likes jazz")),
            lambda: store.supersede(ALICE, kept.id, Record(ALICE, "likes jazz")),
            lambda: store.delete(ALICE),
            lambda: store.prune(ALICE, "", 0),
        ):
            with pytest.raises(StoreError, match=r"memory\.db is read-only: make the file and its folder writable"):
                write()
        assert store.history(ALICE) == [kept]

    def test_another_writer_that_does_not_end(self, opened, path):
        store = opened(timeout=0.01)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(StoreError, match=r"memory\.db stayed locked by another writer: try again"):
                store.add(Record(ALICE, "likes tea"))
            assert store.newest(ALICE) == []
            other.execute("ROLLBACK")
        assert store.add(Record(ALICE, "likes tea")) in store.newest(ALICE)

    def test_a_damaged_file(self, opened, path):
        store = opened()
        for number in range(100):
            store.add(Record(ALICE, f"fact {number} " + "x" * 1000))
        store.close()
        with path.open("r+b") as file:
            file.seek(4096 * 3)
            file.write(b"\xff" * 4096 * 20)
        with pytest.raises(StoreError, match=r"memory\.db is damaged: restore it from a backup"):
            store.newest(ALICE, None)
        with pytest.raises(StoreError, match=r"memory\.db is damaged: restore it from a backup"):
            store.delete(ALICE)


class TestForgetting:
    """Nothing of a deleted text is in any of the database's bytes."""

    @pytest.mark.parametrize("size", [1, 40, 2_000, 100_000])
    def test_a_deleted_text_is_in_no_byte(self, store, path, size):
        secret = "the locker code is 4711 "
        old = store.add(Record(ALICE, secret * size))
        new = store.supersede(ALICE, old.id, Record(ALICE, f"no longer: {secret}" * size))
        store.add(Record(BOB, "likes tea"))
        assert secret.encode() in bytes_on_disk(path)
        store.delete(ALICE, new.id)
        left = bytes_on_disk(path)
        assert b"locker" not in left
        assert b"4711" not in left
        assert b"likes tea" in left

    def test_a_deleted_scope_is_in_no_byte_with_what_was_pruned_before(self, store, path):
        for number in range(50):
            store.add(Record(ALICE, f"the locker code is {number}", source="learned"))
        store.prune(ALICE, "learned", 20)
        store.delete(ALICE)
        assert b"locker" not in bytes_on_disk(path)

    def test_a_pruned_text_is_overwritten_once_the_journal_is_gone(self, store, path):
        store.add(Record(ALICE, "the locker code is 4711", source="learned"))
        store.prune(ALICE, "learned", 0)
        store.close()
        assert b"4711" not in bytes_on_disk(path)

    def test_no_copy_is_left_where_pages_were_balanced(self, opened, tmp_path, monkeypatch):
        assert _left_by_churn(opened(tmp_path / "right.db"), tmp_path / "right.db") == set()
        # The same without writing the file anew: SQLite alone does leave copies, or this test would prove nothing.
        monkeypatch.setattr(SqliteStore, "_leave_nothing", _empty_journal_only)
        assert _left_by_churn(opened(tmp_path / "wrong.db"), tmp_path / "wrong.db")

    def test_what_a_reader_still_needs_is_gone_after_the_next_write(self, opened, path):
        store = opened(timeout=0.01)
        store.add(Record(ALICE, "the locker code is 4711"))
        with closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            assert len(reader.execute("SELECT fact FROM learned_memory").fetchall()) == 1
            assert store.delete(ALICE) == 1
            assert store.newest(ALICE) == []
            store.add(Record(BOB, "likes tea"))
            assert b"4711" in bytes_on_disk(path)
        store.add(Record(BOB, "likes jazz"))
        assert b"4711" not in bytes_on_disk(path)

    def test_a_file_that_could_not_be_written_anew_is_with_the_next_delete(self, opened, path, monkeypatch):
        store = opened(timeout=0.01)
        store.add(Record(ALICE, "the locker code is 4711"))
        with monkeypatch.context() as busy, closing(sqlite3.connect(path, isolation_level=None)) as other:
            anew = SqliteStore._leave_nothing
            busy.setattr(SqliteStore, "_leave_nothing", lambda store: [other.execute("BEGIN IMMEDIATE"), anew(store)])
            with pytest.raises(StoreError, match="locked"):
                store.delete(ALICE)
            other.execute("ROLLBACK")
        assert store.history(ALICE) == []
        statements = []
        with store._connections.lend() as connection:
            connection.set_trace_callback(statements.append)
        assert store.delete(ALICE) == 0
        assert "VACUUM" in statements
        assert b"4711" not in bytes_on_disk(path)


def _empty_journal_only(store):
    with store._reading() as db:
        sqlite._emptied_journal(db, wait=1, usually=1)


def _left_by_churn(store, path):
    """The deleted facts that were still in the file at some time of many writes and deletes in a random order."""
    random = Random(13)
    alive, left = {}, set()
    for number in range(300):
        if random.random() < 0.55 or len(alive) < 3:
            fact = f"<{number:06d}>" * random.choice([60, 120, 180, 240])
            alive[store.add(Record(ALICE, fact)).id] = number
        else:
            gone = random.choice(sorted(alive))
            store.delete(ALICE, gone)
            del alive[gone]
            left |= {int(number) for number in re.findall(rb"<(\d{6})>", bytes_on_disk(path))} - set(alive.values())
    return left


class TestForking:
    """No connection is on both sides of a fork."""

    def test_a_child_inherits_no_connection(self, store):
        store.add(Record(ALICE, "likes tea"))
        assert store._connections._idle

        def check(_):
            assert not store._connections._idle
            assert len(store.newest(ALICE)) == 1

        assert in_children(2, check) == [0, 0]
        assert len(store.newest(ALICE)) == 1

    def test_a_child_keeps_its_writes_when_the_parent_closes(self, store, opened):
        """A child with an inherited connection has no lock: the parent's close then deletes the child's journal."""
        store.add(Record(ALICE, "before"))
        (from_child, to_parent), (from_parent, to_child) = os.pipe(), os.pipe()

        def write(_):
            store.add(Record(ALICE, "before the parent closed"))
            os.write(to_parent, b".")
            os.read(from_parent, 1)
            store.add(Record(ALICE, "after the parent closed"))

        def close_in_between():
            os.read(from_child, 1)
            store.close()
            os.write(to_child, b".")

        closing_parent = threading.Thread(target=close_in_between, daemon=True)
        closing_parent.start()
        assert in_children(1, write) == [0]
        closing_parent.join()
        assert len(opened().newest(ALICE)) == 3
        for end in (from_child, to_parent, from_parent, to_child):
            os.close(end)

    def test_a_fork_waits_for_writes_under_way(self, store):
        lent, forking, seen = threading.Event(), threading.Event(), []

        def write():
            with store._connections.lend() as connection:
                lent.set()
                forking.wait()
                seen.append(connection.execute("SELECT 1").fetchone())

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        lent.wait()
        hold = store._connections.hold
        store._connections.hold = lambda: [forking.set(), hold()]
        assert in_children(1, lambda _: store.add(Record(ALICE, f"{len(seen)} writes were under way"))) == [0]
        writer.join()
        assert [record.text for record in store.newest(ALICE)] == ["1 writes were under way"]

    def test_a_connection_that_is_being_closed_counts_as_lent(self, store):
        lent = []

        class Closing:
            def close(self):
                lent.append(store._connections.lent())

        store._connections._idle.append(Closing())
        store.close()
        assert lent == [1]
        assert store._connections.lent() == 0

    def test_a_fork_is_not_kept_waiting_by_threads_that_never_pause(self, store, monkeypatch):
        stop, lent = threading.Event(), []
        hold = store._connections.hold
        monkeypatch.setattr(store._connections, "hold", lambda: [hold(), lent.append(store._connections.lent())])

        def read_until_forked(_):
            while not stop.is_set():
                store.newest(ALICE)

        readers = [threading.Thread(target=read_until_forked, args=(number,), daemon=True) for number in range(3)]
        for reader in readers:
            reader.start()
        codes = in_children(3, lambda number: store.add(Record(ALICE, f"fact {number}")))
        stop.set()
        for reader in readers:
            reader.join()
        assert codes == lent == [0, 0, 0]
        assert len(store.newest(ALICE)) == 3

    def test_what_a_fork_without_hooks_left_is_neither_used_nor_closed(self, store):
        with store._connections.lend() as inherited:
            pass
        store._connections.start_anew()
        with store._connections.lend() as own:
            assert own is not inherited
        assert inherited.execute("SELECT 1").fetchone() == (1,)
        sqlite_pool._inherited.remove(inherited)
        inherited.close()

    def test_memory_does_not_cross_a_fork(self):
        with closing(SqliteStore(":memory:")) as store:
            store.add(Record(ALICE, "likes tea"))

            def check(_):
                with pytest.raises(StoreError, match="name a file"):
                    store.newest(ALICE)

            assert in_children(1, check) == [0]
            assert len(store.newest(ALICE)) == 1


class TestConnections:
    """They are kept open, and closed when they should be."""

    def test_a_thread_uses_the_same_connection_again(self, store):
        with store._connections.lend() as first:
            pass
        with store._connections.lend() as second:
            assert second is first

    def test_two_threads_never_share_one(self, store):
        with store._connections.lend() as first, store._connections.lend() as second:
            assert first is not second

    def test_what_is_in_use_at_close_is_closed_when_it_comes_back(self, store):
        with store._connections.lend() as connection:
            store.close()
            assert connection.execute("SELECT 1").fetchone() == (1,)
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")

    def test_one_that_is_left_in_a_transaction_is_not_used_again(self, store):
        with pytest.raises(StoreError), store._writing() as connection:
            connection.execute("INSERT INTO learned_memory (fact) VALUES ('half')")
        assert store._connections._idle == []
        assert store.everyone(Level.USER) == []

    def test_closing_the_last_leaves_one_file(self, store, path):
        in_threads(4, lambda writer: store.add(Record(ALICE, f"fact {writer}")))
        store.close()
        assert list(path.parent.iterdir()) == [path]

    def test_a_store_that_is_dropped_closes_its_connections(self, path):
        store = SqliteStore(path)
        store.add(Record(ALICE, "likes tea"))
        with store._connections.lend() as connection:
            pass
        del store
        gc.collect()
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")


class TestReading:
    """The newest cost what they are, not what is stored."""

    @pytest.mark.parametrize("options", [{}, {"source": "learned"}, {"source": ""}, {"limit": 1}])
    def test_the_work_of_reading_the_newest_does_not_grow(self, opened, tmp_path, options):
        few, many = (_work_of_reading(opened(tmp_path / f"{count}.db"), count, options) for count in (60, 3000))
        assert few == many

    def test_no_read_of_one_scope_looks_at_others_or_sorts_what_is_sorted(self, store, path):
        for statement in (sqlite._NEWEST, sqlite._NEWEST_OF_SOURCE, sqlite._BEYOND, sqlite._SAME, sqlite._REPLACED):
            with closing(sqlite3.connect(path)) as connection:
                plan = connection.execute(f"EXPLAIN QUERY PLAN {statement}", [""] * statement.count("?")).fetchall()
            assert len(plan) == 1
            assert "(project_id=? AND scope=? AND scope_id=?" in plan[0][-1]


def _work_of_reading(store, count, options):
    """Instructions of SQLite's machine: a measure that no other process on the machine disturbs."""
    with store._writing() as db:
        for number in range(count):
            for scope in (ALICE, BOB):
                sqlite._put(db, Record(scope, f"fact {number}", source="learned", created_at=1.0 + number))
            sqlite._put(db, Record(ALICE, f"by hand {number}", created_at=-1.0 - number))
    for number in range(10, 2000, 10):
        old = store.newest(ALICE, 1, source="learned")[0]
        store.supersede(ALICE, old.id, Record(ALICE, f"new {number}", source="learned", created_at=5000.0 + number))
        if number > count:
            break
    steps = itertools.count()
    with store._connections.lend() as connection:
        connection.set_progress_handler(lambda: next(steps) < 0, 1)
    store.newest(ALICE, **options)
    return next(steps)
