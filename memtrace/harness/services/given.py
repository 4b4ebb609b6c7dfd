"""Servers of the user's own, named by environment variables."""

from __future__ import annotations

import os
import re
from importlib import import_module
from typing import Any, Final

from memtrace.errors import UsageError
from memtrace.harness.services.server import Kind, NotHere, Server

_SECONDS: Final = 5
_DRIVERS: Final[dict[Kind, str]] = {"postgres": "psycopg", "redis": "redis"}
_PASSWORD: Final = re.compile(r"(://[^/@]*?:).*@")
_PASSWORD_OPTION: Final = re.compile(r"((?:^|[?&\s])\w*pass\w*\s*=\s*)('(?:[^'\\]|\\.)*'|[^&\s]*)", re.IGNORECASE)
"""As an option of a URL, or a word of libpq's connection string, which is a server's name here too."""


def given_postgres(_durable: bool) -> Server:
    """The server that ``MEMTRACE_POSTGRES_URL`` names."""
    url = _given("MEMTRACE_POSTGRES_URL")
    psycopg = driver("postgres")
    try:
        psycopg.connect(url, connect_timeout=_SECONDS).close()
    except psycopg.Error as error:
        raise _unreachable("MEMTRACE_POSTGRES_URL", url, error) from None
    return Server("postgres", url, "MEMTRACE_POSTGRES_URL", None)


def given_redis(_durable: bool) -> Server:
    """The server that ``MEMTRACE_REDIS_URL`` names."""
    url = _given("MEMTRACE_REDIS_URL")
    redis = driver("redis")
    try:
        with redis.Redis.from_url(url, socket_connect_timeout=_SECONDS, socket_timeout=_SECONDS) as client:
            client.ping()
    except (redis.RedisError, ValueError) as error:
        raise _unreachable("MEMTRACE_REDIS_URL", url, error) from None
    return Server("redis", url, "MEMTRACE_REDIS_URL", None)


def _given(variable: str) -> str:
    if url := os.environ.get(variable, ""):
        return url
    raise NotHere("it is not set")


def driver(kind: Kind) -> Any:
    """The client of a kind of server, imported.

    Raises:
        UsageError: it is not installed; one line that names the extra.
    """
    try:
        return import_module(_DRIVERS[kind])
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == _DRIVERS[kind]
        why = "is not installed" if missing else f"cannot be imported ({str(error).partition(chr(10))[0]})"
        raise UsageError(f"{_DRIVERS[kind]} {why}: pip install 'memtrace-otel[{kind}]'") from None


def demand_driver(kind: Kind) -> None:
    """See that the scripts can have places in a server that would be started.

    One that an environment variable names was asked for: there a missing driver is an error, when it is reached for.

    Raises:
        NotHere: the driver is not installed.
    """
    if os.environ.get(f"MEMTRACE_{kind.upper()}_URL"):
        return
    try:
        driver(kind)
    except UsageError as error:
        raise NotHere(str(error)) from None


def _unreachable(variable: str, url: str, error: Exception) -> UsageError:
    shown, why = without_password(url), without_password(str(error).strip().replace("\n", "; "))
    return UsageError(f"{variable}={shown} cannot be reached ({why}): start that server, or unset the variable")


def without_password(text: str) -> str:
    """A text that may hold a URL, or libpq's connection string, without its password."""
    return _PASSWORD_OPTION.sub(r"\1***", _PASSWORD.sub(r"\1***@", text))
