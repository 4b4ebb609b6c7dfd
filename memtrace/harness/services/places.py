"""A place of its own for each test in a running server: empty, cheap, and out of the others' sight.

On Postgres it is a user with a schema of the same name, which is where unqualified names lead: made in a millisecond,
where a database takes forty and eight megabytes. On Redis it is a logical database. In a server that was given, where
users and databases are somebody else's, it is a schema named by the URL's options, and a logical database that was
found empty and marked.
"""

from __future__ import annotations

import secrets
from collections import deque
from functools import partial
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from memtrace.errors import UsageError
from memtrace.harness.services.given import driver
from memtrace.harness.services.server import Server

DATABASES: Final = 4096
"""Logical databases of a Redis that is started here."""
_MARK: Final = "memtrace:place"
_CLAIM: Final = f"if redis.call('DBSIZE') == 0 then redis.call('SET', '{_MARK}', 1) return 1 end return 0"
_SHARED: Final = """
SET client_min_messages = warning;
DO $$ BEGIN
    IF EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector') THEN
        CREATE EXTENSION IF NOT EXISTS vector;
    END IF;
END $$"""
"""An extension is there once a database: made by one of the places, it would be out of the others' sight."""

_NO_TABLE: Final = "SELECT NOT EXISTS (SELECT FROM pg_class WHERE relnamespace = current_schema()::regnamespace)"


def fresh(server: Server) -> str:
    """The URL of an empty place in a server; `discard` gives it back, as the server's end does."""
    url = _schema(server) if server.kind == "postgres" else _database(server)
    server.handed_out += 1
    return url


def discard(server: Server, url: str) -> None:
    """Remove what is in a place that `fresh` has made, and give the place back."""
    server.taken.pop(url)()


def is_empty(server: Server, url: str) -> bool:
    """Whether nothing was put into a place that `fresh` has made."""
    if server.kind == "postgres":
        with driver("postgres").connect(url, autocommit=True) as connection:
            return bool(connection.execute(_NO_TABLE).fetchone()[0])
    with _client(url) as client:
        return int(client.dbsize()) <= int(server.given)  # the mark is one


def _schema(server: Server) -> str:
    name = f"memtrace_{secrets.token_hex(6)}"
    if server.given:
        _execute(server, f"CREATE SCHEMA {name}")
        parts = urlsplit(server.url)
        options = dict(parse_qsl(parts.query.replace("+", "%2B"), keep_blank_values=True))  # a plus is one to libpq
        options["options"] = f"{options.get('options', '')} -csearch_path={name},public".strip()
        url = urlunsplit(parts._replace(query=_query(options)))
        drop = [f"DROP SCHEMA {name} CASCADE"]
    else:
        _execute(server, _SHARED, f"CREATE ROLE {name} SUPERUSER LOGIN", f"CREATE SCHEMA {name} AUTHORIZATION {name}")
        url = server.url.replace("://postgres@", f"://{name}@", 1)
        leave = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{name}'"  # noqa: S608  our name
        drop = [leave, f"DROP OWNED BY {name} CASCADE", f"DROP ROLE {name}"]
    server.taken[url] = partial(_execute, server, *drop)
    return url


def _query(options: dict[str, str]) -> str:
    """Options of a URL; a space as ``%20``, for libpq takes a plus as it stands."""
    return urlencode(options, quote_via=quote)


def _execute(server: Server, *statements: str) -> None:
    psycopg = driver("postgres")
    with psycopg.connect(server.url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)


def _database(server: Server) -> str:
    parts = urlsplit(server.url)
    home = parts.path.strip("/") or "0"
    # The one given back last comes last: what an ended test may still write lands in nobody's place.
    numbers = deque(_numbers(server))
    numbers.rotate(-server.handed_out)
    for number in numbers:
        url = _numbered(server.url, number)
        if str(number) != home and url not in server.taken and (not server.given or _claim(url)):
            server.taken[url] = partial(_flush, url)
            return url
    raise UsageError("every logical database of the Redis server is taken: discard some, or give a server with more")


def _numbers(server: Server) -> range:
    if not server.given:
        return range(1, DATABASES)
    with _client(server.url) as client:
        return range(1, int(client.config_get("databases").get("databases", 1)))


def _numbered(url: str, number: int) -> str:
    parts = urlsplit(url)
    if parts.scheme == "unix":
        return urlunsplit(parts._replace(query=_query({**dict(parse_qsl(parts.query)), "db": str(number)})))
    return urlunsplit(parts._replace(path=f"/{number}"))


def _claim(url: str) -> bool:
    with _client(url) as client:
        return bool(client.eval(_CLAIM, 0))


def _flush(url: str) -> None:
    with _client(url) as client:
        client.flushdb()


def _client(url: str) -> Any:
    return driver("redis").Redis.from_url(url)
