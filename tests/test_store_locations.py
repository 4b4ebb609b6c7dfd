"""One word of configuration names the store."""

import re
import subprocess
import sys
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
        (" memory.db", " memory.db"),
        ("'memory.db'", "'memory.db'"),
        ("plan=pro host.db", "plan=pro host.db"),
        ("me@host.db", "me@host.db"),
        ("./host=a password=b.db", "host=a password=b.db"),
        ("./me:1@host.db", "me:1@host.db"),
        ("{}/host=a.db", "host=a.db"),
        ("sqlite:///host=a.db", "host=a.db"),
    ],
)
def test_a_path_or_url_names_a_file(tmp_path, monkeypatch, location, file):
    monkeypatch.chdir(tmp_path)
    with closing(open_store(location.format(tmp_path))) as store:
        store.add(Record(ALICE, "likes tea"))
    assert [made.name for made in tmp_path.iterdir()] == [file]


@pytest.mark.parametrize("location", ["./x://memory.db", "../{}/x://memory.db", "{}/x://memory.db"])
def test_a_path_that_begins_as_one_does_is_one_whatever_follows(tmp_path, monkeypatch, location):
    (tmp_path / "x:").mkdir()
    monkeypatch.chdir(tmp_path)
    open_store(location.format(tmp_path.name if location.startswith("..") else tmp_path)).close()
    assert (tmp_path / "x:" / "memory.db").exists()


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
        "sqlite://me:secret@host/memory.db",
        "host=127.0.0.1 port=1 password=secret",
        "Host=127.0.0.1;Password=secret",
        "sslmode=require password = 'secret'",
        " dbname=facts password=secret",
        "'host=h password=secret'",
        "password=secret://host",
        "postgres//me:secret@host",
        "redis//:secret@host",
        " redis://:secret@host/0",
        "\tpostgresql://me:secret@host/db",
        "'redis://:secret@host/0'",
        '"postgresql://me:secret@host/db"',
        "1redis://:secret@host",
        "1redis://secret.host/0",
        "://me:secret@host",
        "//me:secret@host/db",
        "m:secret@host/db",
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
        ("host=h port=1 password=secret", "***"),
        ("host=h password=se:cret", "***"),
        ("password=secret://host", "***"),
        ("postgres//me:secret@host", "postgres//me:***"),
        ("memory.db", "memory.db"),
    ],
)
def test_no_password_is_shown(url, shown):
    assert hide_password(url) == shown


def test_a_server_stores_own_class_shows_no_connection_string():
    from memtrace.stores.postgres import PostgresStore

    with pytest.raises(UsageError, match="no PostgreSQL URL") as refusal:
        PostgresStore("host=h password=secret")
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("url", "shown", "driver"),
    [
        ("postgresql://me:secret@h/db", "postgresql://me:***@h/db", "psycopg"),
        ("redis://:secret@h/0", "redis://:***@h/0", "redis"),
    ],
)
def test_a_missing_driver_is_told_with_the_url_and_nothing_else(url, shown, driver):
    program = f"import sys; sys.modules[{driver!r}] = None\nfrom memtrace.stores import open_store\nopen_store({url!r})"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False).stderr
    assert said.count("Traceback") == 1
    last = said.splitlines()[-1]
    assert last.startswith(f"memtrace.errors.UsageError: {shown}: ")
    assert f"pip install 'memtrace-otel[{'postgres' if driver == 'psycopg' else 'redis'}]'" in last


@pytest.mark.parametrize(("module", "driver"), [("postgres", "psycopg"), ("redis", "redis")])
def test_a_missing_driver_is_told_once_where_a_stores_own_module_is_imported(module, driver):
    program = f"import sys; sys.modules[{driver!r}] = None; import memtrace.stores.{module}"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False).stderr
    assert said.count("Traceback") == 1
    assert f"UsageError: a {module if module == 'redis' else 'postgresql'}:// store needs " in said
