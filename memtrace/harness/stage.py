"""What a script holds: callers, planted words, turns, holds, processes; and in the end the judgement.

A script drives and never judges. Everything it does through the stage becomes an event of one history.
"""

from __future__ import annotations

import itertools
import random
import string
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from memtrace.harness.callbacks import Callbacks
from memtrace.harness.events import (
    Closed,
    Expected,
    FactsRead,
    FactWritten,
    Noted,
    Opened,
    Scanned,
    TurnEnded,
    TurnStarted,
)
from memtrace.harness.history import CANARY, History
from memtrace.harness.holds import Hold, Holds, Point
from memtrace.harness.host import (
    Host,
    LocalHost,
    NeverEnded,
    Performed,
    StreamPlan,
    answer_of,
    as_facts,
    open_system,
    result_of,
)
from memtrace.harness.interpreters import Interpreters
from memtrace.harness.judging import judge
from memtrace.harness.model_server import ModelServer, Step
from memtrace.harness.recorder import Recorder, SpanRecorder
from memtrace.harness.rules import unmet
from memtrace.harness.scripting import Extract, ScriptedModel
from memtrace.harness.system import Environment, Factory, ModelRequest
from memtrace.harness.upstream import Upstream
from memtrace.model import Caller, Fact, Finding, Message, Outcome, Unresolved

if TYPE_CHECKING:
    from memtrace.harness.processes import OtherProcess

_TURN_SECONDS: Final = 30.0
OK: Final = (Outcome.OK,)
OK_OR_REFUSED: Final = (Outcome.OK, Outcome.REFUSED)


class NotExercised(Exception):
    """The script cannot be played on this system; the message says why."""


class Running:
    """A turn that was started; `result` waits for its end."""

    def __init__(
        self, actor: Actor, turn: str, caller: Caller, future: Future[Performed], expect: tuple[Outcome, ...]
    ) -> None:
        self.turn = turn
        self._actor = actor
        self._caller = caller
        self._future = future
        self._expect = expect
        self._ended: Performed | None = None

    def result(self) -> Performed:
        """How the turn ended; records the end the first time.

        Raises:
            NeverEnded: it has not, though there was time; it is recorded as failed.
        """
        if self._ended is None:
            self._ended = self._actor.ended(self.turn, result_of(self._future, _TURN_SECONDS), self._expect)
        if not self._future.done():
            raise NeverEnded(f"turn {self.turn} {self._ended.error}")
        return self._ended

    def over(self, within: float) -> bool:
        """Whether the turn has ended; waits for it a bounded time, since a lawful system may serialise turns."""
        wait([self._future], within)
        return self._future.done()

    def cancel(self, held: Hold | None = None) -> Performed:
        """Cancel it from outside, and wait for its end; what is ``held`` goes on once the turn was told to stop."""
        self._actor.host.cancel(self._future, self._caller)
        if held is not None:
            held.release()
        return self.result()


class Actor:
    """The verbs of a script, on one process that runs the system."""

    def __init__(self, stage: Stage, host: Host) -> None:
        self._stage = stage
        self.host = host

    # Turns

    def turn(
        self, caller: Caller, text: str, *, says: Sequence[str | Step] = (), tool_returns: Sequence[str] = (),
        blocks: str = "", fails: Point | None = None, expect: Outcome | tuple[Outcome, ...] = OK, via: str = "run",
    ) -> TurnResult:  # fmt: skip
        """Run one turn to its end.

        Args:
            caller: whose turn it is.
            text: what they say.
            says: what the answer model does, step by step; after that it says ``Noted.``.
            tool_returns: what the tool gives, call by call.
            blocks: the guardrail blocks the ``input`` or the ``output``.
            fails: the callback at this point raises.
            expect: the outcomes the script takes for possible; any other makes its rules inconclusive.
            via: ``run``, ``stream``, ``handoff`` or ``delegate``.
        """
        running = self.start(
            caller, text, says=says, tool_returns=tool_returns, blocks=blocks, fails=fails, expect=expect, via=via,
            overlap=False,
        )  # fmt: skip
        return self._stage.finished(running)

    def stream(self, caller: Caller, text: str, *, leave_after: int | None = None, **script: Any) -> TurnResult:
        """Stream one turn, to its end or until it is left after so many pieces."""
        if leave_after is not None:
            script.setdefault("expect", (Outcome.ABANDONED, Outcome.OK))
        running = self.start(caller, text, via="stream", plan=StreamPlan(leave_after), overlap=False, **script)
        return self._stage.finished(running)

    def start(
        self, caller: Caller, text: str, *, says: Sequence[str | Step] = (), tool_returns: Sequence[str] = (),
        blocks: str = "", fails: Point | None = None, expect: Outcome | tuple[Outcome, ...] = OK, via: str = "run",
        plan: StreamPlan | None = None, overlap: bool = True, of: str = "", args: Sequence[Any] | None = None,
    ) -> Running:  # fmt: skip
        """Begin a turn that may overlap others."""
        stage = self._stage
        turn = stage.plan_turn(says, tool_returns, blocks, fails)
        stage.recorder.add(TurnStarted, turn=turn, caller=caller, text=text, via=via, of=of, process=self.host.name)
        stage.recorder.begin(turn)
        stage.model.heard(text)
        method = {"run": "turn"}.get(via, via)
        stream = plan or (StreamPlan() if via == "stream" else None)
        future = self.host.submit(method, args or (caller, text), turn=turn, overlap=overlap, stream=stream)
        return Running(self, turn, caller, future, (expect,) if isinstance(expect, Outcome) else expect)

    def resume(
        self, paused: TurnResult, caller: Caller | None = None, *, approved: bool = True, **script: Any
    ) -> TurnResult:
        """Resume a paused turn, as its own caller or another."""
        return self._go_on("resume", paused, caller, approved, script)

    def fork(
        self, paused: TurnResult, caller: Caller | None = None, *, approved: bool = True, **script: Any
    ) -> TurnResult:
        """Run a second time from where a turn paused."""
        return self._go_on("fork", paused, caller, approved, script)

    def _go_on(
        self,
        via: str,
        paused: TurnResult,
        caller: Caller | None,
        approved: bool,
        script: dict[str, Any],
    ) -> TurnResult:
        who = caller or paused.caller
        args = (who, paused.token, approved)
        return self._stage.finished(self.start(who, "", via=via, of=paused.turn, args=args, overlap=False, **script))

    def ended(self, turn: str, performed: Performed, expect: tuple[Outcome, ...]) -> Performed:
        """Record the end of a turn."""
        self._stage.recorder.end(turn)
        self._stage.recorder.add(
            TurnEnded, turn=turn, outcome=performed.outcome.value, expected=tuple(o.value for o in expect),
            text=performed.text, error=performed.error, token=performed.token, process=self.host.name,
        )  # fmt: skip
        return performed

    # Facts

    def add(self, caller: Caller, text: str, scope: str = "user") -> str:
        """Persist a fact; returns its record id."""
        self._stage.model.heard(text)
        return str(self._write("add", caller, (caller, text, scope), scope=scope, text=text).value or "")

    def update(self, caller: Caller, record: str, text: str) -> str:
        """Put a new text in the place of a record; returns the new record id."""
        self._stage.model.heard(text)
        return str(self._write("update", caller, (caller, record, text), text=text, record=record).value or "")

    def forget(self, caller: Caller, record: str | None = None) -> int:
        """Forget one record, or all the caller's facts; returns how many went."""
        return int(self._write("forget", caller, (caller, record), record=record or "").value or 0)

    def erase(self, caller: Caller) -> None:
        """Remove everything kept of a user."""
        self._write("erase", caller, (caller,))

    def save(self, caller: Caller, path: Path) -> Performed:
        """Save the caller's window to a file."""
        return self._write("save", caller, (caller, str(path)), file=self._stage.name_of(path))

    def load(self, caller: Caller, path: Path) -> Performed:
        """Restore the caller's window from a file."""
        return self._write("load", caller, (caller, str(path)), file=self._stage.name_of(path))

    def learn_offline(self, caller: Caller, **options: Any) -> Performed:
        """Mine past turns for facts."""
        return self._write(
            "learn_offline", caller, (), scope=options.get("scope", "agent"), options={"caller": caller, **options}
        )

    def _write(
        self, op: str, caller: Caller, args: Sequence[Any], *, scope: str = "user", text: str = "", record: str = "",
        options: Mapping[str, Any] | None = None, file: str = "",
    ) -> Performed:  # fmt: skip
        performed = answer_of(self.host.submit(op, args, options=options), _TURN_SECONDS)
        value = performed.value
        self._stage.recorder.add(
            FactWritten, op=op, caller=caller, scope=scope, text=text, error=performed.error,
            record=record or (str(value) if op == "add" and value is not None else ""),
            returned=str(value) if op == "update" and value is not None else "",
            personal=bool((options or {}).get("personal")), file=file,
            count=value if isinstance(value, int) and not isinstance(value, bool) else None,
            refused=performed.outcome is Outcome.REFUSED, process=self.host.name,
        )  # fmt: skip
        self._stage.settle_if_idle(self)
        return performed

    def facts(self, caller: Caller, limit: int | None = None, *, superseded: bool = False) -> tuple[Fact, ...]:
        """List the caller's facts, newest first."""
        performed = self._call("facts", (caller,), {"limit": limit, "superseded": superseded})
        facts = as_facts(performed.value or ())
        texts = tuple(fact.text for fact in facts)
        self._read("facts", caller, performed, texts, facts=facts, limit=limit, superseded=superseded)
        return facts

    def get(self, caller: Caller, record: str) -> Fact | None:
        """Read one record by its id."""
        performed = self._call("get", (caller, record))
        facts = as_facts([performed.value] if performed.value is not None else [])
        self._read("get", caller, performed, tuple(f.text for f in facts), facts=facts, record=record)
        return facts[0] if facts else None

    def search(self, caller: Caller, query: str) -> tuple[str, ...]:
        """Search the caller's facts by meaning."""
        performed = self._call("search", (caller, query))
        texts = tuple(performed.value or ())
        self._read("search", caller, performed, texts, query=query)
        return texts

    def messages(self, caller: Caller) -> tuple[Message, ...] | None:
        """The caller's stored conversation, or ``None`` where the system does not show it."""
        if "messages" not in self._stage.methods:
            return None
        performed = self._call("messages", (caller,))
        found = tuple(performed.value or ())
        self._read("messages", caller, performed, tuple(message.text for message in found), messages=found)
        return found

    def _call(self, method: str, args: Sequence[Any], options: Mapping[str, Any] | None = None) -> Performed:
        return answer_of(self.host.submit(method, args, options=options), _TURN_SECONDS)

    def _read(self, op: str, caller: Caller, performed: Performed, texts: tuple[str, ...], **fields: Any) -> None:
        self._stage.recorder.add(
            FactsRead, op=op, caller=caller, texts=texts, error=performed.error,
            refused=performed.outcome is Outcome.REFUSED, process=self.host.name, **fields,
        )  # fmt: skip

    def settle(self) -> None:
        """Wait until the system has no work in the background."""
        if "settle" in self._stage.methods:
            self._call("settle", ())


class TurnResult:
    """A finished turn, as a script may want to go on from it."""

    __slots__ = ("caller", "error", "outcome", "text", "token", "turn")

    def __init__(self, turn: str, caller: Caller, performed: Performed) -> None:
        self.turn = turn
        self.caller = caller
        self.outcome = performed.outcome
        self.text = performed.text
        self.token = performed.token
        self.error = performed.error


class Stage(Actor):
    """One script's world. Opening the system is lazy: the first verb does it, with the options given so far."""

    def __init__(
        self, factory: Factory, server: ModelServer, directory: Path, *, run: str, seed: int = 0, store_url: str = "",
        options: Mapping[str, Any] | None = None, factory_name: str = "", disposable: bool = True,
        upstream: Upstream | None = None, interpreters: Interpreters | None = None,
    ) -> None:  # fmt: skip
        self.recorder = Recorder()
        self._holds = Holds(self.recorder)
        self.callbacks = Callbacks(self.recorder, self._holds)
        self.model = ScriptedModel(self.recorder, self._holds, self.callbacks, upstream)
        self.factory = factory
        self.factory_name = factory_name
        self._disposable = disposable
        self.fresh = not store_url
        """Nothing is in the store but this script's own: ids that other scripts use too are nobody's yet."""
        self.directory = directory
        self.server = server
        self.model_url = server.register(self.model)
        self._store_url = store_url or f"sqlite:///{directory / 'memory.db'}"
        self._options = dict(options or {})
        self._random = random.Random(f"{run}/{seed}")  # noqa: S311  names, not secrets
        self._run = run
        self._numbers = itertools.count(1)
        self._host: LocalHost | None = None
        self._interpreters = interpreters or Interpreters()
        self._others: list[Host] = []
        self.methods: frozenset[str] = frozenset()

    # People and words

    def caller(self, **fields: Any) -> Caller:
        """A caller nobody else has; ``fields`` override what is drawn."""
        number = next(self._numbers)
        drawn = Caller(
            user=f"{self._word(5)}{number}@example.com", session=f"s-{self._word(6)}", agent=self.agent,
            project=str(self._options.get("project", "")),
        )  # fmt: skip
        return replace(drawn, **fields)

    def callers(self, count: int, **fields: Any) -> list[Caller]:
        """So many of them."""
        return [self.caller(**fields) for _ in range(count)]

    def named(self, name: str) -> Caller:
        """A caller with this id: as their user, or in a system that knows no users as their session."""
        identity = getattr(self.system, "identity", ("user",))
        return self.caller(**{"user" if "user" in identity else identity[0]: name})

    def anonymous(self, why: Unresolved = Unresolved.NONE) -> Caller:
        """A caller whose user cannot be told."""
        return self.caller(user="", unresolved=why)

    def canary(self) -> str:
        """A planted word, unlike any other of this or any other run."""
        word = f"zq{self._run}x{self._word(7)}"
        if not CANARY.fullmatch(word):
            raise ValueError(f"run {self._run!r} must be four letters a-z")
        return word

    def _word(self, length: int) -> str:
        return "".join(self._random.choices(string.ascii_lowercase, k=length))

    @property
    def agent(self) -> str:
        """The agent's id; no other script has it, since a store may be shared."""
        return f"agent-{self._run}-{self.model_url.rstrip('/').split('/')[-2]}"

    # The system

    @property
    def host(self) -> Host:  # type: ignore[override]
        """The process that runs the system: this one."""
        if self._host is None:
            self.open()
        assert self._host is not None  # noqa: S101  open() sets it
        return self._host

    @property
    def _stage(self) -> Stage:  # type: ignore[override]
        return self

    @property
    def system(self) -> Any:
        """The system itself; scripts have no need of it."""
        return self.host.system  # type: ignore[attr-defined]

    def open(self, **options: Any) -> None:
        """Open the system, closing it first where it is open; ``options`` are kept for every later opening."""
        self.close_system()
        self._options.update(options)
        system = open_system(self.factory, self.environment())
        self._host = LocalHost(system)
        self.methods = frozenset(name for name in dir(system) if callable(getattr(system, name, None)))
        self._adopt(system)

    def reopen(self, **options: Any) -> None:
        """Close the system and open it again on the same data."""
        self.open(**options)

    def _adopt(self, system: Any) -> None:
        self._claims = frozenset(system.capabilities)
        if hasattr(system, "memory_step"):
            self.model.encode = system.memory_step
        if hasattr(system, "purpose"):
            self.model.purpose = system.purpose
        self.recorder.add(
            Opened, system=type(system).__name__, agent=self.agent, capabilities=tuple(sorted(system.capabilities)),
            identity=tuple(getattr(system, "identity", ("user",))), declares=dict(getattr(system, "declares", {})),
            options=dict(self._options),
        )  # fmt: skip

    def environment(self, **changed: Any) -> Environment:
        """What the factory is given."""
        environment = Environment(
            model_url=self.model_url,
            model=self.model.in_process,
            embed=self.model.embed_in_process,
            tool=self.callbacks.tool,
            guard=self.callbacks.guard,
            after_run=self.callbacks.after_run,
            resolve=self.callbacks.resolve,
            clock=self.callbacks.clock,
            store_url=self._store_url,
            dir=self.directory,
            span_processor=SpanRecorder(self.recorder),
            agent=self.agent,
            options=MappingProxyType(dict(self._options)),
        )
        return replace(environment, **changed) if changed else environment

    @property
    def claims(self) -> frozenset[str]:
        """What the system claims."""
        if not self.methods:
            self.open()
        return self._claims

    def needs(self, *capabilities: str) -> None:
        """Stop here, not exercised, unless the system claims all of these (``a|b``: either)."""
        if missing := unmet(capabilities, self.claims):
            raise NotExercised(f"the system does not claim {', '.join(missing)}")

    @property
    def disposable(self) -> bool:
        """Whether the store may be damaged: it is the harness's own, or somebody said so."""
        return self._disposable or "disposable" in self.claims

    def endangers_the_store(self) -> None:
        """Stop here, not exercised, where the store is not the harness's own and nobody said that it may be damaged."""
        if not self.disposable:
            raise NotExercised("it could damage the store, which is not the suite's own (--destructive lets it)")

    def close_system(self) -> None:
        """Close the system, if it is open."""
        if self._host is not None:
            host, self._host = self._host, None
            host.close()
            self.recorder.add(Closed)

    # The script's hand on the world

    def hold(self, point: Point, running: Running | None = None) -> AbstractContextManager[Hold]:
        """The next callback at a point (of one turn, or any) waits until the hold is released or left."""
        return self._holds.hold(point, running.turn if running else "")

    def remembers(self, *keeps: Extract | Step | list[str]) -> None:
        """What the memory model keeps at its next calls, instead of all it is shown: facts, a function, or a step."""
        self.model.extract_next(*(_fixed(keep) if isinstance(keep, list) else keep for keep in keeps))

    def advance(self, seconds: float) -> None:
        """Move the clock, and tell the system."""
        self.callbacks.advance(seconds)
        if "advance" in self.methods:
            self._call("advance", (seconds,))

    def resolve_as(self, caller: Caller, *values: object) -> None:
        """What the resolver gives for a caller: each value once, the last one from then on."""
        self.callbacks.resolve_as(caller, *values)
        self.note("resolves as", {"user": caller.user, "values": [v for v in values if isinstance(v, str)]})

    def expect(self, rule: str, turn: TurnResult | Running, canary: str, *, times: str = "some", why: str = "") -> None:
        """Declare how often a turn's first answer prompt holds a canary: ``some``, ``none``, or a number of times."""
        self.recorder.add(Expected, rule=rule, canary=canary, turn=turn.turn, times=times, why=why)

    def expect_read(self, rule: str, canary: str, *, times: str = "some", why: str = "") -> None:
        """Declare how many texts of the latest read hold a canary; ``first``: the first text does."""
        self.recorder.add(Expected, rule=rule, canary=canary, times=times, why=why)

    def twins(self, rule: str, one: TurnResult, other: TurnResult) -> None:
        """Declare that a rule wants two turns to have sent the same prompts."""
        self.note("twins", {"rule": rule, "turns": [one.turn, other.turn]})

    def hands_over(self, text: str) -> Step:
        """The step in which the first agent's model hands over to the second, in so many words."""
        return Step(calls=(self.system.handoff_call(text),))

    def delegates(self, text: str) -> Step:
        """The step in which the supervisor's model delegates a task to the worker."""
        return Step(calls=(self.system.delegate_call(text),))

    def note(self, name: str, value: Any = None) -> None:
        """Record what no other event holds."""
        self.recorder.add(Noted, name=name, value=value)

    def name_of(self, path: Path) -> str:
        """A file or folder by its place in the script's directory."""
        return str(path.relative_to(self.directory)) if path.is_relative_to(self.directory) else str(path)

    def truncate(self, path: Path) -> None:
        """Cut a saved file short, or every file of a saved folder, as a full disk or a crash would have."""
        for file in sorted(path.rglob("*") if path.is_dir() else [path]):
            if file.is_file():
                file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        self.note("truncated", self.name_of(path))

    def scan(self, *canaries: str) -> dict[str, tuple[str, ...]]:
        """Search the files of the script's directory for planted words."""
        contents = {name: data.lower() for name, data in sorted(_read_elsewhere(self.directory))}
        found = {
            canary: tuple(name for name, data in contents.items() if canary.encode() in data) for canary in canaries
        }
        self.recorder.add(Scanned, found=found)
        return found

    def restart(self) -> OtherProcess:
        """Close the system here, and go on in a fresh process; here it is opened again with the next verb."""
        if not self.methods:
            self.open()
        self.close_system()
        return self.process()

    def process(self) -> OtherProcess:
        """A second operating-system process that runs the same system on the same data."""
        from memtrace.harness.processes import spawn

        other = spawn(self, self._interpreters)
        self._others.append(other.host)
        return other

    # Used by the verbs

    def plan_turn(
        self, says: Sequence[str | Step], tool_returns: Sequence[str], blocks: str, fails: Point | None
    ) -> str:
        """Name a turn and set up what the model and the callbacks do in it."""
        if not self.methods:
            self.open()
        turn = f"t{next(self._numbers)}-{self._run}"
        self.model.script(turn, says)
        self.callbacks.tool_returns(turn, tool_returns)
        self.model.heard(*tool_returns)
        if blocks:
            self.callbacks.block(turn, blocks)
        if fails:
            self.callbacks.fail(turn, fails)
        return turn

    def finished(self, running: Running) -> TurnResult:
        """Wait for a turn, let the system settle, and give the script what it may go on from."""
        performed = running.result()
        self.settle_if_idle(running._actor)  # noqa: SLF001  one mechanism
        return TurnResult(running.turn, running._caller, performed)  # noqa: SLF001

    def settle_if_idle(self, actor: Actor) -> None:
        """Let background work end, unless something is held."""
        if not self._holds.any():
            actor.settle()

    # The end

    def close(self) -> None:
        """Let everything go: holds, processes, the system, the model's address."""
        self._holds.release_all()
        try:
            for host in self._others:
                host.close()
            self.close_system()
        finally:
            self.server.unregister(self.model_url)

    def history(self) -> History:
        """All that happened."""
        return self.recorder.history()

    def judge(self, rules: Sequence[str] = ()) -> list[Finding]:
        """What each rule makes of this script."""
        return judge(self.history(), rules)


def _read_elsewhere(directory: Path) -> Iterator[tuple[str, bytes]]:
    """The files of a directory, by name, as another process read them.

    Closing a database's file in this process would drop SQLite's locks on it.
    """
    with tempfile.TemporaryDirectory(prefix="memtrace-") as copy:
        subprocess.run(["cp", "-R", f"{directory}/.", copy], capture_output=True, check=False)  # noqa: S603, S607
        for path in Path(copy).rglob("*"):
            if path.is_file():
                yield str(path.relative_to(copy)), path.read_bytes()


def _fixed(facts: list[str]) -> Callable[[ModelRequest, list[str]], list[str]]:
    return lambda _request, _shown: facts


__all__ = ["OK", "OK_OR_REFUSED", "Actor", "NotExercised", "Running", "Stage", "TurnResult"]
