"""One word of configuration names the store."""

import re
from contextlib import closing

import pytest

from memtrace.errors import UsageError
from memtrace.model import Level, Record, Scope
from memtrace.stores import open_store
from memtrace.stores.location import hide_password

ALICE = Scope(Level.USER, "alice")


@pytest.mark.parametrize(
    ("location", "file"),
    [
        ("memory.db", "memory.db"),
        ("sqlite:///memory.db", "memory.db"),
        ("SQLite:///memory.db", "memory.db"),
        ("sqlite:///{}/memory.db", "memory.db"),
        ("{}/memory.db", "memory.db"),
        ("./redis:memory.db", "redis:memory.db"),
        ("a b%20c.db", "a b%20c.db"),
    ],
)
def test_a_path_or_url_names_a_file(tmp_path, monkeypatch, location, file):
    monkeypatch.chdir(tmp_path)
    with closing(open_store(location.format(tmp_path))) as store:
        store.add(Record(ALICE, "likes tea"))
    assert [made.name for made in tmp_path.iterdir()] == [file]


def test_a_path_object_names_a_file(tmp_path):
    open_store(tmp_path / "memory.db").close()
    assert (tmp_path / "memory.db").exists()


@pytest.mark.parametrize("location", [":memory:", "sqlite:///:memory:"])
def test_memory_is_no_file(tmp_path, monkeypatch, location):
    monkeypatch.chdir(tmp_path)
    with closing(open_store(location)) as store:
        store.add(Record(ALICE, "likes tea"))
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "location",
    [
        "",
        "sqlite:memory.db",
        "sqlite:/memory.db",
        "sqlite://memory.db",
        "sqlite://host/memory.db",
        "sqlite://",
        "sqlite:///",
        "sqlite:///memory.db?mode=ro",
        "sqlite:///memory.db#x",
        "postgresql:secret",
        "postgres:/secret",
        "redis:secret",
        "rediss:secret",
        "unix:secret",
        "mysql://me:secret@host/db",
        "file:secret.db",
        "https://me:secret@host/",
    ],
)
def test_any_other_is_refused_with_what_there_is(tmp_path, monkeypatch, location):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as refusal:
        open_store(location)
    assert re.search("give a path|name a file", str(refusal.value))
    assert "secret" not in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@host:5432/db", "postgresql://me:***@host:5432/db"),
        ("postgresql://me:@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("postgresql://[::1]:5432/db", "postgresql://[::1]:5432/db"),
        ("postgresql:///db?host=/run/postgres", "postgresql:///db?host=/run/postgres"),
        (
            "postgresql://one:1,two:2/db?user=me&password=secret&x=1",
            "postgresql://one:1,two:2/db?user=me&password=***&x=1",
        ),
        ("postgresql://host/db?sslpassword=secret", "postgresql://host/db?sslpassword=***"),
        ("postgresql://host/db?p%61ssword=secret", "postgresql://host/db?p%61ssword=***"),
        ("redis://:secret@host:6379/0", "redis://:***@host:6379/0"),
        ("redis://host/0?password=sec@ret", "redis://host/0?password=***"),
        ("unix://me:secret@/run/redis.sock?db=1", "unix://me:***@/run/redis.sock?db=1"),
        ("unix:///run/redis.sock?password=secret&db=1", "unix:///run/redis.sock?password=***&db=1"),
        # not quoted as they should be
        ("postgresql://me:se/cret@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:1/secret@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:se@cret@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:se?cr#et@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:se?password=cret@host/db?a=b", "postgresql://me:***"),
        ("postgresql://me:secret@host/db?password=sec@ret", "postgresql://me:***@host/db?password=***"),
        ("redis:secret", "redis:***"),
        ("memory.db", "memory.db"),
    ],
)
def test_no_password_is_shown(url, shown):
    assert hide_password(url) == shown
