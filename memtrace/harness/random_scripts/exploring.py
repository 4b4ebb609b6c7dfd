"""Playing many random scripts, and finding the smallest that breaks a rule."""

from __future__ import annotations

import shlex
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from random import Random
from textwrap import indent
from typing import Final

from hypothesis import HealthCheck, Phase, find, settings
from hypothesis.errors import NoSuchExample

from memtrace.harness.random_scripts.drawing import scripts
from memtrace.harness.random_scripts.lines import RandomScript, encode
from memtrace.harness.random_scripts.playing import Player
from memtrace.harness.random_scripts.shrinking import smallest
from memtrace.harness.record.history import History
from memtrace.harness.session import Script, Suite
from memtrace.harness.verdicts.ledger import Entry
from memtrace.model import Evidence, Verdict

_TRIES: Final = 50
"""How many scripts are played in search of a smaller one, for each rule that was broken."""
_ONE: Final = settings(
    max_examples=2,  # the simplest script of all, and then the one that is wanted; a third would be like the second
    phases=[Phase.generate],
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
_TELLING: Final = (Verdict.VIOLATED, Verdict.INCONCLUSIVE)


@dataclass(frozen=True, slots=True)
class Found:
    """What one random script showed.

    Attributes:
        script, name: the script, and what it is called.
        entries: what it says of each invariant that bears on it.
        code: what was called, as lines of Python.
        again: the command that plays it again.
        astray: which turn ended as it cannot, or why the script broke off; or ``""``.
    """

    script: RandomScript
    name: str
    entries: tuple[Entry, ...]
    code: str
    again: str
    astray: str = ""

    def complaints(self) -> list[str]:
        """What is wrong, in a few words: the entries say more, except of what went astray."""
        complaints = [f"{self.name} breaks {rule}" for rule in self.broken()]
        if self.astray:
            script = indent(self.code, "    ")
            complaints.append(f"{self.name} went astray: {self.astray}\n  the script:\n{script}\n  again: {self.again}")
        return complaints

    def breaks(self, rule: str) -> bool:
        """Whether it breaks a rule."""
        return rule in self.broken()

    def broken(self) -> list[str]:
        """The rules that it breaks."""
        return [entry.finding.rule for entry in self.entries if entry.finding.verdict is Verdict.VIOLATED]


@dataclass(slots=True)
class Explorer:
    """Plays random scripts on the system of a suite, each script once.

    Attributes:
        module: the test module that plays a script again.
        full: show whole prompts.
        keep: is given the history of each script that has a name.
    """

    suite: Suite
    module: str
    full: bool = False
    keep: Callable[[History, str], None] | None = None
    _played: dict[RandomScript, Found] = field(default_factory=dict)
    _told: set[str] = field(default_factory=set)

    def explore(self, count: int, *, seed: int, first: int = 1) -> list[Found]:
        """Play the random scripts of so many numbers, from ``first`` on; a number's is the same for the same seed.

        In the first of all that breaks a rule, what is said of the rule is of the smallest script found to break it.
        """
        found: dict[int, Found] = {}
        for number in range(first, first + count):
            if not self.suite.hanging:
                found[number] = self.play(self.draw(number, seed), f"random script {number}")
        for rule in dict.fromkeys(chain.from_iterable(one.broken() for one in found.values())):
            if rule not in self._told and not self.suite.hanging:
                number = next(number for number, one in found.items() if one.breaks(rule))
                found[number] = _told_by(found[number], self._smallest(rule, found[number]), rule)
                self._told.add(rule)
        return list(found.values())

    def draw(self, number: int, seed: int) -> RandomScript:
        """The random script of a number."""
        drawn: list[RandomScript] = []

        def refuse(script: RandomScript) -> bool:
            drawn.append(script)
            return False

        with suppress(NoSuchExample):
            find(scripts(self.suite.claims), refuse, settings=_ONE, random=Random(f"{seed}/{number}"))  # noqa: S311  no secrets
        return drawn[-1]

    def _smallest(self, rule: str, first: Found) -> Found:
        def breaks(script: RandomScript) -> bool:
            return self.play(script).breaks(rule)

        return self.play(smallest(first.script, breaks, tries=_TRIES))

    def play(self, script: RandomScript, name: str = "") -> Found:
        """Play one script and judge it."""
        if script not in self._played:
            self._played[script] = self._play(script, name)
        return self._played[script]

    def _play(self, script: RandomScript, name: str) -> Found:
        again = f"pytest --pyargs {self.module} --memory {shlex.quote(self.suite.memory)} --script {encode(script)}"
        again = shlex.join([*shlex.split(again), *self.suite.store_words()])
        entries: list[Entry] = []
        with self.suite.stage(name or again) as stage:
            player = Player(stage, script)
            try:
                entries = self.suite.play(
                    stage, Script((), name or "a random script", again), player.play, full=self.full
                )
                astray = _astray(stage.history())
            except Exception as error:  # noqa: BLE001  whatever a script runs into, the others are played
                astray = "it broke off\n" + indent("".join(traceback.format_exception(error)[-4:]).rstrip(), "    ")
        if self.keep is not None and name:
            self.keep(stage.history(), name)
        code = "\n".join(player.transcript.lines)
        return Found(script, name, tuple(_explained(entries, Evidence("the script", code))), code, again, astray)


def _explained(entries: Iterable[Entry], lines: Evidence) -> Iterable[Entry]:
    """Entries that show the script where they say something against the system."""
    for entry in entries:
        finding = entry.finding
        telling = replace(finding, evidence=(*finding.evidence, lines)) if finding.verdict in _TELLING else finding
        yield replace(entry, finding=telling)


def _told_by(one: Found, smaller: Found, rule: str) -> Found:
    """The same, but for what is said of one rule."""
    told = next(entry for entry in smaller.entries if entry.finding.rule == rule)
    entries = [entry for entry in one.entries if entry.finding.rule != rule]
    return replace(one, entries=(*entries, replace(told, test=one.name)))


def _astray(history: History) -> str:
    if not history.surprises:
        return ""
    turn = history.surprises[0]
    how = turn.outcome.value if turn.outcome else "open"
    error = f": {turn.error}" if turn.error else ""
    return f"turn {turn} ended {how}, which is not {' or '.join(turn.expected)}{error}"
