"""redis-py's client of a cluster, made so that an answer nobody waited for is no answer to the next."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import redis
from redis.cluster import RedisCluster

from memtrace.stores.redis_fast import Pool


class Cluster(RedisCluster):
    """redis-py's client, which gives a connection back also where it was interrupted in the middle of an answer."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, connection_pool_class=_Pool, **options)

    def transaction_of(self, *commands: tuple[Any, ...]) -> list[Any]:
        """See `Server.transaction_of`."""
        transaction = self.pipeline(transaction=True)  # type: ignore[no-untyped-call]  # redis-py's
        for words in commands:
            transaction.execute_command(*words)
        answers: list[Any] = transaction.execute()
        return answers


class _Counting(redis.Connection):
    """A connection that counts how many answers are still to come; with any, it is closed before it is lent again."""

    to_come = 0

    def send_command(self, *words: Any, **options: Any) -> None:
        self.to_come += 1
        super().send_command(*words, **options)  # type: ignore[no-untyped-call]  # redis-py's

    def pack_commands(self, commands: Iterable[Any]) -> Any:
        several = list(commands)
        self.to_come += len(several)
        return super().pack_commands(several)  # type: ignore[no-untyped-call]  # redis-py's

    def read_response(self, *given: Any, **options: Any) -> Any:
        try:
            answer = super().read_response(*given, **options)
        except redis.ResponseError:
            self.to_come -= 1
            raise
        self.to_come -= 1
        return answer

    def disconnect(self, *given: Any, **options: Any) -> None:
        # What was packed while there was no connection is still to be sent, and answered.
        connected = self.is_connected
        super().disconnect(*given, **options)  # type: ignore[no-untyped-call]  # redis-py's
        if connected:
            self.to_come = 0


class _CountingOverTls(_Counting, redis.SSLConnection):
    pass


_KINDS: Final = {redis.Connection: _Counting, redis.SSLConnection: _CountingOverTls}


class _Pool(Pool):
    def __init__(self, **given: Any) -> None:
        kind = _KINDS[given.pop("connection_class", redis.Connection)]
        super().__init__(connection_class=kind, **given)

    def get_connection(self, *given: Any, **options: Any) -> Any:
        connection = super().get_connection(*given, **options)
        if connection.to_come:
            connection.disconnect()
            connection.to_come = 0
        return connection
