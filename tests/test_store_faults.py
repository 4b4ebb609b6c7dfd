"""The contract's tests can fail: each store here has one fault, and the promise that catches it is named."""

import inspect
import itertools

import pytest

pytest.register_assert_rewrite("memtrace.stores.conformance")

from memtrace.model import Level, Scope  # noqa: E402
from memtrace.stores import SqliteStore, sqlite, sqlite_file  # noqa: E402
from memtrace.stores.conformance import FactStoreContract  # noqa: E402

FAULTS = {
    "ids match as prefixes": ("_NEWEST", "scope_id = ?", "scope_id LIKE ? || '%'", "test_odd_ids_are_kept_apart"),
    "ids match as patterns": ("_NEWEST", "scope_id = ?", "scope_id GLOB ?", "test_odd_ids_are_kept_apart"),
    "case is ignored": ("_NEWEST", "scope_id = ?", "scope_id = ? COLLATE NOCASE", "test_odd_ids_are_kept_apart"),
    "spaces are cut": ("_HISTORY", "scope_id = ?", "scope_id = ? COLLATE RTRIM", "test_odd_ids_are_kept_apart"),
    "case in projects": (
        "_NEWEST",
        "project_id = ?",
        "project_id = ? COLLATE NOCASE",
        "test_odd_projects_are_kept_apart",
    ),
    "projects are joined": (
        "_NEWEST",
        "project_id = ? AND scope = ? AND scope_id = ?",
        "project_id || scope_id = ?1 || ?3 AND scope = ?2",
        "test_projects_and_ids_that_join_alike_are_kept_apart",
    ),
    "levels are one": ("_NEWEST", "scope = ?", "scope >= ?", "test_levels_are_kept_apart"),
    "a star is everyone": ("_DELETE_ACTIVE", "scope_id = ?", "?3 IN (scope_id, '*')", "test_odd_ids_are_kept_apart"),
    "a record of any scope": (
        "_WITH_ID",
        "scope_id = ?",
        "scope_id <> ?",
        "test_a_record_is_found_in_its_own_scope_only",
    ),
    "a record of any project": (
        "_WITH_ID",
        "project_id = ?",
        "project_id <= ?",
        "test_a_record_is_found_in_its_own_scope_only",
    ),
    "ties the other way": ("_NEWEST", "id DESC", "id", "test_of_equal_times_the_one_added_last_comes_first"),
    "newest by id": (
        "_NEWEST",
        "created_at DESC, ",
        "",
        "test_the_newest_come_first_whatever_order_they_were_added_in",
    ),
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
    "everyone of all projects": (
        "_EVERYONE",
        "project_id = ?",
        "project_id >= ?",
        "test_everyone_is_one_level_of_one_project",
    ),
    "everyone ever": ("_EVERYONE", "superseded_by IS NULL", "1", "test_everyone_is_one_level_of_one_project"),
    "a superseded text is there": (
        "_SAME",
        "superseded_by IS NULL",
        "1",
        "test_there_and_back_leaves_the_first_text_active",
    ),
    "the same text of anyone": ("_SAME", "scope_id = ?", "scope_id <> ?", "test_odd_ids_are_kept_apart"),
    "superseded ones stay": (
        "_REPLACED",
        "superseded_by = ?",
        "superseded_by = -?",
        "test_a_deleted_record_takes_all_it_superseded_along",
    ),
    "a scope's old ones stay": (
        "_DELETE_SUPERSEDED",
        "scope_id = ?",
        "scope_id <> ?",
        "test_a_whole_scope_is_deleted_with_what_was_superseded",
    ),
    "pruning by id": ("_BEYOND", "created_at DESC, ", "", "test_pruning_keeps_the_newest_of_one_source"),
    "pruning any source": ("_BEYOND", "source = ?", "source >= ?", "test_pruning_keeps_the_newest_of_one_source"),
    "pruning one more": ("_BEYOND", "OFFSET ?", "OFFSET max(? - 1, 0)", "test_pruning_keeps_the_newest_of_one_source"),
    "learned for ever": (
        "_TAKE_OVER",
        "WHERE id",
        "WHERE 0 AND id",
        "test_a_learned_fact_that_is_then_added_by_hand_is_by_hand",
    ),
}


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setitem(sqlite_file._SYNCHRONOUS, False, "OFF")
    return tmp_path / "memory.db"


@pytest.fixture
def store(path):
    store = SqliteStore(path)
    yield store
    store.close()


@pytest.mark.parametrize(("statement", "right", "wrong", "promise"), FAULTS.values(), ids=FAULTS.keys())
def test_the_contract_catches(store, monkeypatch, statement, right, wrong, promise):
    scope = Scope(Level.USER, "alice", "project")
    getattr(FactStoreContract(), promise)(store, scope)
    store.delete(scope)
    faulty = getattr(sqlite, statement).replace(right, wrong)
    assert faulty != getattr(sqlite, statement)
    monkeypatch.setattr(sqlite, statement, faulty)
    with pytest.raises(AssertionError):
        getattr(FactStoreContract(), promise)(store, scope)


class Altered:
    """A store that is right but for what a subclass changes."""

    def __init__(self, path):
        self.right = SqliteStore(path)

    def __getattr__(self, name):
        return getattr(self.right, name)


class Cached(Altered):
    """Reads again only after a write of its own."""

    def __init__(self, path):
        super().__init__(path)
        self.read = {}

    def newest(self, scope, *options, **more):
        return self.read.setdefault((scope, options), self.right.newest(scope, *options, **more))

    def add(self, record):
        self.read.clear()
        return self.right.add(record)


class Overwriting(Altered):
    """Updates what it has read before, whatever happened in between."""

    def supersede(self, scope, record_id, new):
        old = self.right.get(scope, record_id)
        added = self.right.add(new)
        with self.right._writing() as db:
            db.execute("UPDATE learned_memory SET superseded_by = ? WHERE id = ?", (added.id, old.id))
        return added


class Lossy(Altered):
    """Gives up a write in a hundred, as one does that does not wait for a lock."""

    def __init__(self, path):
        super().__init__(path)
        self.writes = itertools.count(1)

    def add(self, record):
        return record if next(self.writes) % 100 == 0 else self.right.add(record)


class Early(Altered):
    """Acknowledges a write before it is one."""

    def __init__(self, path):
        super().__init__(path)
        self.waiting = []

    def add(self, record):
        self.waiting.append(record)
        return self.flush() if len(self.waiting) > 2 else record

    def flush(self):
        added = [self.right.add(record) for record in self.waiting]
        self.waiting.clear()
        return added[-1]

    def history(self, scope):
        return self.right.history(scope)


@pytest.mark.parametrize(
    ("kind", "promise"),
    [
        (Cached, "test_what_another_store_wrote_is_seen_at_once"),
        (Overwriting, "test_of_threads_that_update_the_same_fact_at_once_one_succeeds"),
        (Overwriting, "test_a_killed_writer_loses_nothing_it_acknowledged"),
        (Lossy, "test_threads_that_write_at_once_lose_nothing"),
        (Lossy, "test_processes_that_write_at_once_lose_nothing"),
        (Early, "test_a_killed_writer_loses_nothing_it_acknowledged"),
    ],
)
def test_the_contract_catches_what_only_happens_among_many(path, kind, promise):
    given = {"store": kind(path), "reopen": lambda: kind(path), "scope": Scope(Level.USER, "alice", "project")}
    contract = FactStoreContract()
    contract.kills = 200  # until one hits the moment between two halves of a write
    test = getattr(contract, promise)
    with pytest.raises(AssertionError):
        test(**{name: given[name] for name in inspect.signature(test).parameters})
