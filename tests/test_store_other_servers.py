"""A store's URL leads to something else than it says: what a person is told then."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest
import redis
from storing import PATIENCE

from memtrace.errors import StoreError
from memtrace.stores import open_store
from memtrace.stores.postgres_pool import Unreached
from memtrace.stores.postgres_server import failure
from memtrace.stores.redis_server import Attempt

ALERT = b"\x15\x03\x03\x00\x02\x02\x46"
"""What a TLS server says to who does not speak TLS."""


@contextmanager
def _listening() -> Iterator[socket.socket]:
    """Takes connections, and answers none of them."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


@pytest.fixture
def answering() -> Iterator[Callable[[bytes], int]]:
    """Makes servers that say one thing, whatever they are asked, and hang up; their ports."""

    def say(listener: socket.socket, answer: bytes) -> None:
        with suppress(OSError):  # it is no longer listened to
            while True:
                connection, _ = listener.accept()
                with connection, suppress(OSError):
                    connection.recv(4096)
                    connection.sendall(answer)

    with ExitStack() as stack:

        def start(answer: bytes) -> int:
            listener = stack.enter_context(_listening())
            thread = threading.Thread(target=say, args=(listener, answer))
            thread.start()
            stack.callback(thread.join)
            stack.callback(listener.shutdown, socket.SHUT_RDWR)
            port: int = listener.getsockname()[1]
            return port

        yield start


def _refusal(url: str) -> str:
    with pytest.raises(StoreError) as refusal:
        open_store(url, timeout=PATIENCE)
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


@pytest.mark.parametrize(
    ("scheme", "hint"),
    [
        ("postgresql", "did not answer in time: check the host, the network, and that Postgres listens at this port"),
        ("rediss", "did not answer in time: check the host and the network, and whether that server speaks TLS"),
        ("redis", "did not answer in time: check the host and the network, and whether that server wants TLS"),
    ],
)
def test_one_that_says_nothing(scheme: str, hint: str) -> None:
    with _listening() as listener:
        said = _refusal(f"{scheme}://127.0.0.1:{listener.getsockname()[1]}/0")
    assert hint in said
    assert said.endswith(", or raise timeout= (of Memory: store_timeout=)")


@pytest.mark.parametrize(
    ("scheme", "answer", "said"),
    [
        ("postgresql", b"HTTP/1.1 400 Bad Request", "is no PostgreSQL server: something else listens there, so check"),
        ("redis", b"HTTP/1.1 400 Bad Request", "is no Redis server: something else listens there, so check the port"),
        ("redis", ALERT, "is no Redis server without TLS: give rediss://"),
        ("redis", b"", "check the host, the port and the network, and whether that server wants TLS (rediss://)"),
        ("rediss", b"-ERR unknown command\r\n", "and whether that server speaks TLS (redis:// is without)"),
    ],
)
def test_one_that_speaks_something_else(
    answering: Callable[[bytes], int], scheme: str, answer: bytes, said: str
) -> None:
    assert said in _refusal(f"{scheme}://127.0.0.1:{answering(answer)}/0")


def test_where_nothing_listens_tls_is_not_the_matter() -> None:
    with _listening() as listener:
        port = listener.getsockname()[1]
        listener.close()
        for scheme in ("redis", "rediss"):
            assert "TLS" not in _refusal(f"{scheme}://127.0.0.1:{port}/0")


def test_a_certificate_that_redis_shows_and_nobody_trusts() -> None:
    said = "Error 1 connecting to h:1. [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed"
    with pytest.raises(StoreError, match="a certificate that is not trusted"), Attempt("rediss://h:1", seconds=1):
        raise redis.ConnectionError(said)


@pytest.mark.parametrize(
    "said",
    [
        'root certificate file "/home-of-somebody/root.crt" does not exist',
        "SSL error: certificate verify failed",
        'server certificate for "db" does not match host name "127.0.0.1"',
    ],
)
def test_a_certificate_that_postgres_shows_and_nobody_trusts(said: str) -> None:
    error = failure("postgresql://me@h/db", Unreached(said), time.monotonic() + 60)
    assert "cannot be trusted as sslmode asks: check sslrootcert" in str(error)
