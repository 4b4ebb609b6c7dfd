"""Systems that do what second processes have to put up with."""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

from memtrace.broken.tiny import TinyMemory
from memtrace.harness.system import Environment
from memtrace.model import Caller, Reply


class Talkative(TinyMemory):
    """Prints, and reads what it is not meant to read."""

    def turn(self, caller: Caller, text: str) -> Reply:
        os.write(1, b'{"id": 0, "performed": "this is no result"}\n')
        print("neither is this")
        assert sys.stdin.read() == ""
        return super().turn(caller, text)


class TellsTheTime(TinyMemory):
    """Answers a search with the clock, and with a variable of the environment."""

    def search(self, caller: Caller, query: str) -> list[str]:
        return [str(self.env.clock()), os.environ.get("SECOND_SYSTEMS", ""), str(Path.cwd())]


class PrintsThenDies(TinyMemory):
    """Says on standard error what it was told, and is gone."""

    def turn(self, caller: Caller, text: str) -> Reply:
        os.write(2, text.encode())
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("it is gone")


class AsksThrice(TinyMemory):
    """Adds a fact by three requests to a server, and waits for what it says to each."""

    def add(self, caller: Caller, text: str, scope: str = "user") -> str:
        host, _, port = self.env.store_url.removeprefix("tcp://").rpartition(":")
        with socket.create_connection((host, int(port))) as server:
            for number in range(3):
                server.sendall(f"{number} {text}".encode())
                server.recv(1000)
        return text


class DiesWhenTold(TinyMemory):
    """Ends its process in the middle of a turn."""

    def turn(self, caller: Caller, text: str) -> Reply:
        if text == "Die.":
            os._exit(3)
        return super().turn(caller, text)


def once(env: Environment) -> TinyMemory:
    """Opens where it has not been opened before."""
    (env.dir / "opened").touch(exist_ok=False)
    return TinyMemory(env)
