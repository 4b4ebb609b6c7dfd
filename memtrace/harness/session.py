"""One run of the suite: the system, the scripted model's server, and a stage for each script."""

from __future__ import annotations

import contextvars
import os
import secrets
import shlex
import string
import tempfile
import traceback
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from memtrace.adapters import KNOWN
from memtrace.errors import AdapterError, UsageError
from memtrace.harness.record.events import FactWritten
from memtrace.harness.record.excerpts import FULL_EVIDENCE
from memtrace.harness.record.history import History
from memtrace.harness.record.listening import listening
from memtrace.harness.rules import find_rule, unmet
from memtrace.harness.running.host import NeverEnded
from memtrace.harness.running.interpreters import Interpreters
from memtrace.harness.running.store_system import NOTE, StoreSystem
from memtrace.harness.running.tested_store import ELSEWHERE, OWN, SQLITE, TestedStore
from memtrace.harness.scenes.forgetting import forget_all
from memtrace.harness.scripted_model.server import ModelServer
from memtrace.harness.scripted_model.upstream import Upstream
from memtrace.harness.stage import PLANE, NotExercised, Stage, TurnResult
from memtrace.harness.system import Factory, in_one_line, load_factory
from memtrace.harness.verdicts.judging import excuse, judge
from memtrace.harness.verdicts.ledger import Entry
from memtrace.harness.verdicts.left import Left
from memtrace.identity import id_key
from memtrace.model import Evidence, Finding, Outcome, Verdict

NO_MEMORY: Final = """no memory was named. Name one, in one of these ways:
  --memory reference                      memtrace's own reference memory
  --memory your_package.your_module:make  a factory of yours (memtrace init writes a first one)
  memtrace_memory = your_package.your_module:make   in the pytest section of your ini file"""
_FACT: Final = "The shop closes at six."


@dataclass(frozen=True, slots=True)
class Script:
    """A boundary test: its rules, what it needs beyond theirs, its name, and the command that plays it again."""

    rules: tuple[str, ...]
    test: str
    rerun: str = ""
    needs: tuple[str, ...] = ()


@dataclass(slots=True)
class Suite:
    """What all scripts of a session share. Use as a context manager.

    ``hanging``: some call of the system's has never ended.
    ``elsewhere``: what the report says of a store that was named and that the system leaves empty.
    """

    memory: str
    factory: Factory
    run: str
    store: TestedStore = field(default_factory=TestedStore)
    destructive: bool = False
    timed: bool = False
    known: Mapping[str, str] = field(default_factory=dict)
    stores: str = ""
    allowed: dict[str, str] = field(default_factory=dict)
    upstream: Upstream | None = None
    claims: frozenset[str] = frozenset()
    version: str = ""
    note: str = ""
    hanging: bool = False
    elsewhere: str = ""
    _left: list[Left] = field(default_factory=list)
    _server: ModelServer = field(default_factory=ModelServer)
    _interpreters: Interpreters = field(default_factory=Interpreters)
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        self._stack.enter_context(self.store)
        self._stack.enter_context(self._server)
        self._stack.enter_context(self._interpreters)
        self._stack.enter_context(_id_key())
        return self

    def __exit__(self, *_error: object) -> None:
        self._stack.close()

    @contextmanager
    def stage(self, name: str, options: Mapping[str, Any] | None = None) -> Iterator[Stage]:
        """A stage for one script, in a directory that is gone afterwards."""
        options = dict(options or {})
        if self.claims and "plane" not in self.claims:
            options.pop(PLANE, None)  # nobody would ask it
        with (
            tempfile.TemporaryDirectory(prefix="memtrace-", ignore_cleanup_errors=True) as directory,
            self.store.place(Path(directory)) as store_url,
        ):
            stage = Stage(
                self.factory, self._server, Path(directory), run=self.run, seed=zlib.crc32(name.encode()),
                store_url=store_url, fresh=self.store.fresh, options=options,
                factory_name=KNOWN.get(self.memory, self.memory),
                disposable=self.destructive or self.store.fresh, timed=self.timed, upstream=self.upstream,
                interpreters=self._interpreters,
            )  # fmt: skip
            try:
                yield stage
            except BaseException:  # whatever ends the script, its stage is closed
                with suppress(AdapterError):  # what went wrong first is what is told
                    stage.close()
                raise
            else:
                stage.close()
            finally:
                try:
                    self._forget(stage)
                finally:
                    stage.end()

    def probe(self) -> frozenset[str]:
        """Open the system once and run one turn, before any rule is judged; what it claims.

        Raises:
            AdapterError: the factory raised, the claims do not fit, or the model was never called; one line.
        """
        with self._store_named(), self.stage("probe") as stage:
            self.allowed = dict(getattr(stage.system, "allowed", {}))
            self.version = str(getattr(stage.system, "version", ""))
            self.note = NOTE if isinstance(stage.system, StoreSystem) else ""
            for rule in [*self.allowed, *self.known]:
                find_rule(rule)
            self.claims = claims = stage.claims
            if "turns" not in claims:
                return claims
            turn = stage.turn(stage.caller(), "Hello.")
            _demand_contract(turn)
            if not stage.history().answers():
                how = f" (it ended {turn.outcome.value}: {turn.error})" if turn.error else ""
                raise AdapterError(
                    f"memory {self.memory!r}: a turn called no model for its answer{how}; "
                    "wire env.model_url, or env.model, into the agent"
                )
            if "stream" in claims:
                _demand_contract(stage.stream(stage.caller(), "Hello."))
            return claims

    def open(self) -> None:
        """Open the system once, where nothing else is wanted of it yet.

        Raises:
            AdapterError: it cannot be opened; one line.
        """
        with self._store_named(), self.stage("opened") as stage:
            stage.open()

    @contextmanager
    def _store_named(self) -> Iterator[None]:
        """What is wrong on a store that was named by its URL names it, without its password."""
        try:
            yield
        except AdapterError as error:
            if not self.store.url:
                raise
            line, word = str(error).replace(self.store.url, self.store.word), self.store.word
            raise AdapterError(line if word in line else f"--store {word}: {line}") from error

    def find_home(self, *, first: bool) -> None:
        """Find out whether a store that was named is where the system keeps its facts; if not, no verdict is of it.

        Where that is the ``first`` of the stores it is judged all the same, as on its own.
        """
        if not self.store.name or not self.leaves_store_empty():
            return
        if not first:
            self.store.missing = ELSEWHERE
        self.elsewhere = f"{self.store.name}: {ELSEWHERE}: {'judged on its own' if first else 'not exercised'}"

    def leaves_store_empty(self) -> bool:
        """Whether a fresh store is empty still when the system was told something; no, where that is not known."""
        if not self.store.fresh:
            return False
        with self.stage("a fact is kept") as stage:
            if "facts" in stage.claims:
                stage.add(stage.caller(), _FACT)
                went = not any(written.error for written in stage.history().of(FactWritten))
            else:
                went = stage.turn(stage.caller(), _FACT).outcome is Outcome.OK
            stage.close_system()
            return went and not self.store.holds(stage.environment().store_url)

    def _forget(self, stage: Stage) -> None:
        """Remove what a script that is over wrote to a store of the adopter's; once."""
        if not self.store.fresh and not stage.forgotten:
            stage.forgotten = True
            self._left += forget_all(stage)

    def take_left(self) -> list[Left]:
        """What could not be removed from a store of the adopter's since this was asked last."""
        left, self._left = self._left, []
        return left

    def play(self, stage: Stage, script: Script, run: Callable[[], object], *, full: bool = False) -> list[Entry]:
        """Play one script and judge its history: what it says of each rule it bears on, its own rules first."""
        with listening(stage.recorder):
            unplayed, crash = self._played(stage, script, run)
        self._forget(stage)
        self.hanging = self.hanging or isinstance(crash, NeverEnded)
        if crash is not None and not script.rules:
            raise crash
        return contextvars.copy_context().run(self._entries, stage.history(), script, unplayed, crash, full)

    def _played(self, stage: Stage, script: Script, run: Callable[[], object]) -> tuple[str, Exception | None]:
        """Run a script to its end; why it was not played, and what broke it off."""
        unplayed, crash = "", None
        try:
            missing = unmet([*script.needs, *(n for rule in script.rules for n in find_rule(rule).needs)], stage.claims)
            if missing:
                unplayed = f"the system does not claim {', '.join(dict.fromkeys(missing))}"
            else:
                run()
        except NotExercised as reason:
            unplayed = str(reason)
        except Exception as error:  # noqa: BLE001  a script that breaks off has decided nothing, whatever broke it
            crash = error
        try:
            stage.close()
        except AdapterError as error:
            unplayed, crash = "", crash or error
        return unplayed, crash

    def _entries(
        self,
        history: History,
        script: Script,
        unplayed: str,
        crash: Exception | None,
        full: bool,
    ) -> list[Entry]:
        FULL_EVIDENCE.set(full)
        found = {finding.rule: finding for finding in judge(history, script.rules)}
        for rule in script.rules:
            finding = found.get(rule, Finding(rule, Verdict.NOT_EXERCISED, "no check bears on this script"))
            if unplayed:
                finding = Finding(rule, Verdict.NOT_EXERCISED, unplayed)
            elif crash is not None and finding.verdict is not Verdict.VIOLATED:
                why = f"the script broke off: {in_one_line(crash)}"
                finding = Finding(rule, Verdict.INCONCLUSIVE, why, _trace(crash))
            found[rule] = finding
        digest, store = history.digest(), self._store_of(history)
        bearing = [f for f in found.values() if f.rule in script.rules or f.verdict is not Verdict.NOT_EXERCISED]
        order = sorted(bearing, key=lambda finding: finding.rule not in script.rules)
        excuses = {**self.known, **self.allowed}
        return [
            Entry(
                excuse(finding, self.allowed, self.known),
                test=script.test,
                rerun=script.rerun,
                store=store,
                own=finding.rule in script.rules,
                excuse=excuses.get(finding.rule, ""),
                history_sha256=digest,
            )
            for finding in order
        ]

    def rerun(self, module: str, test: str) -> str:
        """The command that plays one script again, without the password of the store's URL."""
        words = ["pytest", "--pyargs", f"{module}::{test}", "--memory", self.memory]
        return shlex.join([*words, *self.store_words()])

    def store_words(self) -> list[str]:
        """The words of a command line that name the session's stores, without passwords, and say what may be done."""
        words = ["--store", self.stores] if self.stores else []
        words += ["--timed"] if self.timed else []
        return [*words, "--destructive"] if self.destructive else words

    def _store_of(self, history: History) -> str:
        """The store a script ran on, as the ledger names it."""
        return OWN if self.elsewhere else self.store.name or (SQLITE if history.opened else "")

    def unplayed(self, script: Script) -> list[Entry]:
        """What a script that its store's absence left unplayed says of its own rules."""
        findings = (Finding(rule, Verdict.NOT_EXERCISED, self.store.missing) for rule in script.rules)
        return [Entry(f, test=script.test, rerun=script.rerun, store=self.store.name) for f in findings]


def make_suite(
    memory: str, *, store: TestedStore | None = None, stores: str = "", destructive: bool = False,
    timed: bool = False, known: Mapping[str, str] | None = None, upstream: Upstream | None = None,
    interpreters: Interpreters | None = None,
) -> Suite:  # fmt: skip
    """A suite for a system by its name or path; `UsageError` where there is none.

    ``store`` is what its scripts run on; ``stores`` all that the session's do, as a command line names them.
    ``interpreters`` may serve several suites, the first of which to end closes them.
    """
    if not memory:
        raise UsageError(NO_MEMORY)
    run = "".join(secrets.choice(string.ascii_lowercase) for _ in range(4))
    factory, on = load_factory(memory, KNOWN), store or TestedStore()
    return Suite(
        memory, factory, run, on, destructive=destructive, timed=timed, known=known or {}, stores=stores or on.word,
        upstream=upstream, _interpreters=interpreters or Interpreters(),
    )  # fmt: skip


@contextmanager
def _id_key() -> Iterator[None]:
    """A key of this session's for the ids on spans, here and in second processes, where the environment gives none."""
    if {"MEMTRACE_ID_KEY", "MEMTRACE_ID_KEY_FILE"} & os.environ.keys():
        yield
        return
    os.environ["MEMTRACE_ID_KEY"] = secrets.token_hex(32)
    id_key.cache_clear()
    try:
        yield
    finally:
        del os.environ["MEMTRACE_ID_KEY"]
        id_key.cache_clear()


def _demand_contract(turn: TurnResult) -> None:
    """What an adapter returned that is no reply would else count as turns that failed, and be judged as such."""
    if turn.error.startswith(f"{AdapterError.__name__}: "):
        raise AdapterError(turn.error.partition(": ")[2])


def _trace(error: Exception) -> tuple[Evidence, ...]:
    return (Evidence("traceback", "".join(traceback.format_exception(error)[-4:])),)
