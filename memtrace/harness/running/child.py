"""What runs in a second process: the same system, told over a pipe what to do.

Commands come as JSON lines on one descriptor, results and ended spans go back on another, since libraries print and
read. The child ends when its commands do, and so cannot outlive its parent.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, Final

import httpx
import msgspec
from opentelemetry.sdk.trace import ReadableSpan

from memtrace.errors import UsageError
from memtrace.harness.record import attribution
from memtrace.harness.record.attribution import SpanLabel
from memtrace.harness.record.listening import silence_logs, telling
from memtrace.harness.record.recorder import span_fields
from memtrace.harness.running.cut_short import Steps, Watched
from memtrace.harness.running.host import LocalHost, Performed, StreamPlan, open_system, result_of
from memtrace.harness.running.packing import pack, unpack
from memtrace.harness.system import EMBEDDING_MODEL, Environment, load_factory
from memtrace.model import Caller, Outcome

_LEAVE_SECONDS: Final = 8.0
"""How long closing may take once the parent is gone."""


class _Out:
    """The descriptor that events go back on."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._lock = threading.Lock()

    def send(self, message: Mapping[str, Any]) -> None:
        with self._lock, suppress(BrokenPipeError):  # the parent is gone; so is this process, in a moment
            self._stream.write(json.dumps(message) + "\n")
            self._stream.flush()

    def fork(self) -> int:
        """Fork while no other thread writes: what it holds would stay held in the child for ever."""
        with self._lock, warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # that there are threads is what is tested
            return os.fork()


class _Spans(SpanLabel):
    """Sends each ended span to the parent."""

    def __init__(self, out: _Out) -> None:
        self._out = out

    def on_end(self, span: ReadableSpan) -> None:
        self._out.send({"span": msgspec.to_builtins(span_fields(span))})


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
            self._made = httpx.Client(timeout=30, trust_env=False, verify=False)  # noqa: S501  loopback, and not TLS
            self._pid = os.getpid()
        return self._made

    def call(self, name: str, payload: Any) -> Any:
        response = self._client.post(f"{self._root}/callbacks/{name}", json=payload)
        if response.status_code != httpx.codes.OK:
            raise RuntimeError(response.json().get("message", response.text))
        return response.json()

    def resolve(self, caller: Caller) -> Any:
        value = self.call("resolve", asdict(caller))
        return object() if isinstance(value, dict) else value

    def complete(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return dict(self._client.post(f"{self._model_url}/chat/completions", json=dict(body)).raise_for_status().json())

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if not texts:
            return []
        body = {"model": EMBEDDING_MODEL, "input": list(texts)}
        data = self._client.post(f"{self._model_url}/embeddings", json=body).raise_for_status().json()["data"]
        return [item["embedding"] for item in data]


class _Child:
    """Reads commands until there are no more."""

    def __init__(self, commands: IO[str], out: _Out) -> None:
        self._commands = commands
        self._out = out
        self._host: LocalHost | None = None
        self._plan: dict[str, Any] = {}
        self._telling = ExitStack()
        self._forked = False

    def serve(self) -> None:
        while line := self._commands.readline():
            command = json.loads(line)
            match command["do"]:
                case "open":
                    self._telling.enter_context(telling(command["plan"]["stderr"]))
                    self._answer(command["id"], self._open(command["plan"]))
                case "call":
                    self._perform(command)
                case "fork":
                    self._fork(command["id"])
                case "join":
                    self._answer(command["id"], Performed(Outcome.OK))
                    if self._forked:
                        os._exit(0)
        _leave_at_last()
        if self._host is not None:
            self._host.close()

    def _open(self, plan: dict[str, Any]) -> Performed:
        self._plan = plan
        if plan["silent"]:
            silence_logs()
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
            store_url=plan["store_url"], plane_url=plan["plane_url"],
            plane_key=plan["plane_key"], dir=Path(plan["dir"]), agent=plan["agent"],
            span_processor=_Spans(self._out), options=MappingProxyType(plan["options"]),
        )  # fmt: skip

    def _perform(self, command: dict[str, Any]) -> None:
        assert self._host is not None  # noqa: S101  the parent opens first
        host, system, number = self._host, self._host.system, command["id"]
        steps = Steps(command["last_step"])
        if command["count"]:
            host.system = Watched(system, steps)
        stream = StreamPlan(**command["stream"]) if command["stream"] else None
        try:
            future = host.submit(
                command["method"], unpack(command["args"]), turn=command["turn"],
                overlap=command["overlap"], stream=stream, options=unpack(command["options"]),
            )  # fmt: skip
        except AttributeError as error:
            self._answer(number, Performed(Outcome.FAILED, error=str(error)))
        else:
            future.add_done_callback(self._answering(number, steps))
        finally:
            host.system = system

    def _answering(self, number: int, steps: Steps) -> Callable[[Future[Performed]], None]:
        return lambda done: self._answer(number, result_of(done, 0), steps=steps.taken)

    def _answer(self, number: int, performed: Performed, *, steps: int = 0) -> None:
        fields = {name: getattr(performed, name) for name in ("text", "token", "error")}
        answer = {"outcome": performed.outcome.value, "value": pack(performed.value), **fields}
        self._out.send({"id": number, "steps": steps, "performed": answer})

    def _fork(self, number: int) -> None:
        """The forked child goes on with the same system, on lanes of its own: they are threads, and cross no fork."""
        if pid := self._out.fork():
            _, status = os.waitpid(pid, 0)
            if status:
                self._out.send({"lost": status})
            return
        assert self._host is not None  # noqa: S101  the parent opens first
        self._forked = True
        self._host = LocalHost(self._host.system, self._host.name)
        self._answer(number, Performed(Outcome.OK, value=os.getpid()))


def _leave_at_last() -> None:
    """End this process, whatever it still waits for."""
    last = threading.Timer(_LEAVE_SECONDS, lambda: os._exit(1))
    last.daemon = True
    last.start()


def serve(commands: int, events: int) -> None:
    """Do what the commands on one descriptor say, telling on another, until there are no more.

    What comes before the first command are the surroundings to work in.
    """
    with os.fdopen(commands) as read, os.fdopen(events, "w") as write:
        _settle_in(**json.loads(read.readline() or "{}"))
        out = _Out(write)
        _Child(read, out).serve()
        out.send({"bye": True})


def _settle_in(
    factory: str = "", environ: Mapping[str, str] = MappingProxyType({}), path: Sequence[str] = (), cwd: str = "."
) -> None:
    """Become as a process that was started now, and import what will be needed."""
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environ)
    sys.path[:] = path
    with suppress(UsageError):  # opening the system will say it again, to somebody who listens
        load_factory(factory)


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]))
