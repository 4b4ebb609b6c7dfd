"""redis-py's client and pool, made so that asking takes little more than the server."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import hiredis
import redis


class Server(redis.Redis):
    """redis-py's client without its metrics, retries and command checks.

    Those take longer than the server needs to find the newest fifty. Every command name here is one word.
    """

    def execute_command(self, *words: Any, **options: Any) -> Any:
        """See `redis.Redis.execute_command`."""
        pool = self.connection_pool
        connection: Any = pool.get_connection()
        try:
            connection.send_packed_command([hiredis.pack_command(words)])
            return self.parse_response(connection, words[0], **options)  # type: ignore[no-untyped-call]  # redis-py's own
        except redis.ResponseError:
            raise
        except BaseException:
            connection.disconnect()  # what it may still say is no answer to the next
            raise
        finally:
            pool.release(connection)


class Pool(redis.ConnectionPool):
    """Connections that `Client` counts; redis-py's pool does much more with each."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self._idle: list[Any] = []

    def get_connection(self, *_args: Any, **_options: Any) -> Any:
        """One that works as far as can be told without asking the server, or that connects when it is used."""
        try:
            connection = self._idle.pop()
        except IndexError:
            return self.connection_class(**self.connection_kwargs)
        if connection.is_connected and _has_ended(connection):
            connection.disconnect()
        return connection

    def release(self, connection: Any) -> None:
        """Keep it for the next."""
        self._idle.append(connection)

    def disconnect(self, inuse_connections: bool = True) -> None:  # noqa: ARG002
        """Close those that nobody uses."""
        with suppress(IndexError):
            while True:
                self._idle.pop().disconnect()


def _has_ended(connection: Any) -> bool:
    """Whether something came that is no answer, or its end."""
    try:
        return bool(connection.can_read())
    except redis.RedisError:
        return True
