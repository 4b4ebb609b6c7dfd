"""A second, real operating-system process that runs the same system on the same data.

The child gets the factory's path, the environment as JSON and the parent's model server; its callbacks and its clock
are the parent's, over that server, so that there is one history. Commands go to its standard input, one JSON line
each; results and ended spans come back on a descriptor of their own, since libraries print. The child ends when its
standard input does, and so cannot outlive its parent.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any, Final

import httpx
import msgspec
from opentelemetry.sdk.trace import ReadableSpan

from memtrace.errors import AdapterError
from memtrace.harness import attribution
from memtrace.harness.attribution import SpanLabel
from memtrace.harness.events import ProcessEnded, ProcessStarted, SpanEnded
from memtrace.harness.host import Args, LocalHost, Performed, StreamPlan, open_system, result_of
from memtrace.harness.recorder import Recorder, span_fields
from memtrace.harness.system import Environment, load_factory
from memtrace.model import Caller, Fact, Message, Outcome, Reply

if TYPE_CHECKING:
    from memtrace.harness.stage import Stage

_START_SECONDS: Final = 30.0
_TYPES: Final[Mapping[str, Any]] = MappingProxyType(
    {"Caller": Caller, "Fact": Fact, "Message": Message, "Reply": Reply}
)


def spawn(stage: Stage) -> RemoteHost:
    """Start a process that opens the system of a stage, and wait until it has.

    Raises:
        AdapterError: the child could not open it; the message is the child's own.
    """
    number = 1 + sum(1 for event in stage.history().of(ProcessStarted))
    plan = {
        "name": f"process-{number}",
        "factory": stage.factory_name,
        "model_url": stage.model_url,
        "store_url": stage.environment().store_url,
        "plane_url": stage.environment().plane_url,
        "dir": str(stage.directory),
        "agent": stage.agent,
        "options": dict(stage.environment().options),
    }
    return RemoteHost(plan, stage.recorder)


class RemoteHost:
    """Drives a system in another process. One command at a time is sent; overlapping turns overlap there."""

    def __init__(self, plan: dict[str, Any], recorder: Recorder) -> None:
        self.name = str(plan["name"])
        self._recorder = recorder
        self._pending: dict[int, Future[Performed]] = {}
        self._lock = threading.Lock()
        read, write = os.pipe()
        self._process = subprocess.Popen(  # noqa: S603  our own module, with this interpreter
            [sys.executable, "-m", "memtrace.harness.processes", str(write)],
            stdin=subprocess.PIPE, pass_fds=(write,),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )  # fmt: skip
        os.close(write)
        recorder.add(ProcessStarted, process=self.name, pid=self._process.pid)
        self._events = os.fdopen(read)
        threading.Thread(target=self._listen, daemon=True, name=f"{self.name} events").start()
        opened = self._command({"plan": plan})
        if error := result_of(opened, _START_SECONDS).error:
            self.kill()
            raise AdapterError(f"a second process could not open the system: {error}")

    def submit(
        self, method: str, args: Args, *, turn: str = "", overlap: bool = False, stream: StreamPlan | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Future[Performed]:  # fmt: skip
        """Call a method of the system there."""
        return self._command({
            "method": method, "args": [_pack(arg) for arg in args], "turn": turn, "overlap": overlap,
            "stream": asdict(stream) if stream else None, "options": dict(options or {}),
        })  # fmt: skip

    def fork(self) -> None:
        """The process forks itself; its child answers until `join`, while the parent waits with the system open."""
        result_of(self._command({"fork": True}), _START_SECONDS)

    def join(self) -> None:
        """The forked child ends; the parent answers again."""
        result_of(self._command({"join": True}), _START_SECONDS)

    def cancel(self, running: Future[Performed], caller: Any) -> None:
        """Not offered across processes: kill the process instead."""
        raise NotImplementedError("a turn of another process is ended by killing the process")

    def kill(self) -> None:
        """SIGKILL; turns in flight are told as killed."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self._ended("kill")

    def close(self) -> None:
        """Let the process end by itself: its input ends, it closes the system."""
        if self._process.poll() is None and self._process.stdin is not None:
            self._process.stdin.close()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._ended("exit")

    def _command(self, command: dict[str, Any]) -> Future[Performed]:
        future: Future[Performed] = Future()
        with self._lock:
            number = len(self._pending)
            self._pending[number] = future
            line = json.dumps({"id": number, **command}) + "\n"
            try:
                assert self._process.stdin is not None  # noqa: S101  it is a pipe
                self._process.stdin.write(line.encode())
                self._process.stdin.flush()
            except (BrokenPipeError, ValueError):
                future.set_result(Performed(Outcome.KILLED, error=f"{self.name} is gone"))
        return future

    def _listen(self) -> None:
        with self._events:
            for line in self._events:
                message = json.loads(line)
                if "span" in message:
                    self._recorder.add(SpanEnded, process=self.name, **_span(message["span"]))
                else:
                    performed = message["performed"]
                    performed["value"] = _unpack(performed["value"])
                    performed["outcome"] = Outcome(performed["outcome"])
                    self._pending[message["id"]].set_result(Performed(**performed))
        for future in list(self._pending.values()):
            if not future.done():
                future.set_result(Performed(Outcome.KILLED, error=f"{self.name} is gone"))

    def _ended(self, how: str) -> None:
        self._recorder.add(ProcessEnded, process=self.name, how=how)


def _span(fields: dict[str, Any]) -> dict[str, Any]:
    decoded = msgspec.convert({"at": 0, "event": "SpanEnded", **fields}, SpanEnded)
    return {name: getattr(decoded, name) for name in fields}


def _pack(value: Any) -> Any:
    """A value as JSON has it; the vocabulary's dataclasses by name."""
    if isinstance(value, (list, tuple)):
        return [_pack(item) for item in value]
    if type(value).__name__ in _TYPES:
        return {"type": type(value).__name__, "fields": msgspec.to_builtins(value)}
    return value if isinstance(value, (str, int, float, bool, type(None), dict)) else str(value)


def _unpack(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpack(item) for item in value]
    if isinstance(value, dict) and value.get("type") in _TYPES:
        return msgspec.convert(value["fields"], _TYPES[value["type"]])
    return value


# The child


class _Spans(SpanLabel):
    """Sends each ended span to the parent."""

    def __init__(self, out: _Out) -> None:
        self._out = out

    def on_end(self, span: ReadableSpan) -> None:
        self._out.send({"span": msgspec.to_builtins(span_fields(span))})


class _Out:
    """The descriptor that events go back on."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def send(self, message: dict[str, Any]) -> None:
        with self._lock:
            self._stream.write(json.dumps(message) + "\n")
            self._stream.flush()


class _Parent:
    """The parent's callbacks, over its model server."""

    def __init__(self, model_url: str) -> None:
        self._root = model_url.rstrip("/").removesuffix("/v1")
        self._model_url = model_url
        self._pid = 0
        self._made: httpx.Client | None = None

    @property
    def _client(self) -> httpx.Client:
        if self._made is None or self._pid != os.getpid():
            self._made, self._pid = httpx.Client(timeout=30), os.getpid()
        return self._made

    def call(self, name: str, payload: Any) -> Any:
        response = self._client.post(f"{self._root}/callbacks/{name}", json=payload)
        if response.status_code != 200:
            raise RuntimeError(response.json().get("message", response.text))
        return response.json()

    def resolve(self, caller: Caller) -> Any:
        value = self.call("resolve", asdict(caller))
        return object() if isinstance(value, dict) else value

    def complete(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return dict(self._client.post(f"{self._model_url}/chat/completions", json=dict(body)).raise_for_status().json())

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        body = {"model": "embedding-model", "input": list(texts)}
        data = self._client.post(f"{self._model_url}/embeddings", json=body).raise_for_status().json()["data"]
        return [item["embedding"] for item in data]


class _Child:
    """Reads commands until its input ends."""

    def __init__(self, commands: IO[str], out: _Out) -> None:
        self._commands = commands
        self._out = out
        self._host: LocalHost | None = None
        self._plan: dict[str, Any] = {}

    def serve(self) -> None:
        while line := self._commands.readline():
            command = json.loads(line)
            if "plan" in command:
                self._answer(command["id"], self._open(command["plan"]))
            elif "fork" in command:
                self._fork(command["id"])
            elif "join" in command:
                self._answer(command["id"], Performed(Outcome.OK))
                os._exit(0)
            else:
                self._perform(command)
        if self._host is not None:
            self._host.close()

    def _open(self, plan: dict[str, Any]) -> Performed:
        self._plan = plan
        attribution.watch(plan["model_url"])
        try:
            system = open_system(load_factory(plan["factory"]), self._environment())
            self._host = LocalHost(system, plan["name"])
        except Exception as error:  # noqa: BLE001  whatever it is, the parent must be told
            return Performed(Outcome.FAILED, error=f"{type(error).__name__}: {error}")
        return Performed(Outcome.OK)

    def _environment(self) -> Environment:
        plan, parent = self._plan, _Parent(self._plan["model_url"])
        return Environment(
            model_url=plan["model_url"], model=parent.complete, embed=parent.embed,
            tool=lambda query: str(parent.call("tool", query)),
            guard=lambda text, position: bool(parent.call("guard", {"text": text, "position": position})),
            after_run=lambda text: parent.call("after_run", text),
            resolve=parent.resolve, clock=lambda: float(parent.call("clock", None)),
            store_url=plan["store_url"], plane_url=plan["plane_url"], dir=Path(plan["dir"]), agent=plan["agent"],
            span_processor=_Spans(self._out), options=MappingProxyType(plan["options"]),
        )  # fmt: skip

    def _perform(self, command: dict[str, Any]) -> None:
        assert self._host is not None  # noqa: S101  the parent opens first
        stream = StreamPlan(**command["stream"]) if command["stream"] else None
        number = command["id"]
        try:
            future = self._host.submit(
                command["method"], [_unpack(arg) for arg in command["args"]], turn=command["turn"],
                overlap=command["overlap"], stream=stream, options=command["options"],
            )  # fmt: skip
        except AttributeError as error:
            self._answer(number, Performed(Outcome.FAILED, error=str(error)))
            return
        future.add_done_callback(lambda done: self._answer(number, result_of(done, 0)))

    def _answer(self, number: int, performed: Performed) -> None:
        fields = {name: getattr(performed, name) for name in ("text", "token", "error")}
        self._out.send(
            {"id": number, "performed": {"outcome": performed.outcome.value, "value": _pack(performed.value), **fields}}
        )

    def _fork(self, number: int) -> None:
        """The forked child goes on with the same system; lanes are threads and do not cross a fork, so it gets new ones."""
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
            return
        assert self._host is not None  # noqa: S101  the parent opens first
        self._host = LocalHost(self._host.system, self._host.name)
        self._answer(number, Performed(Outcome.OK))


def main() -> None:
    """Serve as the child; its one argument is the descriptor that events go back on."""
    with os.fdopen(int(sys.argv[1]), "w") as stream:
        _Child(sys.stdin, _Out(stream)).serve()


if __name__ == "__main__":
    main()
