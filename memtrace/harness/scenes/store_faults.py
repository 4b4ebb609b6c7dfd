"""What a script does to the store: the network to a server, or a SQLite file, fails in ways that were chosen.

A SQLite file is locked, or damaged, by another process: opening and closing it in this one would drop SQLite's locks.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final, Protocol

from memtrace.harness.faults.proxy import FaultProxy
from memtrace.harness.record.events import StoreFaulty
from memtrace.harness.system import SQLITE_URL

if TYPE_CHECKING:
    from memtrace.harness.stage import Stage

SLOW_SECONDS: Final = 0.4
"""How long a slow server takes for each reply."""
_ANOTHER_PROCESS: Final = """
import sqlite3, sys
path, held, whole = sys.argv[1], None, b""
for line in sys.stdin:
    if line == "locked\\n":
        held = sqlite3.connect(path, isolation_level=None, timeout=10)
        held.execute("BEGIN EXCLUSIVE")
    elif line == "damaged\\n":
        # A change and a checkpoint first: others then have nothing in memory, and read the file.
        db = sqlite3.connect(path, isolation_level=None, timeout=10)
        db.execute("BEGIN IMMEDIATE")
        db.execute("CREATE TABLE memtrace_fault (x)")
        db.execute("DROP TABLE memtrace_fault")
        db.execute("COMMIT")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        held = db
        file = open(path, "r+b")
        whole = file.read()
        file.seek(0)
        file.write(bytes(len(whole)))
        file.flush()
    else:
        if whole:
            file.seek(0)
            file.write(whole)
            file.flush()
            whole = b""
        elif held is not None:
            held.execute("ROLLBACK")
        held = None
    print("done", flush=True)
"""


class StoreFaults(Protocol):
    """The ways in which a script's store can fail, and the hand that makes it."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """What `fault` takes."""

    def fault(self, kind: str = "") -> None:
        """From now on the store fails in this way; without one it is well again."""


@contextmanager
def faulty_store(stage: Stage) -> Iterator[StoreFaults]:
    """A hand on the store of a script, whose system is opened anew for it; in the end the store is well."""
    stage.endangers_the_store()
    url = stage.environment().store_url
    with ExitStack() as stack:
        hand: _File | _Network
        if url.startswith(SQLITE_URL):
            hand = stack.enter_context(_another_process(stage, url.removeprefix(SQLITE_URL)))
        else:
            proxy = stack.enter_context(FaultProxy(url))
            stage.reopen_at(proxy.url(url))
            stack.callback(stage.reopen_at, url)
            hand = _Network(stage, proxy)
        stack.callback(stage.close_system)
        stack.callback(hand.fault)
        yield hand


class _Network:
    kinds = ("refused", "black hole", "slow")

    def __init__(self, stage: Stage, proxy: FaultProxy) -> None:
        self._stage = stage
        self._proxy = proxy

    def fault(self, kind: str = "") -> None:
        match kind:
            case "refused":
                self._proxy.refuse()
            case "black hole":
                self._proxy.black_hole()
            case "slow":
                self._proxy.slow(SLOW_SECONDS)
            case _:
                self._proxy.pass_through()
        self._stage.recorder.add(StoreFaulty, fault=kind)


class _File:
    kinds = ("locked", "damaged")

    def __init__(self, stage: Stage, process: subprocess.Popen[str]) -> None:
        self._stage = stage
        self._process = process
        self._kind = ""

    def fault(self, kind: str = "") -> None:
        for command in ([""] if self._kind else []) + ([kind] if kind else []):
            self._tell(command)
        self._kind = kind
        self._stage.recorder.add(StoreFaulty, fault=kind)

    def _tell(self, command: str) -> None:
        assert self._process.stdin is not None  # noqa: S101  opened with pipes
        assert self._process.stdout is not None  # noqa: S101
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        if not self._process.stdout.readline():
            raise RuntimeError(f"the store's file could not be {command or 'repaired'}")


@contextmanager
def _another_process(stage: Stage, path: str) -> Iterator[_File]:
    with subprocess.Popen(  # noqa: S603  our own words
        [sys.executable, "-c", _ANOTHER_PROCESS, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield _File(stage, process)
