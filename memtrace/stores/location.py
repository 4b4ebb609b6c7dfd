"""From the words a person configures to a store."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Final
from urllib.parse import unquote_plus

from memtrace.errors import UsageError
from memtrace.stores.contract import FactStore
from memtrace.stores.sqlite import SqliteStore

_FORMS: Final = (
    "give a path, :memory:, sqlite:///relative.db, sqlite:////absolute.db, postgresql://user@host/database,"
    " redis://host:6379/0, rediss://host:6379/0 or unix:///path/to/socket?db=0"
)
_SQLITE: Final = "sqlite:///"
_POSTGRES: Final = frozenset({"postgres", "postgresql"})
_REDIS: Final = frozenset({"redis", "rediss", "unix"})
_HIDDEN: Final = "***"
_SECRET_OPTION: Final = re.compile(r"(?<=[?&])([^?&=]*)=[^&]*")
_CONNECTION: Final = re.compile(
    r"""[\s'"]*(?=[a-z_]+\s*=)(.*[\s;])?(host|hostaddr|port|dbname|user|password|service)\s*=""",
    re.DOTALL | re.IGNORECASE,
)
"""libpq's connection string: it begins with ``word=``, and one of its words says where to, or as whom."""
_LIKE_A_URL: Final = re.compile(
    r"""[\s'"]*(sqlite|postgres|postgresql|redis|rediss|unix)(:|//)"""  # a colon is missing, or it is quoted
    r"|(//)?[^/@]*:.*@"  # no scheme: name:password@host
    r"|(?!\.{0,2}/).*://",
    re.DOTALL | re.IGNORECASE,
)


def open_store(location: str | os.PathLike[str], *, timeout: float = 5.0) -> FactStore:
    """The store at a path or URL, opened; ``timeout`` is how many seconds one call may wait for it.

    ``memory.db``, ``:memory:``, ``sqlite:///relative.db``, ``sqlite:////absolute.db``,
    ``postgresql://user:password@host:5432/database``, ``redis://host:6379/0``, ``rediss://`` for TLS,
    ``unix:///path/to/socket?db=0`` for Redis on a socket. What reads like another URL (a word and a colon, ``://``,
    ``name:password@``, a scheme in quotes or without its colon) or like libpq's ``host=… password=…`` is refused, and
    not shown, for it may hold a password; ``./`` before it makes it a path.

    Raises:
        UsageError: the location is none of these, or the driver is not installed.
        StoreError: the store cannot be opened.
    """
    place = os.fspath(location)
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]+):", place)
    if scheme is None:
        if reads_like_a_url(place):
            raise UsageError(
                "the location reads like a URL or a connection string, of a form that memtrace does not take (it is not"
                f" shown, for it may hold a password): {_FORMS}, without quotes or blanks around it;"
                " ./ before the name of a file makes it a path"
            )
        return SqliteStore(place, timeout=timeout)
    kind = scheme[1].lower()
    if kind in _POSTGRES | _REDIS:
        return _on_server(place, kind, timeout)
    return SqliteStore(_path_of(place, kind), timeout=timeout)


def reads_like_a_url(place: str) -> bool:
    """Whether a place was meant as a URL or a connection string, and may not become a file of that name."""
    return bool(_CONNECTION.match(place) or _LIKE_A_URL.match(place))


def hide_password(url: str) -> str:
    """The URL as a message may show it: without its password, wherever in the URL that stands.

    A URL that is off is cut with care: all up to its last ``@`` counts as the user's name and password, so that no
    unquoted ``/``, ``?`` or ``@`` in a password lets a part of it through.
    """
    if _CONNECTION.match(url):
        return _HIDDEN
    scheme, separator, rest = url.partition("://")
    if not separator:
        kind, colon, _ = url.partition(":")
        return f"{kind}:{_HIDDEN}" if colon else url
    safe = _SECRET_OPTION.sub(_without_secret, rest)
    login, at, place = safe.rpartition("@")
    if "@" in rest and not at:  # it went with an option, or the option's name stood in a password
        login, at, place = safe, "", ""
    name, colon, _ = login.partition(":")
    return f"{scheme}://{name}{colon and colon + _HIDDEN}{at}{place}"


def _without_secret(option: re.Match[str]) -> str:
    name = unquote_plus(option[1]).lower()
    return f"{option[1]}={_HIDDEN}" if "pass" in name or "secret" in name else option[0]


def _on_server(url: str, kind: str, timeout: float) -> FactStore:
    # Imported here: each needs a driver, which only those who use it have to install.
    if "://" not in url:
        raise UsageError(f"{kind}: is no URL, which has two slashes: {_FORMS}")
    open_on: Callable[..., FactStore]
    try:
        if kind in _POSTGRES:
            from memtrace.stores.postgres import PostgresStore

            open_on = PostgresStore
        else:
            from memtrace.stores.redis import RedisStore

            open_on = RedisStore
    except UsageError as missing:
        raise UsageError(f"{hide_password(url)}: {missing}") from None
    return open_on(url, timeout=timeout)


def _path_of(url: str, scheme: str) -> str:
    if scheme != "sqlite":
        raise UsageError(f"{scheme}: names no store that memtrace knows: {_FORMS}")
    path = url[len(_SQLITE) :]
    if not url.lower().startswith(_SQLITE) or not path or "?" in path or "#" in path:
        raise UsageError(
            f"{hide_password(url)!r} is no SQLite URL, which has three slashes, a path and no options: {_FORMS}"
        )
    return path
