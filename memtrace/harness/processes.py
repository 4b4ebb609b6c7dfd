"""A second, real operating-system process that runs the same system on the same data.

The child gets the factory's path, the environment as JSON and the parent's model server; its callbacks and its clock
are the parent's, over that server, so that there is one history. `memtrace.harness.running.child` is what it runs.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import asdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import msgspec

from memtrace.errors import AdapterError
from memtrace.harness.actor import Actor
from memtrace.harness.record.events import Printed, ProcessEnded, ProcessStarted, SpanEnded
from memtrace.harness.record.listening import ElsewhereErrors, logs_are_silenced
from memtrace.harness.record.recorder import Recorder
from memtrace.harness.running.host import Args, Performed, StreamPlan, result_of
from memtrace.harness.running.interpreters import Interpreter, Interpreters
from memtrace.harness.running.packing import pack, unpack
from memtrace.model import Outcome

if TYPE_CHECKING:
    from memtrace.harness.stage import Stage

_START_SECONDS: Final = 30.0
_CLOSE_SECONDS: Final = 10.0
_FORK: Final = "-fork"
_UNCOUNTED: Final[Mapping[str, Any]] = MappingProxyType({"count": False, "last_step": 0})


def spawn(stage: Stage, interpreters: Interpreters) -> OtherProcess:
    """Start a process that opens the system of a stage, and wait until it has.

    Raises:
        AdapterError: the child could not open it; the message is the child's own.
    """
    number = 1 + sum(1 for event in stage.history().of(ProcessStarted) if not event.forked_from)
    environment = stage.environment()
    plan = {
        "name": f"process-{number}",
        "factory": stage.factory_name,
        "model_url": stage.model_url,
        "store_url": environment.store_url,
        "plane_url": environment.plane_url,
        "plane_key": environment.plane_key,
        "dir": str(stage.directory),
        "agent": stage.agent,
        "options": dict(environment.options),
        "silent": logs_are_silenced(),
    }
    return OtherProcess(stage, RemoteHost(plan, stage.recorder, interpreters.take(stage.factory_name)))


class OtherProcess(Actor):
    """The verbs of a script on a second process, and what can be done to the process itself."""

    host: RemoteHost

    def kill(self) -> None:
        """End it by SIGKILL; turns in flight are told as killed."""
        self.host.kill()

    def steps_of(self, verb: Callable[[], object]) -> int:
        """How many steps of input and output a verb takes there; see `memtrace.harness.running.cut_short`."""
        self.host.count_next()
        verb()
        return self.host.steps

    def kill_during(self, verb: Callable[[], object], *, last_step: int) -> None:
        """Run a verb there and end the process by SIGKILL in the middle of it, right after its ``last_step``."""
        self.host.count_next(last_step)
        verb()
        self.host.kill()

    @contextmanager
    def forked(self) -> Iterator[None]:
        """The process forks itself: inside the block its child answers, on the system that was opened before."""
        self.host.fork()
        try:
            yield
        finally:
            self.host.join()


class RemoteHost:
    """Drives a system in another process. One command at a time is sent; overlapping turns overlap there."""

    def __init__(self, plan: Mapping[str, Any], recorder: Recorder, interpreter: Interpreter) -> None:
        self.name = str(plan["name"])
        self.steps = 0
        self._recorder = recorder
        self._interpreter = interpreter
        self._pending: dict[int, Future[Performed]] = {}
        self._lock = threading.Lock()
        self._counting = _UNCOUNTED
        self._said_goodbye = False
        self._errors = ElsewhereErrors()
        recorder.add(ProcessStarted, process=self.name, pid=interpreter.pid)
        self._listener = threading.Thread(target=self._listen, daemon=True, name=f"{self.name} events")
        self._listener.start()
        if error := result_of(self._command("open", plan={**plan, "stderr": self._errors.path}), _START_SECONDS).error:
            self.kill()
            raise AdapterError(f"a second process could not open the system: {error}")

    def submit(
        self, method: str, args: Args, *, turn: str = "", overlap: bool = False, stream: StreamPlan | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Future[Performed]:  # fmt: skip
        """Call a method of the system there."""
        counting, self._counting = self._counting, _UNCOUNTED
        return self._command(
            "call", method=method, args=pack(list(args)), turn=turn, overlap=overlap,
            stream=asdict(stream) if stream else None, options=pack(options or {}), **counting,
        )  # fmt: skip

    def count_next(self, last_step: int = 0) -> None:
        """Count the steps of the next call, and let the process die after one of them, where one is given."""
        self._counting = MappingProxyType({"count": True, "last_step": last_step})

    def fork(self) -> None:
        """The process forks itself; its child answers until `join`, while the parent waits with the system open."""
        forked = result_of(self._command("fork"), _START_SECONDS)
        if forked.error:
            raise AdapterError(f"{self.name} could not be forked: {forked.error}")
        parent, self.name = self.name, self.name + _FORK
        self._recorder.add(ProcessStarted, process=self.name, pid=forked.value, forked_from=parent)

    def join(self) -> None:
        """The forked child ends; the parent answers again."""
        result_of(self._command("join"), _START_SECONDS)
        self._forked_ended("exit")

    def cancel(self, running: Future[Performed], caller: Any) -> None:
        """Not offered across processes: kill the process instead."""
        raise NotImplementedError("a turn of another process is ended by killing the process")

    def kill(self) -> None:
        """SIGKILL; turns in flight are told as killed."""
        self._interpreter.kill()
        self._listener.join()

    def close(self) -> None:
        """Let the process end by itself: there are no more commands, it closes the system."""
        self._interpreter.end_commands()
        self._listener.join(_CLOSE_SECONDS)
        if self._listener.is_alive():
            self.kill()

    def _command(self, do: str, **fields: Any) -> Future[Performed]:
        future: Future[Performed] = Future()
        with self._lock:
            number = len(self._pending)
            self._pending[number] = future
            if not self._interpreter.command({"id": number, "do": do, **fields}):
                self._gone(future)
        return future

    def _listen(self) -> None:
        with self._interpreter.events as events:
            for line in events:
                self._hear(json.loads(line))
        self._interpreter.gone()
        how = "exit" if self._said_goodbye else "kill"
        self._forked_ended(how)
        self._recorder.add(Printed, process=self.name, text=self._errors.read())
        self._recorder.add(ProcessEnded, process=self.name, how=how)
        self._give_up()

    def _hear(self, message: dict[str, Any]) -> None:
        match message:
            case {"span": fields}:
                self._recorder.add(SpanEnded, process=self.name, **_span(fields))
            case {"bye": _}:
                self._said_goodbye = True
            case {"lost": _}:
                self._forked_ended("kill")
                self._give_up()
            case {"id": number, "performed": performed, "steps": steps}:
                self.steps = steps
                outcome, value = Outcome(performed["outcome"]), unpack(performed["value"])
                self._pending[number].set_result(Performed(**{**performed, "outcome": outcome, "value": value}))

    def _forked_ended(self, how: str) -> None:
        if self.name.endswith(_FORK):
            self._recorder.add(ProcessEnded, process=self.name, how=how)
            self.name = self.name.removesuffix(_FORK)

    def _give_up(self) -> None:
        """Whoever still waits is told that the process is gone."""
        with self._lock:
            for future in self._pending.values():
                self._gone(future)

    def _gone(self, future: Future[Performed]) -> None:
        if not future.done():
            future.set_result(Performed(Outcome.KILLED, error=f"{self.name} is gone"))


def _span(fields: dict[str, Any]) -> dict[str, Any]:
    decoded = msgspec.convert({"at": 0, "event": "SpanEnded", **fields}, SpanEnded)
    return {name: getattr(decoded, name) for name in fields}
