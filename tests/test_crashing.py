"""Processes that die at a chosen moment of a write to a server."""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Iterator

import pytest

from memtrace.harness.faults.proxy import FaultProxy
from memtrace.harness.record.events import FactWritten, ProcessEnded
from memtrace.harness.running.tested_store import TestedStore
from memtrace.harness.scenes.crashing import Moments, crashing
from memtrace.harness.session import make_suite
from memtrace.harness.stage import NotExercised, Stage

LONG = 10.0


class _Answer(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        while data := self.request.recv(65536):
            self.server.heard.append(data.decode())
            self.request.sendall(data)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    heard: list[str]


@pytest.fixture
def server() -> Iterator[_Server]:
    with _Server(("127.0.0.1", 0), _Answer) as server:
        server.heard = []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def address(server: _Server) -> str:
    return f"tcp://127.0.0.1:{server.server_address[1]}"


@pytest.fixture
def stage(server: _Server) -> Iterator[Stage]:
    with (
        make_suite("second_systems:AsksThrice", store=TestedStore(url=address(server)), destructive=True) as suite,
        suite.stage("a script") as stage,
    ):
        yield stage


def test_the_last_request_is_passed_on_its_answer_is_not_and_nothing_comes_after(server: _Server) -> None:
    cut = threading.Event()
    with FaultProxy(address(server)) as proxy:
        with socket.create_connection((proxy.host, proxy.port), LONG) as client:
            client.sendall(b"before")
            assert client.recv(100) == b"before"
            proxy.cut_after(2, cut.set)
            client.sendall(b"one")
            assert client.recv(100) == b"one"
            assert not cut.is_set()
            client.sendall(b"two")
            assert cut.wait(LONG)
            client.sendall(b"three")
            proxy.reset()
            proxy.pass_through()
        with socket.create_connection((proxy.host, proxy.port), LONG) as client:
            client.sendall(b"after")
            assert client.recv(100) == b"after"
        assert proxy.requests == 4
    assert server.heard == ["before", "one", "two", "after"]


def test_a_request_that_is_not_passed_on_is_told_too(server: _Server) -> None:
    cut = threading.Event()
    with FaultProxy(address(server)) as proxy, socket.create_connection((proxy.host, proxy.port), LONG) as client:
        proxy.cut_after(0, cut.set)
        client.sendall(b"one")
        assert cut.wait(LONG)
    assert server.heard == []


def test_a_process_dies_when_so_many_of_its_requests_were_answered(stage: Stage, server: _Server) -> None:
    alice = stage.caller()
    with crashing(stage) as crashes:
        process = stage.restart()
        moments = crashes.measure(process, lambda: process.add(alice, "x"))
        assert moments == Moments(3, by_request=True)
        for after in (1, 2, 3):
            server.heard.clear()
            crashes.crash(process, lambda: process.add(alice, "y"), moments=moments, after=after)  # noqa: B023
            assert server.heard == ["0 y", "1 y", "2 y"][:after]
            process = stage.process()
        process.add(alice, "z")
        process.kill()
    history = stage.history()
    assert [bool(event.error) for event in history.of(FactWritten)] == [False, True, True, True, False]
    assert [event.how for event in history.of(ProcessEnded)] == ["kill"] * 4


def test_a_process_that_asks_less_often_than_it_did_dies_after_it(stage: Stage) -> None:
    alice = stage.caller()
    with crashing(stage) as crashes:
        process = stage.restart()
        moments = crashes.measure(process, lambda: process.add(alice, "x"))
        crashes.crash(process, lambda: process.add(alice, "y"), moments=moments, after=9)
    history = stage.history()
    assert [event.error for event in history.of(FactWritten)] == ["", ""]
    assert [event.how for event in history.of(ProcessEnded)] == ["kill"]


def test_the_store_of_somebody_else_is_left_alone(server: _Server) -> None:
    with (
        make_suite("second_systems:AsksThrice", store=TestedStore(url=address(server))) as suite,
        suite.stage("a script") as stage,
        pytest.raises(NotExercised),
        crashing(stage),
    ):
        pytest.fail("it could have been harmed")
