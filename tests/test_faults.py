from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

import pytest

from memtrace.errors import UsageError
from memtrace.harness.faults.proxy import FaultProxy

SILENCE = 0.2
"""How long to listen before silence is believed."""
LONG = 10.0


class _Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        with suppress(OSError):
            while data := self.request.recv(65536):
                self.server.heard.append(data)
                self.request.sendall(data)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, *given) -> None:
        super().__init__(*given)
        self.heard: list[bytes] = []


@pytest.fixture
def echo() -> Iterator[_Server]:
    with _Server(("127.0.0.1", 0), _Echo) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def proxy(echo: _Server) -> Iterator[FaultProxy]:
    with FaultProxy(f"127.0.0.1:{echo.server_address[1]}") as proxy:
        yield proxy


@contextmanager
def connected(proxy: FaultProxy) -> Iterator[socket.socket]:
    with socket.create_connection((proxy.host, proxy.port), LONG) as client:
        yield client


def asked(client: socket.socket, data: bytes) -> bytes:
    client.sendall(data)
    answer = b""
    while len(answer) < len(data):
        if not (more := client.recv(65536)):
            break
        answer += more
    return answer


def broken_off(proxy: FaultProxy) -> bool:
    """Whether a new connection is reset; the reset may be there before the connection is."""
    try:
        with connected(proxy) as client:
            return client.recv(1) is None
    except ConnectionResetError:
        return True


def silent(client: socket.socket) -> bool:
    client.settimeout(SILENCE)
    try:
        client.recv(1)
    except TimeoutError:
        return True
    finally:
        client.settimeout(LONG)
    return False


def test_everything_passes_through_whatever_its_size(proxy):
    whole = bytes(range(256)) * 4096
    with connected(proxy) as client:
        sender = threading.Thread(target=client.sendall, args=(whole,))
        sender.start()
        answer = b""
        while len(answer) < len(whole):
            answer += client.recv(65536)
        sender.join()
    assert answer == whole


def test_a_client_that_leaves_and_a_server_that_leaves_are_both_passed_on(proxy, echo):
    with connected(proxy) as client:
        assert asked(client, b"here") == b"here"
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""


def test_refused_connections_are_refused_and_open_ones_are_reset(proxy):
    with connected(proxy) as client:
        assert asked(client, b"one") == b"one"
        proxy.refuse()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    with pytest.raises(ConnectionRefusedError), connected(proxy):
        pass


def test_after_a_refusal_the_same_port_answers_again(proxy):
    port = proxy.port
    proxy.refuse()
    proxy.refuse()
    proxy.pass_through()
    assert proxy.port == port
    with connected(proxy) as client:
        assert asked(client, b"again") == b"again"


def test_in_a_black_hole_nothing_arrives_until_it_ends(proxy, echo):
    with connected(proxy) as client:
        assert asked(client, b"before") == b"before"
        proxy.black_hole()
        client.sendall(b"lost")
        assert silent(client)
        assert b"".join(echo.heard) == b"before"
        proxy.pass_through()
        assert client.recv(65536) == b"lost"


def test_a_black_hole_accepts_new_connections_and_says_nothing(proxy, echo):
    proxy.black_hole()
    with connected(proxy) as client:
        client.sendall(b"anybody?")
        assert silent(client)
    assert not echo.heard


def test_a_slow_reply_comes_late_and_whole(proxy):
    proxy.slow(10 * SILENCE)
    with connected(proxy) as client:
        client.sendall(b"slowly")
        assert silent(client)
        assert client.recv(65536) == b"slowly"


def test_a_slow_reply_comes_at_once_when_the_network_is_well_again(proxy):
    proxy.slow(3600)
    with connected(proxy) as client:
        client.sendall(b"slowly")
        assert silent(client)
        proxy.pass_through()
        assert client.recv(65536) == b"slowly"


def test_a_reply_is_reset_after_just_so_many_bytes(proxy):
    with connected(proxy) as client:
        assert asked(client, b"whole") == b"whole"
        proxy.reset_mid_reply(after_bytes=4)
        client.sendall(b"interrupted")
        assert client.recv(65536, socket.MSG_WAITALL) == b"inte"
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_a_half_open_connection_stays_silent_for_ever_and_new_ones_pass(proxy, echo):
    with connected(proxy) as client:
        assert asked(client, b"before") == b"before"
        proxy.half_open()
        client.sendall(b"lost")
        assert silent(client)
        proxy.pass_through()
        client.sendall(b"lost too")
        assert silent(client)
        with connected(proxy) as other:
            assert asked(other, b"new") == b"new"
    assert b"lost" not in b"".join(echo.heard)


def test_a_dripping_reply_comes_byte_by_byte(proxy):
    proxy.drip(50)
    with connected(proxy) as client:
        client.sendall(b"drop")
        pieces = [client.recv(65536) for _ in range(4)]
    assert pieces == [b"d", b"r", b"o", b"p"]


def test_a_flapping_server_is_up_and_down_by_turns(proxy):
    proxy.flap(up=2, down=1)
    for _ in range(3):
        with connected(proxy) as client:
            assert asked(client, b"one") == b"one"
            assert asked(client, b"two") == b"two"
            with pytest.raises(ConnectionResetError):
                client.recv(1)
        assert broken_off(proxy)


def test_a_server_that_is_not_there_is_a_reset(proxy, echo):
    echo.shutdown()
    echo.server_close()
    assert broken_off(proxy)


def test_nothing_of_a_proxy_is_left_at_its_end(echo):
    before = threading.active_count()
    with FaultProxy(f"127.0.0.1:{echo.server_address[1]}") as proxy:
        proxy.black_hole()
        with connected(proxy) as client:
            client.sendall(b"stuck")
            assert silent(client)
            assert proxy.connections == 1
    assert not [thread for thread in threading.enumerate() if thread.name == "memtrace-fault-proxy"]
    assert threading.active_count() <= before + 1  # the echo server's own
    with pytest.raises(ConnectionRefusedError), connected(proxy):
        pass


def test_a_unix_socket_is_reached_by_way_of_a_port(tmp_path_factory):
    path = tmp_path_factory.mktemp("s") / "s"
    with socketserver.ThreadingUnixStreamServer(str(path), _Echo) as server:
        server.daemon_threads, server.heard = True, []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        with FaultProxy(str(path)) as proxy, connected(proxy) as client:
            assert asked(client, b"hello") == b"hello"
            assert proxy.url(f"unix://{path}?db=3") == f"redis://127.0.0.1:{proxy.port}/3"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "url", ["postgresql://ann:se%40cret@db.example:5555/name?a=b", "redis://127.0.0.1/4", "rediss://:pw@host:1/0"]
)
def test_a_url_by_way_of_the_proxy_differs_in_its_host_and_port_alone(proxy, url):
    there, here = urlsplit(url), urlsplit(proxy.url(url))
    assert (here.hostname, here.port) == ("127.0.0.1", proxy.port)
    assert (here.scheme, here.username, here.password, here.path, here.query) == (
        there.scheme, there.username, there.password, there.path, there.query,
    )  # fmt: skip


@pytest.mark.parametrize("target", ["", "nowhere", "http://"])
def test_a_target_that_names_no_server_is_one_clear_line(target):
    with pytest.raises(UsageError, match=r"names no server: give host:port"):
        FaultProxy(target)


def test_a_real_postgres_behind_the_proxy_meets_its_faults(postgres_url):
    psycopg = pytest.importorskip("psycopg")
    with FaultProxy(postgres_url) as proxy, psycopg.connect(proxy.url(postgres_url)) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
        proxy.reset_mid_reply(after_bytes=3)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 2")


def test_a_real_redis_behind_the_proxy_meets_its_faults(redis_url):
    redis = pytest.importorskip("redis")
    retry = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
    with (
        FaultProxy(redis_url) as proxy,
        redis.Redis.from_url(proxy.url(redis_url), socket_timeout=SILENCE, retry=retry) as client,
    ):
        assert client.ping()
        proxy.black_hole()
        with pytest.raises(redis.exceptions.TimeoutError):
            client.ping()
        proxy.pass_through()
        assert client.ping()
