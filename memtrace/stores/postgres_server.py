"""Reaching a Postgres server: what its URL says, the limits of a connection, and what its failures mean."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from memtrace.errors import StoreError, UsageError
from memtrace.stores.location import hide_password
from memtrace.stores.postgres_pool import ServerConnection, Unreached, is_outdated
from memtrace.stores.postgres_schema import update_schema
from memtrace.stores.rows import MAYBE_DONE, MORE_TIME

_FORM: Final = "postgresql://user:password@host:5432/database, with % codes for special characters (%40 for @)"

REMEDIES: Final = {
    "22P05": "cannot hold this text in its encoding: make the database with ENCODING 'UTF8'",
    "25006": "is read-only: name the primary server, and unset default_transaction_read_only",
    "28000": "refused this user: check the user, and pg_hba.conf on the server",
    "28P01": "refused the password: check the user and the password",
    "3D000": "has no such database: create it, or check its name",
    "3F000": "has no schema to use: create one, and name it in the search_path",
    "40P01": "gave this up, since another changes the tables at the same time (a deadlock): try again",
    "42501": "does not permit this: grant the user CREATE on the schema, and all on the table learned_memory",
    "42P01": "has lost the table learned_memory: close the store, and it is made again when it is next used",
    "53100": "has no room left: free some space on its disk and try again",
    "53200": "has no memory left: try again when it is less busy",
    "53300": "has no connection left: raise max_connections there, or give the store a lower connections=",
    "55P03": "stayed locked by another writer: try again when that one is done",
    "57014": f"did not finish in time: try again when it is less busy{MORE_TIME}",
    "57P01": "is shutting down: try again when it is up",
    "57P02": f"has crashed: try again when it is up; {MAYBE_DONE}",
    "57P03": "is not ready yet: try again when it is up",
}
"""By SQLSTATE."""

_STATES: Final = (
    (r"password authentication failed|no password supplied", "28P01"),
    (r"no pg_hba.conf entry|role .* (does not exist|is not permitted)|authentication failed", "28000"),
    (r"database .* does not exist", "3D000"),
    (r"too many (clients|connections)|remaining connection slots", "53300"),
    (r"starting up|shutting down|not (yet )?accepting connections|in recovery mode", "57P03"),
)
"""libpq gives no SQLSTATE where a connection is refused, so what it says has to tell."""

_UNCONNECTED: Final = (
    (r"^invalid .* value", "has an option with a value that libpq does not know: correct it"),
    (
        r"server does not support SSL",
        "does not speak TLS, which sslmode asks for: turn ssl on there, or give another sslmode",
    ),
    (
        r"root certificate|certificate verify failed|server certificate|sslmode",
        "cannot be trusted as sslmode asks: check sslrootcert, the certificate and the host's name",
    ),
    (
        r"received invalid response|expected authentication request",
        "is no PostgreSQL server: something else listens there, so check the port",
    ),
)
"""What libpq says of a connection that was not made, and what it takes."""


def checked(url: str) -> str:
    """The URL, as libpq takes it.

    Raises:
        UsageError: it is no PostgreSQL URL; it is not shown, for what is wrong with it may be its password.
    """
    scheme, colon, rest = url.partition(":")
    url = f"{scheme.lower()}{colon}{rest}"
    try:
        parts = conninfo_to_dict(url)
    except psycopg.Error:
        raise UsageError(f"{hide_password(url)} is no PostgreSQL URL: give {_FORM}") from None
    ports = str(parts.get("port") or "5432").split(",")
    if not url.startswith(("postgresql://", "postgres://")) or not all(map(_is_port, ports)):
        raise UsageError(f"{hide_password(url)} is no PostgreSQL URL with a port of 1 to 65535: give {_FORM}")
    return url


def connect(url: str, deadline: float, *, timeout: float) -> ServerConnection:
    """A connection to the server, with the table in the schema of today.

    Raises:
        StoreError: the table is not ours, or of a newer version, or the database is not UTF-8.
        psycopg.Error: Postgres failed.
    """
    connection = ServerConnection.reach(_with_limits(url, timeout), deadline)
    try:
        connection.autocommit = True
        connection.prepare_threshold = 0
        _require_utf8(connection, url)
        update_schema(connection, hide_password(url))
    except BaseException:  # an interrupt too may not leave it open
        connection.close()
        raise
    return connection


def failure(
    url: str,
    error: psycopg.Error,
    deadline: float,
    *,
    remedies: Mapping[str, str] = REMEDIES,
    more_time: str = MORE_TIME,
) -> StoreError:
    """What Postgres's error means for someone who knows only the URL, with a remedy by SQLSTATE."""
    said = " ".join(str(error).split())
    # A server that says why it failed is told by its own words; one that says nothing, by the clock.
    if is_outdated(error):
        return StoreError(f"{hide_password(url)} has a table that another changed just now: try again")
    state = error.sqlstate or next((state for words, state in _STATES if re.search(words, said)), "")
    if state in remedies:
        # A server that ends itself may have found no room for what comes after a commit that is in its log already.
        ended = f"; {MAYBE_DONE}" if error.diag.severity_nonlocalized == "PANIC" else ""
        return StoreError(f"{hide_password(url)} {remedies[state]}{ended}")
    asked = not isinstance(error, Unreached | psycopg.errors.ConnectionTimeout)
    perhaps = f"; {MAYBE_DONE}" if asked else ""
    if not asked and not state:
        for words, remedy in _UNCONNECTED:
            if re.search(words, said):
                return StoreError(f"{hide_password(url)} {remedy} ({said})")
    if not state and (time.monotonic() >= deadline or isinstance(error, psycopg.errors.ConnectionTimeout)):
        where = "host and the network" if asked else "host, the network, and that Postgres listens at this port"
        return StoreError(f"{hide_password(url)} did not answer in time: check the {where}{more_time}{perhaps}")
    if not state and isinstance(error, psycopg.OperationalError):
        return StoreError(
            f"{hide_password(url)} cannot be reached: check the host, the port and the network ({said}){perhaps}"
        )
    return StoreError(f"{hide_password(url)} failed: {said}")


def _is_port(port: str) -> bool:
    return port == "" or (port.isascii() and port.isdecimal() and 0 < int(port) < 65536)


def _require_utf8(connection: ServerConnection, url: str) -> None:
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreError(f"{hide_password(url)} is in {encoding}: make a database with ENCODING 'UTF8'")


def _with_limits(url: str, timeout: float) -> str:
    """The URL with what it does not set itself.

    The server gives up before this side does, so that a statement that was given up is not done later. It sorts nothing
    that an index has sorted already, even where its statistics say that there is little to sort: without that, a table
    that nothing has analyzed yet is read in whole for its newest 50.
    """
    given = conninfo_to_dict(url)
    milliseconds = max(10, round(timeout * 1000))
    session = {
        "statement_timeout": milliseconds * 9 // 10,
        "lock_timeout": milliseconds * 8 // 10,
        "idle_in_transaction_session_timeout": milliseconds,
        "enable_sort": "off",
        "plan_cache_mode": "force_generic_plan",
    }
    usual: dict[str, str | int] = {
        "application_name": "memtrace",
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": milliseconds,
    }
    # Last, so that it holds: what a lock was waited for has to be seen once it is had.
    isolation = "-c default_transaction_isolation=read\\ committed"
    options = [*(f"-c {name}={value}" for name, value in session.items()), str(given.get("options") or ""), isolation]
    missing = {name: value for name, value in usual.items() if name not in given}
    return make_conninfo(url, **missing, client_encoding="UTF8", options=" ".join(options))
