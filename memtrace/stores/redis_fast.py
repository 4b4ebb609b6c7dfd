"""redis-py's client and pool, made so that asking takes little more than the server."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import hiredis
import redis

T = TypeVar("T")


class Server(redis.Redis):
    """redis-py's client without its metrics, retries and command checks.

    Those take longer than the server needs to find the newest fifty. Every command name here is one word.
    """

    def execute_command(self, *words: Any, **options: Any) -> Any:
        """See `redis.Redis.execute_command`."""

        def read(connection: Any) -> Any:
            return self.parse_response(connection, words[0], **options)  # type: ignore[no-untyped-call]  # redis-py's

        return self._exchange(hiredis.pack_command(words), read)

    def transaction_of(self, *commands: tuple[Any, ...]) -> list[Any]:
        """What each of several commands answers, done one after the other with nobody else's in between."""
        packed = b"".join(map(hiredis.pack_command, [("MULTI",), *commands, ("EXEC",)]))
        return self._exchange(packed, lambda connection: _executed(connection, len(commands)))

    def _exchange(self, packed: bytes, read: Callable[[Any], T]) -> T:
        """Send, and read all that is answered.

        Only then may another have the connection: one that is left at any other point, by whatever is raised, is
        closed, for what it may still say is no answer to the next.
        """
        pool = self.connection_pool
        connection: Any = pool.get_connection()
        try:
            connection.send_packed_command([packed])
            answer = read(connection)
        except redis.ResponseError:
            pool.release(connection)
            raise
        except BaseException:  # after an interrupt too an answer may be on its way
            connection.disconnect()
            raise
        pool.release(connection)
        return answer


def _executed(connection: Any, commands: int) -> list[Any]:
    """The answers to a transaction of so many commands; the first refusal is raised when all have been read."""
    refused = []
    for _ in range(1 + commands):  # to MULTI, and that each is queued
        try:
            connection.read_response()
        except redis.ResponseError as error:
            refused.append(error)
    try:
        answers = connection.read_response()
    except redis.ResponseError as error:
        raise (refused or [error])[0] from None
    for answer in answers:
        if isinstance(answer, redis.ResponseError):
            raise answer
    return list(answers)


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
