"""The verdict on each rule, over all the scripts that bore on it; printed, and kept as JSON or Markdown."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from memtrace.harness.rules import RULES
from memtrace.harness.verdicts.judging import worst
from memtrace.harness.verdicts.left import Left
from memtrace.model import Finding, Verdict

EXIT_HELD: Final = 0
EXIT_VIOLATED: Final = 1
EXIT_INTERRUPTED: Final = 2
EXIT_MISUSE: Final = 4
EXIT_NOTHING: Final = 5
EXIT_UNDECIDED: Final = 7


@dataclass(frozen=True, slots=True)
class Entry:
    """What one script said of one rule.

    ``own`` is whether the script was written for it; ``excuse`` why a violation of it would be taken, if it would.
    """

    finding: Finding
    test: str
    rerun: str
    store: str = ""
    own: bool = True
    excuse: str = ""
    history_sha256: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """The verdict on a rule: the worst over the scripts that exercised it."""

    rule: str
    store: str
    verdict: Verdict
    exercised: int
    scripts: int
    entry: Entry

    def as_json(self) -> dict[str, Any]:
        """A row of the ledger's JSON."""
        finding = self.entry.finding
        return {
            "rule": self.rule, "store": self.store, "verdict": self.verdict.value,
            "scripts": [self.exercised, self.scripts],
            "reason": finding.reason, "evidence": [asdict(e) for e in finding.evidence], "tests": [self.entry.test],
            "rerun": self.entry.rerun, "history_sha256": self.entry.history_sha256,
        }  # fmt: skip


@dataclass(slots=True)
class Ledger:
    """All that was found in one session.

    ``notes`` say, in their order, what a reader must know of it besides; ``left`` is what stays in the store.
    """

    system: str = ""
    version: str = ""
    notes: dict[str, None] = field(default_factory=dict)
    left: list[Left] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)

    def add(self, entries: Iterable[Entry]) -> None:
        """Take in what a script found."""
        self.entries.extend(entries)

    def rows(self) -> list[Row]:
        """One row a rule and store, in the order of the rules."""
        by_rule: dict[tuple[str, str], list[Entry]] = defaultdict(list)
        for entry in self.entries:
            by_rule[entry.finding.rule, entry.store].append(entry)
        order = {rule: place for place, rule in enumerate(RULES)}
        return [
            _row(rule, store, entries)
            for (rule, store), entries in sorted(by_rule.items(), key=lambda kv: (order[kv[0][0]], kv[0][1]))
        ]

    def stores(self) -> list[str]:
        """The stores that scripts ran on."""
        return sorted({entry.store for entry in self.entries if entry.store})

    def counts(self) -> Counter[Verdict]:
        """How many rules got each verdict: a rule counts once, by its worst on any store that it was exercised on."""
        by_rule: dict[str, list[Row]] = defaultdict(list)
        for row in self.rows():
            by_rule[row.rule].append(row)
        decisive = (worst(row.entry.finding for row in rows) for rows in by_rule.values())
        return Counter(finding.verdict for finding in decisive if finding is not None)

    def stale(self) -> list[str]:
        """Excuses for rules that hold: each is an error, so that excuses do not outlive what they excuse."""
        needed = {row.rule for row in self.rows() if row.verdict in (Verdict.ALLOWED, Verdict.KNOWN)}
        return [
            f"{row.rule} is excused ({row.entry.excuse}) but holds: remove the excuse"
            for row in self.rows()
            if row.verdict is Verdict.HELD and row.entry.excuse and row.rule not in needed
        ]

    def summary(self) -> str:
        """The last line of every report."""
        counts = self.counts()
        order = (
            Verdict.HELD,
            Verdict.ALLOWED,
            Verdict.KNOWN,
            Verdict.NOT_EXERCISED,
            Verdict.INCONCLUSIVE,
            Verdict.VIOLATED,
        )
        stores = self.stores()
        over = f" (each rule at its worst of {', '.join(stores)})" if len(stores) > 1 else ""
        return ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in order) + over

    def exit_status(self, *, others_failed: bool = False) -> int:
        """0; 1 violated, an excuse that is not needed, or another test failed; 5 nothing exercised; 7 undecided."""
        counts = self.counts()
        if counts[Verdict.VIOLATED] or others_failed or self.stale():
            return EXIT_VIOLATED
        if counts[Verdict.INCONCLUSIVE]:
            return EXIT_UNDECIDED
        if not counts[Verdict.HELD] + counts[Verdict.ALLOWED] + counts[Verdict.KNOWN]:
            return EXIT_NOTHING
        return EXIT_HELD

    def as_json(self, extra: Mapping[str, Any]) -> str:
        """The ledger as JSON, with ``extra`` facts about the session (date, seed, versions)."""
        counts = self.counts()
        body = {
            "system": self.system, "version": self.version, "notes": list(self.notes), **extra,
            "left": [asdict(one) for one in self.left],
            "counts": {verdict.value: counts[verdict] for verdict in Verdict},
            "rules": [row.as_json() for row in self.rows()],
        }  # fmt: skip
        return json.dumps(body, indent=2, ensure_ascii=False)


def _row(rule: str, store: str, entries: list[Entry]) -> Row:
    decisive = worst(entry.finding for entry in entries)
    entry = next(e for e in entries if e.finding is decisive)
    exercised = sum(1 for e in entries if e.finding.verdict is not Verdict.NOT_EXERCISED)
    return Row(rule, store, entry.finding.verdict, exercised, len(entries), entry)
