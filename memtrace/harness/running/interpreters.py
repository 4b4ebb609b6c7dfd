"""Interpreters for second processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

from memtrace.errors import AdapterError
from memtrace.harness.record.listening import outer_standard_error
from memtrace.harness.system import imported_before_forks

MOST: Final = 100
"""Bytes of a message to the nursery, or from it."""
_FORKS: Final = sys.platform == "linux"
"""Elsewhere the system's libraries may not survive a fork without a new program."""
_OF_EACH_TEST: Final = "PYTEST_CURRENT_TEST"
"""Set anew by pytest for each test: an interpreter that was started ahead would be made for another one."""


class Interpreter:
    """A process of ours that waits for its first command, and meanwhile imports the factory's module.

    Attributes:
        pid: of the process, which leads a group of its own.
        events: what it tells; ends when the process does.
        made_for: the factory, and the surroundings it was started in.
    """

    def __init__(self, factory: str, nursery: Nursery | None = None) -> None:
        self.made_for = _surroundings(factory)
        commands, write = os.pipe()
        read, events = os.pipe()
        try:
            self._program, self.pid = _born(nursery, commands, events)
        finally:
            os.close(commands)
            os.close(events)
        self.events = os.fdopen(read)
        self._commands = os.fdopen(write, "w")
        self._gone = False
        self.command(self.made_for)

    def command(self, command: Mapping[str, Any]) -> bool:
        """Tell it what to do; ``False`` where it is gone."""
        try:
            self._commands.write(json.dumps(command) + "\n")
            self._commands.flush()
        except (BrokenPipeError, ValueError):
            return False
        return True

    def end_commands(self) -> None:
        """There are no more: it closes the system, and ends."""
        with suppress(BrokenPipeError):
            self._commands.close()

    def kill(self) -> None:
        """SIGKILL, to the processes it forked too."""
        if not self._gone:
            with suppress(ProcessLookupError):
                os.killpg(self.pid, signal.SIGKILL)

    def gone(self) -> None:
        """Its events have ended: nothing is left to wait for."""
        self._gone = True
        if self._program is not None:
            self._program.wait()
        self.end_commands()

    def discard(self) -> None:
        """It is not needed after all."""
        self.kill()
        with self.events:
            self.events.read()
        self.gone()


class Nursery:
    """What interpreters are forked from; see `memtrace.harness.running.nursery`.

    Attributes:
        modules: what it imports before its first fork.
    """

    def __init__(self, modules: tuple[str, ...] = ()) -> None:
        self.modules = modules
        self._requests, theirs = socket.socketpair()
        with theirs:
            self._process = _program("nursery", theirs.fileno(), *modules)

    def fork(self, *descriptors: int) -> int:
        """A new process that serves these descriptors, of commands and of events; its id."""
        try:
            socket.send_fds(self._requests, [b"fork"], descriptors)
            return int(self._requests.recv(MOST))
        except (OSError, ValueError) as error:
            raise AdapterError("the process that second processes are forked from is gone") from error

    def close(self) -> None:
        """No more will be needed."""
        self._requests.close()
        self._process.wait()


class Interpreters:
    """Starts interpreters; one ahead, as long as the ``with`` block lasts, since importing a library takes long."""

    def __init__(self) -> None:
        self._nursery: Nursery | None = None
        self._ahead: Interpreter | None = None
        self._open = False

    def __enter__(self) -> Self:
        self._open = True
        return self

    def __exit__(self, *_error: object) -> None:
        self._open = False
        if self._ahead is not None:
            self._ahead.discard()
            self._ahead = None
        self._close_nursery()

    def _close_nursery(self) -> None:
        if self._nursery is not None:
            self._nursery.close()
            self._nursery = None

    def take(self, factory: str) -> Interpreter:
        """One that nobody has used, made for this factory and for the surroundings as they are now."""
        if self._open and _FORKS:
            self._see_to_nursery(imported_before_forks(factory))
        ready, self._ahead = self._ahead, None
        if ready is not None and ready.made_for != _surroundings(factory):
            ready.discard()
            ready = None
        taken = ready or Interpreter(factory, self._nursery)
        if self._open:
            self._ahead = Interpreter(factory, self._nursery)
        return taken

    def _see_to_nursery(self, modules: tuple[str, ...]) -> None:
        if self._nursery is None or self._nursery.modules != modules:
            self._close_nursery()
            self._nursery = Nursery(modules)


def _born(nursery: Nursery | None, *descriptors: int) -> tuple[subprocess.Popen[bytes] | None, int]:
    if nursery is not None:
        return None, nursery.fork(*descriptors)
    program = _program("child", *descriptors)
    return program, program.pid


def _program(module: str, *arguments: object) -> subprocess.Popen[bytes]:
    """One of our own modules as a program; its arguments that are numbers are descriptors it keeps open."""
    return subprocess.Popen(  # noqa: S603  our own module, with this interpreter
        [sys.executable, "-m", f"{__package__}.{module}", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stderr=outer_standard_error(),
        pass_fds=[argument for argument in arguments if isinstance(argument, int)],
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


def _surroundings(factory: str) -> dict[str, Any]:
    """What a process is told first, so that it is as one started now; and which factory it will need."""
    environ = {name: value for name, value in os.environ.items() if name != _OF_EACH_TEST}
    return {"factory": factory, "environ": environ, "path": list(sys.path), "cwd": str(Path.cwd())}
