import os
import shutil
import sqlite3
import subprocess
import textwrap
import threading
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

pytest.register_assert_rewrite("memtrace.stores.conformance")

from memtrace.errors import StoreError, UsageError  # noqa: E402
from memtrace.model import Level, Record, Scope  # noqa: E402
from memtrace.stores import SqliteStore, open_store, sqlite, sqlite_file  # noqa: E402
from memtrace.stores.conformance import FactStoreContract  # noqa: E402
from memtrace.stores.conformance.crowd import in_children, in_threads  # noqa: E402

pytest_plugins = ["pytester"]

ALICE = Scope(Level.USER, "alice")
BOB = Scope(Level.USER, "bob")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "memory.db"


@pytest.fixture
def opened(path):
    """Opens stores, on one file if not told otherwise, and closes them in the end."""
    stores = []

    def open_one(at=path, **settings):
        stores.append(SqliteStore(at, **settings))
        return stores[-1]

    yield open_one
    for store in stores:
        store.close()


@pytest.fixture
def store(opened):
    return opened()


def bytes_on_disk(path):
    """All bytes of a database's files, read by another process: to close a file here would drop SQLite's locks on it."""
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


# Each is a store with one fault, and the promise that catches it.
FAULTS = {
    "ids match as prefixes": ("_NEWEST", "scope_id = ?", "scope_id LIKE ? || '%'", "test_odd_ids_are_kept_apart"),
    "ids match as patterns": ("_NEWEST", "scope_id = ?", "scope_id GLOB ?", "test_odd_ids_are_kept_apart"),
    "case is ignored": ("_NEWEST", "scope_id = ?", "scope_id = ? COLLATE NOCASE", "test_odd_ids_are_kept_apart"),
    "spaces are cut": ("_HISTORY", "scope_id = ?", "scope_id = ? COLLATE RTRIM", "test_odd_ids_are_kept_apart"),
    "case in projects": ("_NEWEST", "project_id = ?", "project_id = ? COLLATE NOCASE", "test_odd_projects_are_kept_apart"),
    "projects are joined": (
        "_NEWEST",
        "project_id = ? AND scope = ? AND scope_id = ?",
        "project_id || scope_id = ?1 || ?3 AND scope = ?2",
        "test_projects_and_ids_that_join_alike_are_kept_apart",
    ),
    "levels are one": ("_NEWEST", "scope = ?", "scope >= ?", "test_levels_are_kept_apart"),
    "a star is everyone": ("_DELETE_ACTIVE", "scope_id = ?", "?3 IN (scope_id, '*')", "test_odd_ids_are_kept_apart"),
    "a record of any scope": ("_WITH_ID", "scope_id = ?", "scope_id <> ?", "test_a_record_is_found_in_its_own_scope_only"),
    "a record of any project": (
        "_WITH_ID",
        "project_id = ?",
        "project_id >= ?",
        "test_a_record_is_found_in_its_own_scope_only",
    ),
    "ties the other way": ("_NEWEST", "id DESC", "id", "test_of_equal_times_the_one_added_last_comes_first"),
    "newest by id": ("_NEWEST", "created_at DESC, ", "", "test_the_newest_come_first_whatever_order_they_were_added_in"),
    "whole seconds": (
        "_NEWEST",
        "created_at DESC",
        "CAST(created_at AS INT) DESC",
        "test_the_newest_come_first_whatever_order_they_were_added_in",
    ),
    "one too many": ("_NEWEST", "LIMIT ?", "LIMIT ? + 1", "test_the_limit_keeps_the_newest"),
    "none is all": ("_NEWEST", "LIMIT ?", "LIMIT coalesce(nullif(?, 0), -1)", "test_the_limit_keeps_the_newest"),
    "sources fold": ("_NEWEST_OF_SOURCE", "source = ?", "source = ? COLLATE NOCASE", "test_one_source_is_read_alone"),
    "superseded ones show": (
        "_NEWEST",
        "superseded_by IS NULL",
        "superseded_by IS NOT 0",
        "test_an_update_keeps_the_old_fact_marked_superseded",
    ),
    "everyone of all projects": ("_EVERYONE", "project_id = ?", "project_id >= ?", "test_everyone_is_one_level_of_one_project"),
    "everyone ever": ("_EVERYONE", "superseded_by IS NULL", "1", "test_everyone_is_one_level_of_one_project"),
    "a superseded text is there": ("_SAME", "superseded_by IS NULL", "1", "test_there_and_back_leaves_the_first_text_active"),
    "the same text of anyone": ("_SAME", "scope_id = ?", "scope_id <> ?", "test_odd_ids_are_kept_apart"),
    "superseded ones stay": ("_REPLACED", "superseded_by = ?", "superseded_by = -?", "test_a_deleted_record_takes_all_it_superseded_along"),
    "a scope's old ones stay": ("_DELETE_SUPERSEDED", "scope_id = ?", "scope_id <> ?", "test_a_whole_scope_is_deleted_with_what_was_superseded"),
    "pruning by id": ("_BEYOND", "created_at DESC, ", "", "test_pruning_keeps_the_newest_of_one_source"),
    "pruning any source": ("_BEYOND", "source = ?", "source >= ?", "test_pruning_keeps_the_newest_of_one_source"),
    "pruning one more": ("_BEYOND", "OFFSET ?", "OFFSET max(? - 1, 0)", "test_pruning_keeps_the_newest_of_one_source"),
    "learned for ever": ("_TAKE_OVER", "WHERE id", "WHERE 0 AND id", "test_a_learned_fact_that_is_then_added_by_hand_is_by_hand"),
}  # fmt: skip


@pytest.mark.parametrize(("statement", "right", "wrong", "promise"), FAULTS.values(), ids=FAULTS.keys())
def test_the_contract_catches(store, monkeypatch, statement, right, wrong, promise):
    scope = Scope(Level.USER, "alice", "project")
    getattr(FactStoreContract(), promise)(store, scope)
    store.delete(scope)
    faulty = getattr(sqlite, statement).replace(right, wrong)
    assert faulty != getattr(sqlite, statement)
    monkeypatch.setattr(sqlite, statement, faulty)
    with pytest.raises((AssertionError, UsageError)):
        getattr(FactStoreContract(), promise)(store, scope)
