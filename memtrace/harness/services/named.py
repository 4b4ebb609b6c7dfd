"""Stores that a command line names by URL: whoever names one wants it, and hears at once that it cannot be had."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from memtrace.errors import UsageError
from memtrace.harness.services.given import driver, without_password
from memtrace.harness.services.server import Kind

_SECONDS: Final = 5
_KIND_OF: Final[dict[str, Kind]] = {
    "postgres": "postgres", "postgresql": "postgres", "redis": "redis", "rediss": "redis", "unix": "redis",
}  # fmt: skip


def demand_answer(url: str) -> None:
    """See that the server which a URL names answers, as far as that can be told from here.

    Raises:
        UsageError: it does not; one line without the URL's password.
    """
    kind = _KIND_OF.get(url.partition("://")[0])
    if kind is None:
        return
    try:
        client = driver(kind)
    except UsageError:
        return  # a memory may have another driver
    if kind == "postgres":
        with suppress(client.Error), _told(url, client.OperationalError):
            client.connect(url, connect_timeout=_SECONDS).close()
    else:
        with (
            suppress(client.RedisError, ValueError, TypeError),
            _told(url, client.ConnectionError, client.TimeoutError),
        ):
            _ping(client, url)


@contextmanager
def _told(url: str, *errors: type[Exception]) -> Iterator[None]:
    try:
        yield
    except errors as error:
        why = without_password(" ".join(str(error).split()))
        remedy = "start that server, or name another store"
        raise UsageError(f"--store {without_password(url)} cannot be reached ({why}): {remedy}") from None


def _ping(redis: Any, url: str) -> None:
    with redis.Redis.from_url(url, socket_connect_timeout=_SECONDS, socket_timeout=_SECONDS) as client:
        client.ping()
