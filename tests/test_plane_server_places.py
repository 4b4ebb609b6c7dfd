"""Where the plane keeps its facts: what it opens, what it leaves alone, and what a person is told."""

from __future__ import annotations

import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from storing import ALICE, LONG, PATIENCE

from memtrace.errors import StoreError, UsageError
from memtrace.harness.services import Server
from memtrace.model import Record
from memtrace.service.database import open_database
from memtrace.service.keys import Role
from memtrace.service.postgres import PostgresDatabase
from memtrace.service.storage import open_plane
from memtrace.stores import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "plane.db"


def _refusal(location: object, error: type[Exception] = StoreError) -> str:
    with pytest.raises(error) as refusal:
        open_plane(str(location))
    assert "\n" not in str(refusal.value)
    assert "secret" not in str(refusal.value)
    return str(refusal.value)


def _asked(path: Path, question: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(question).fetchall()


def _with_a_key(location: object) -> str:
    with closing(open_plane(str(location))) as plane:
        return plane.create_key(Role.CURATOR, "ann")[0].id


def _keys(location: object) -> list[str]:
    with closing(open_plane(str(location))) as plane:
        return [key.id for key in plane.all_keys()]


@pytest.mark.parametrize(
    "location",
    [
        "host=127.0.0.1 port=1 password=secret", "postgres//me:secret@host", " postgresql://me:secret@host/db",
        "'postgresql://me:secret@host/db'", "redis://:secret@host/0", "me:secret@host/db",
    ],
)  # fmt: skip
def test_what_reads_like_a_url_becomes_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, location: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert "--store: give the path of a file" in _refusal(location, UsageError)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["postgresql://me:secret@host:none/db", "PostgreSQL://me:secret@host:99999/db"])
def test_what_is_no_postgres_url_is_refused(url: str) -> None:
    assert "is no PostgreSQL URL" in _refusal(url, UsageError)


def test_a_memorys_own_facts_are_left_alone(path: Path) -> None:
    with closing(SqliteStore(path)) as store:
        store.add(Record(ALICE, "likes tea"))
    before = path.read_bytes()
    assert "holds a memory's own facts: name a file that the plane may have to itself" in _refusal(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("mark", ["user_version = 24", "application_id = 7", "cache_size = 10"])
def test_another_applications_database_is_left_alone(path: Path, mark: str) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.executescript(f"CREATE TABLE facts (fact TEXT); PRAGMA {mark}")
    before = path.read_bytes()
    assert "is another application's database: name a file" in _refusal(path)
    assert path.read_bytes() == before


def test_a_planes_file_is_marked_and_left_alone_by_a_memory(path: Path) -> None:
    key = _with_a_key(path)
    assert _asked(path, "PRAGMA application_id") == [(int.from_bytes(b"mtpl"),)]
    with pytest.raises(StoreError, match="is another application's database"):
        SqliteStore(path)
    assert _keys(path) == [key]


@pytest.mark.parametrize(("mark", "later"), [(0, b"mtpl"), (int.from_bytes(b"memt"), b"memt")])
def test_a_file_with_a_planes_tables_is_a_planes_whoever_made_it(path: Path, mark: int, later: bytes) -> None:
    key = _with_a_key(path)
    _asked(path, f"PRAGMA application_id = {mark}")
    assert _keys(path) == [key]
    assert _asked(path, "PRAGMA application_id") == [(int.from_bytes(later),)]


def test_a_path_that_does_not_do_is_told_with_the_remedy(path: Path) -> None:
    assert "is a folder: name a file in it" in _refusal(path.parent)
    assert f"make the folder {path.parent / 'none'} first" in _refusal(path.parent / "none" / "plane.db")
    path.write_text("Dear diary, " * 1000)
    assert "is no SQLite database: name another file" in _refusal(path)
    assert f"{path} is a file and no folder" in _refusal(path / "plane.db")


def test_a_file_that_cannot_be_written_is_told_with_the_remedy(path: Path) -> None:
    with closing(open_database(str(path))) as database:
        database.read("PRAGMA query_only = ON")
        remedy = r"plane\.db is read-only: make the file and its folder writable"
        with pytest.raises(StoreError, match=remedy), database.transaction() as run:
            run("CREATE TABLE more (x)")


def test_a_server_that_refuses_is_told_with_the_remedy(postgres_to_harm: Server) -> None:
    parts = urlsplit(postgres_to_harm.url)
    place = parts.netloc.rpartition("@")[2]
    with psycopg.connect(postgres_to_harm.url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS till")
        connection.execute("CREATE ROLE till LOGIN")
        connection.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    try:
        said = _refusal(urlunsplit(parts._replace(netloc=f"till:secret@{place}")))
        assert "does not permit this: grant the user CREATE on the schema, and all on the tables plane_*" in said
        assert "refused this user" in _refusal(urlunsplit(parts._replace(netloc=f"nobody:secret@{place}")))
        assert "has no such database" in _refusal(urlunsplit(parts._replace(path="/none")))
    finally:
        with psycopg.connect(postgres_to_harm.url, autocommit=True) as connection:
            connection.execute("DROP ROLE till")


def test_a_server_that_says_nothing_is_told_without_options_that_the_plane_has_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, pytest.raises(StoreError) as refusal:
        open_database(f"postgresql://me:secret@127.0.0.1:{listener.getsockname()[1]}/db", timeout=PATIENCE)
    assert "me:***@127.0.0.1" in str(refusal.value)
    assert str(refusal.value).endswith("check the host, the network, and that Postgres listens at this port")


def test_a_server_whose_connections_are_all_in_use_is_told_likewise(postgres_url: str) -> None:
    with closing(PostgresDatabase(postgres_url, timeout=PATIENCE)) as database, ExitStack() as stack:
        for _ in range(database._connections.places.count):
            stack.enter_context(database._connections.lend(time.monotonic() + LONG))
        with pytest.raises(StoreError, match="stayed in use: try again when the plane is less busy"):
            database.read("SELECT 1")


def test_a_missing_driver_is_told_with_the_url() -> None:
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from memtrace.service.storage import open_plane\n"
        "open_plane('postgresql://me:secret@host/db')"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False).stderr
    assert said.count("Traceback") == 1
    assert "UsageError: postgresql://me:***@host/db needs psycopg 3: pip install 'memtrace-otel[postgres]'" in said
