"""Offline learning: facts mined from past turns, out of users' words only.

Who may read what is learned decides how strict it is:

- At *agent* scope, the default, a fact reaches everyone who uses the agent. So a statement is kept there only once
  `LEAST_USERS` different users have made it in the same words, each in a turn of their own: what fewer said is theirs,
  and stays with them. When some of them forget it, or are forgotten, and fewer are left, the fact goes as well. This
  is a count, not a judgement: what that many people know in the same words (the code of a door they share) is not
  personal to one of them, but may still be private. Read such facts before others do, with ``dry_run=True``.
- At *user* and *project* scope it is personal data that is filed, and must be asked for: ``personal=True``. At user
  scope only that user's own turns are read.

Each turn is mined once for each scope. Learned facts are marked, and capped, like those learned online.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from memtrace.errors import UsageError
from memtrace.model import Author, Level, Scope
from memtrace.reference.learning import LEARNED, Extractor, Learned, Writer
from memtrace.reference.report import report
from memtrace.reference.turnlog import PastTurn, Statement, TurnLog, statement
from memtrace.stores.contract import FactStore
from memtrace.tracing import Tracing, WriteSpan

_LEVELS: Final = {"agent": Level.AGENT, "user": Level.USER, "project": Level.PROJECT}
LEAST_USERS: Final = 3
"""Different users who must have made a statement before everyone may read it."""


@dataclass(frozen=True, slots=True)
class Mined:
    """What a run of offline learning did: turns read, turns whose extraction failed, and the facts."""

    turns: int = 0
    failed: int = 0
    facts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """What to mine: whose turns, for which scope, and how many at most."""

    scope: Scope
    agent: str
    user: str | None = None
    since: float = 0.0
    max_traces: int = 100
    dry_run: bool = False


def task(
    scope: str,
    scope_id: str,
    *,
    project: str,
    agent: str,
    personal: bool,
    since: float,
    max_traces: int,
    dry_run: bool,
) -> Task:
    """The task that the options of offline learning describe.

    Raises:
        UsageError: the options do not say whose facts to learn, or ask for personal data without saying so.
    """
    if scope not in _LEVELS:
        raise UsageError(f"scope={scope!r}: give one of {', '.join(_LEVELS)}")
    if scope != "agent" and not personal:
        raise UsageError(f"scope={scope!r} files what people say about themselves: ask for it with personal=True")
    if not agent:
        raise UsageError("offline learning needs agent=, the agent whose turns are mined")
    named = scope_id or {"agent": agent, "user": "", "project": project}[scope]
    if not named or (scope == "agent" and named != agent):
        raise UsageError(f"scope={scope!r} with scope_id={scope_id!r}: name whose facts they become")
    if max_traces < 0:
        raise UsageError(f"max_traces={max_traces}: give a number of turns")
    user = named if scope == "user" else None
    return Task(Scope(_LEVELS[scope], named, project), agent, user, since, max_traces, dry_run)


def withdraw(log: TurnLog, store: FactStore, user: Scope, text: str | None = None) -> None:
    """A user forgets one text, or with ``None`` all: their turns go, and what too few others still say."""
    project = user.project
    lost = log.withdraw(project, user.id, text)
    unsupported = {(made.agent, made.digest) for made, supporters in lost if supporters < LEAST_USERS}
    for agent in {agent for agent, _ in unsupported}:
        scope = Scope(Level.AGENT, agent, project)
        for record in store.newest(scope, None, source=LEARNED) if agent else ():
            if (agent, statement(project, agent, record.text).digest) in unsupported:
                store.delete(scope, record.id)


class OfflineLearning:
    """Mines a log of turns into a store."""

    def __init__(
        self, log: TurnLog, extractor: Extractor, learned: Learned, tracing: Tracing, *, outgoing: Callable[[str], str]
    ) -> None:
        self._log = log
        self._extractor = extractor
        self._learned = learned
        self._tracing = tracing
        self._outgoing = outgoing

    def run(self, task: Task) -> Mined:
        """Mine the turns of a task, oldest first; a turn whose extraction fails is left for another run."""
        agreement = _Agreement(self._log, task)
        turns = self._log.unmined(task.scope, agent=task.agent, user=task.user, since=task.since, limit=task.max_traces)
        with self._tracing.write(scope=task.scope) as span:
            mined = [
                self._attempt(span, turn, task, agreement)
                for turn in turns
                if task.dry_run or self._log.claim(turn, task.scope)
            ]
        facts = tuple(fact for found in mined if found is not None for fact in found)
        return Mined(len(mined), mined.count(None), facts)

    def _attempt(self, span: WriteSpan, turn: PastTurn, task: Task, agreement: _Agreement) -> list[str] | None:
        with span.block("facts", type="learning", scope=task.scope) as block:
            try:
                facts = self._mine(turn, task, agreement)
            except Exception as error:  # noqa: BLE001  a model or a store may raise anything; the other turns go on
                self._log.release(turn, task.scope)
                report(block, "offline learning", error)
                return None
            block.stored(0 if task.dry_run else len(facts), action="extracted_facts", author=Author.USER)
            return facts

    def _mine(self, turn: PastTurn, task: Task, agreement: _Agreement) -> list[str]:
        facts = self._extractor.facts(self._outgoing(turn.text))
        if task.scope.level is Level.AGENT:
            facts = agreement.after(turn, facts)
        if task.dry_run:
            return facts
        added = self._learned.keep(
            facts,
            task.scope,
            Writer(turn.trace_id, turn.span_id),
            withdrawn=lambda: not self._log.holds(turn) or not agreement.stands(facts),
        )
        return [record.text for record in added]


class _Agreement:
    """Which statements enough users have made; a dry run counts them without noting them."""

    def __init__(self, log: TurnLog, task: Task) -> None:
        self._log = log
        self._task = task
        self._supposed: dict[Statement, set[str]] = {}

    def after(self, turn: PastTurn, facts: list[str]) -> list[str]:
        """Those of a turn's statements that enough users have made, it included."""
        made = [self._statement(fact) for fact in facts]
        if self._task.dry_run:
            for each in made:
                self._supposed.setdefault(each, set()).add(turn.user)
        else:
            self._log.support(turn, made)
        return [fact for fact in facts if self.stands([fact])]

    def stands(self, facts: list[str]) -> bool:
        """Whether enough users still make each of these statements; only at agent scope it is asked for."""
        if self._task.scope.level is not Level.AGENT:
            return True
        return all(len(self._users(self._statement(fact))) >= LEAST_USERS for fact in facts)

    def _users(self, made: Statement) -> set[str]:
        return self._log.supporters(made) | self._supposed.get(made, set())

    def _statement(self, fact: str) -> Statement:
        return statement(self._task.scope.project, self._task.agent, fact)
