"""What a proof consists of, and how one is run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from memtrace.harness.record.history import History
from memtrace.harness.session import Script, Suite, make_suite
from memtrace.harness.stage import Stage
from memtrace.harness.verdicts.judging import judge
from memtrace.harness.verdicts.left import Left
from memtrace.model import Finding, Verdict

Show = Callable[[History], list[str]]
WORST_FIRST: Final = (Verdict.VIOLATED, Verdict.INCONCLUSIVE, Verdict.KNOWN, Verdict.ALLOWED, Verdict.HELD)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Act:
    """One script of a proof.

    Attributes:
        title: what it shows, in a few words.
        rules: the rules it is judged by.
        script: what happens.
        show: lines of evidence, taken from what was recorded.
        against: a memory that breaks the claim, as ``--memory`` takes it.
        needs: what the script wants of a system beyond its rules' own needs.
        options: what the system is asked for.
        heading: column headings, for a proof that prints one line per store.
    """

    title: str
    rules: tuple[str, ...]
    script: Callable[[Stage], None]
    show: Show
    against: str
    needs: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    heading: str = ""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Proof:
    """A claim about one boundary: what is claimed, how it is tested, and the acts that test it.

    ``stores``: what it is run on, one after the other; one without any on whatever store there is.
    """

    number: int
    boundary: str
    claim: str
    method: str
    acts: tuple[Act, ...]
    stores: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one act on one memory.

    Attributes:
        act: the act.
        findings: what each of its rules made of it.
        history: what happened.
        counter: what it found on the memory that breaks the claim.
        store: what it was run on, in a proof of several stores.
        missing: why it could not be run there.
        left: what it wrote to a store of the adopter's and could not be removed.
    """

    act: Act
    findings: tuple[Finding, ...]
    history: History
    counter: Finding | None = None
    store: str = ""
    missing: str = ""
    left: tuple[Left, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The worst of its rules; inconclusive where the counter-evidence is missing."""
        found = worst(finding.verdict for finding in self.findings)
        convinced = self.counter is None or self.counter.verdict is Verdict.VIOLATED
        return found if convinced or found is not Verdict.HELD else Verdict.INCONCLUSIVE


def worst(verdicts: Iterator[Verdict]) -> Verdict:
    """The worst of some verdicts; not exercised where none is anything else."""
    found = set(verdicts)
    return next((verdict for verdict in WORST_FIRST if verdict in found), Verdict.NOT_EXERCISED)


def run(act: Act, suite: Suite, *, store: str = "", counter: bool = True) -> Result:
    """Run an act on a memory, and again on the one that breaks its claim."""
    findings, history = _judged(act, suite)
    return Result(act, findings, history, _countered(act) if counter else None, store, left=tuple(suite.take_left()))


def _countered(act: Act) -> Finding:
    with make_suite(act.against) as against:
        broken, _ = _judged(act, against)
    return next((finding for finding in broken if finding.verdict is Verdict.VIOLATED), broken[0])


def missing_result(act: Act, *, store: str, why: str) -> Result:
    """That of an act that could not be run on a store."""
    findings = tuple(Finding(rule, Verdict.NOT_EXERCISED, why) for rule in act.rules)
    return Result(act, findings, History([]), store=store, missing=why)


def _judged(act: Act, suite: Suite) -> tuple[tuple[Finding, ...], History]:
    script = Script(act.rules, act.title, needs=act.needs)
    with suite.stage(act.title, act.options) as stage:
        entries = suite.play(stage, script, lambda: act.script(stage))
        history = stage.history()
    found = {entry.finding.rule: entry.finding for entry in entries}
    return tuple(found[rule] for rule in act.rules), history


def rejudged(act: Act, history: History, *, store: str = "") -> Result:
    """That of an act whose history was saved."""
    found = {finding.rule: finding for finding in judge(history, act.rules)}
    untested = (Finding(rule, Verdict.NOT_EXERCISED, "the history does not bear on it") for rule in act.rules)
    return Result(act, tuple(found.get(blank.rule, blank) for blank in untested), history, store=store)


def verdict_of(results: Sequence[Result]) -> Verdict:
    """The verdict on a proof: the worst of its acts."""
    return worst(result.verdict for result in results)
