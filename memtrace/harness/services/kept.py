"""Processes and directories that cannot outlive the process that made them, even when that is killed.

A small shell holds the reading end of a pipe. When the pipe ends, for whatever reason, the shell ends the process and
removes the directory. (A signal at the parent's death would do less: it comes when the starting *thread* ends, it is
lost where the child changes its user, and it removes nothing.)
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from memtrace.harness.services.ports import free_port
from memtrace.harness.services.server import NotHere

_GUARD: Final = """
read -r _
mv "$1" "$1.gone" || exit 0
if pid=$(cat "$1.gone/pid"); then
    kill -"$2" "$pid"
    turns=0
    while kill -0 "$pid" && [ "$turns" -lt 100 ]; do sleep 0.05; turns=$((turns + 1)); done
    kill -KILL "$pid"
fi
rm -rf "$1.gone"
"""
# The name appears whole or not at all, and not in a directory that has gone: the guard misses no process.
_LAUNCH: Final = 'echo $$ > "$1/pid.new" && mv "$1/pid.new" "$1/pid" && shift && exec "$@"'
_POLL_SECONDS: Final = 0.005
_READY_SECONDS: Final = 30.0


class KeptDirectory:
    """A 0700 directory that is gone when `remove` is called or this process has ended, however it ends."""

    def __init__(self, *, end_by: signal.Signals = signal.SIGKILL) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="memtrace-"))
        self._owner = os.getpid()
        end = end_by.name.removeprefix("SIG")
        self._guard = subprocess.Popen(  # noqa: S603
            ["/bin/sh", "-c", _GUARD, "memtrace-guard", str(self.path), end],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            cwd="/", start_new_session=True,
        )  # fmt: skip

    def remove(self) -> None:
        """Remove it; a forked child's call does nothing, since the directory is its parent's."""
        if os.getpid() == self._owner:
            self._guard.communicate(b"\n")


class KeptProcess:
    """A server's process in a directory of its own; see `Running`.

    Args:
        directory: where its data, log and process id are.
        command: what to run, for a port.
        ready: whether the process, by its id, answers.
        end_by: the signal that ends it quickly and in order.
        environ: variables it is given besides those of this process.
    """

    def __init__(
        self, directory: KeptDirectory, command: Callable[[int], Sequence[str]], *,
        ready: Callable[[int, int], bool], end_by: signal.Signals, environ: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.port = 0
        self._directory = directory
        self._command = command
        self._ready = ready
        self._end_by = end_by
        self._environ = dict(environ or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()

    def start(self) -> None:
        """Run it, at a free port the first time and at the same one from then on."""
        if self._process is not None and self._process.poll() is None:
            return
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline:
            port = self.port or free_port()
            if self._answers(port):
                self.port = port
                return
            if "in use" not in self._log():  # a port that another took meanwhile, or what a killed server still holds
                break
            time.sleep(_POLL_SECONDS)
        raise NotHere(f"it did not start: {self._last_words()}")

    def _answers(self, port: int) -> bool:
        path = self._directory.path
        with (path / "log").open("wb") as log:
            self._process = process = subprocess.Popen(  # noqa: S603
                ["/bin/sh", "-c", _LAUNCH, "memtrace-server", str(path), *self._command(port)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd="/", start_new_session=True,
                env={**os.environ, **self._environ},
            )  # fmt: skip
        deadline = time.monotonic() + _READY_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            if self._ready(process.pid, port):
                return True
            time.sleep(_POLL_SECONDS)
        self._end(signal.SIGKILL)
        return False

    def _log(self) -> str:
        return (self._directory.path / "log").read_text(errors="replace")

    def _last_words(self) -> str:
        lines = [line.strip() for line in self._log().splitlines() if line.strip()]
        telling = [line for line in lines if any(word in line.lower() for word in ("fatal", "error", "fail", "denied"))]
        return (telling or lines or ["it said nothing"])[-1]

    def kill(self) -> None:
        """Kill it; its data stay."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """End it, and remove its directory; nothing in a forked child, whose parent's it is."""
        if os.getpid() == self._owner:
            self._end(self._end_by)
            self._directory.remove()

    def _end(self, by: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(by)
        # Before the id can be another process's: until it is waited for, it cannot.
        (self._directory.path / "pid").unlink(missing_ok=True)
        try:
            process.wait(_READY_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run_to_end(command: Sequence[str]) -> None:
    """Run a command that prepares a server; `NotHere` with its last words where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, check=False, cwd="/", stdin=subprocess.DEVNULL)  # noqa: S603
    except OSError as error:
        raise NotHere(f"{command[0]}: {error.strerror}") from None
    if done.returncode:
        words = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()
        raise NotHere(f"{Path(command[0]).name} failed: {words[-1] if words else f'status {done.returncode}'}")
