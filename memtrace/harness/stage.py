"""What a script holds: callers, planted words, turns, holds, processes; and in the end the judgement.

A script drives and never judges. Everything it does through the stage becomes an event of one history.
"""

from __future__ import annotations

import itertools
import os
import random
import string
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from memtrace.harness.actor import OK, OK_OR_REFUSED, Actor, Running, TurnResult
from memtrace.harness.files import read_elsewhere, truncate
from memtrace.harness.record.events import Closed, Expected, Noted, Opened, Scanned
from memtrace.harness.record.history import CANARY, History
from memtrace.harness.record.recorder import Recorder, SpanRecorder
from memtrace.harness.rules import unmet
from memtrace.harness.running.callbacks import Callbacks
from memtrace.harness.running.holds import Hold, Holds, Point
from memtrace.harness.running.host import Host, LocalHost, open_system
from memtrace.harness.running.interpreters import Interpreters
from memtrace.harness.scripted_model.openai_api import Step
from memtrace.harness.scripted_model.scripting import Extract, ScriptedModel
from memtrace.harness.scripted_model.server import ModelServer
from memtrace.harness.scripted_model.upstream import Upstream
from memtrace.harness.seen.lookalikes import number_of
from memtrace.harness.services.server import NotHere
from memtrace.harness.system import SQLITE_URL, Environment, Factory, ModelRequest
from memtrace.harness.verdicts.judging import judge
from memtrace.model import Caller, Finding, Unresolved

if TYPE_CHECKING:
    from memtrace.harness.plane.scripted import ScriptedPlane
    from memtrace.harness.processes import OtherProcess

PAYLOADS: Final = "MEMTRACE_TRACE_PAYLOADS"
PLANE: Final = "plane"
"""The option with which a script gets a plane; `memtrace.harness.rules.rule` sets it. The system is not told."""


class NotExercised(Exception):
    """The script cannot be played on this system; the message says why."""


class Stage(Actor):
    """One script's world. Opening the system is lazy: the first verb does it, with the options given so far."""

    def __init__(
        self, factory: Factory, server: ModelServer, directory: Path, *, run: str, seed: int = 0, store_url: str = "",
        fresh: bool = True,
        options: Mapping[str, Any] | None = None, factory_name: str = "", disposable: bool = True,
        timed: bool = False, upstream: Upstream | None = None, interpreters: Interpreters | None = None,
    ) -> None:  # fmt: skip
        self.recorder = Recorder()
        self._holds = Holds(self.recorder)
        self.callbacks = Callbacks(self.recorder, self._holds)
        self.model = ScriptedModel(self.recorder, self._holds, self.callbacks, upstream)
        self.factory = factory
        self.factory_name = factory_name
        self._disposable = disposable
        self.fresh = fresh
        """Nothing is in the store but this script's own: ids that other scripts use too are nobody's yet."""
        self.timed = timed
        """Reads may be timed: what else runs on the machine would be measured too."""
        self.directory = directory
        self.server = server
        self.model_url = server.register(self.model)
        self._words = {self._agent_of(run)}
        self._store_url = store_url or f"{SQLITE_URL}{directory / 'memory.db'}"
        self._options = dict(options or {})
        self._random = random.Random(f"{run}/{seed}")  # noqa: S311  names, not secrets
        self._run = run
        self._numbers = itertools.count(1)
        self._host: LocalHost | None = None
        self._interpreters = interpreters or Interpreters()
        self._others: list[Host] = []
        self.forgotten = False
        """What was written to a store of the adopter's was removed again, as far as it could be."""
        self._wants_plane = bool(self._options.pop(PLANE, False))
        self._plane: ScriptedPlane | None = None
        self.methods: frozenset[str] = frozenset()

    # People and words

    def caller(self, **fields: Any) -> Caller:
        """A caller nobody else has; ``fields`` override what is drawn."""
        number = next(self._numbers)
        drawn = Caller(
            user=f"{self._word(5)}{number}@example.com", session=f"s-{self._word(6)}", agent=self.agent,
            project=str(self._options.get("project", "")),
        )  # fmt: skip
        self._words.add(number_of(drawn.user.partition("@")[0]))  # some scripts make an id of it
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
        word = "".join(self._random.choices(string.ascii_lowercase, k=length))
        self._words.add(word)
        return word

    def drew(self, name: str) -> bool:
        """Whether a name has a word in it that this script has drawn, in any case: nobody else is called so."""
        return any(word in name.lower() for word in self._words)

    @property
    def agent(self) -> str:
        """The agent's id; no other script has it, since a store may be shared."""
        return f"{self._agent_of(self._run)}{self.model_url.rstrip('/').split('/')[-2]}"

    @staticmethod
    def _agent_of(run: str) -> str:
        return f"agent-{run}-"

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

    def reopen_at(self, store_url: str) -> None:
        """The store is there from now on: the system is closed, and the next verb opens it there."""
        self.close_system()
        self._store_url = store_url

    def _adopt(self, system: Any) -> None:
        self._claims = frozenset(system.capabilities)
        if hasattr(system, "memory_step"):
            self.model.encode = system.memory_step
        if hasattr(system, "purpose"):
            self.model.purpose = system.purpose
        self.recorder.add(
            Opened, system=type(system).__name__, agent=self.agent, capabilities=tuple(sorted(system.capabilities)),
            identity=tuple(getattr(system, "identity", ("user",))), declares=dict(getattr(system, "declares", {})),
            options=dict(self._options), payloads=os.environ.get(PAYLOADS) == "1",
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
            plane_url=self.plane.url if self._wants_plane else "",
            plane_key=self.plane.key if self._wants_plane else "",
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

    def require_timed(self) -> None:
        """Stop here, not exercised, unless it was asked for what is timed."""
        if not self.timed:
            raise NotExercised("it times reads, which is done only with --timed, and by proof 5")

    def close_system(self) -> None:
        """Close the system, if it is open."""
        if self._host is not None:
            host, self._host = self._host, None
            host.close()
            self.recorder.add(Closed)

    @property
    def plane(self) -> ScriptedPlane:
        """The plane of curated facts, of a script whose rules need one; not exercised where none can be served."""
        if self._plane is None:
            from memtrace.harness.plane.scripted import make_plane

            try:
                self._plane = make_plane(self.recorder, self.callbacks.clock)
            except NotHere as missing:
                raise NotExercised(f"no plane can be served here: {missing}") from missing
        return self._plane

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
        truncate(path)
        self.note("truncated", self.name_of(path))

    def scan(self, *canaries: str) -> dict[str, tuple[str, ...]]:
        """Search the files of the script's directory for planted words."""
        contents = {name: data.lower() for name, data in sorted(read_elsewhere(self.directory))}
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
        """End the script: its holds, its processes, the system."""
        self._holds.release_all()
        for host in self._others:
            host.close()
        self.close_system()

    def end(self) -> None:
        """Let go of the plane and the model's address: nothing runs any more."""
        if self._plane is not None:
            self._plane.close()
        self.server.unregister(self.model_url)

    def history(self) -> History:
        """All that happened."""
        return self.recorder.history()

    def judge(self, rules: Sequence[str] = ()) -> list[Finding]:
        """What each rule makes of this script."""
        return judge(self.history(), rules)


def _fixed(facts: list[str]) -> Callable[[ModelRequest, list[str]], list[str]]:
    return lambda _request, _shown: facts


__all__ = ["OK", "OK_OR_REFUSED", "Actor", "NotExercised", "Running", "Stage", "TurnResult"]
