"""Words for a person: why a script failed, and what the ledger says."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import indent
from typing import Final, NoReturn

import msgspec
import pytest

from memtrace import errors
from memtrace.harness.rules import RULES
from memtrace.harness.verdicts.ledger import Entry, Ledger, Row
from memtrace.harness.verdicts.left import told
from memtrace.model import Finding, Verdict

_VIOLATIONS: Final = {
    "turns": errors.TurnsViolation,
    "users": errors.UsersViolation,
    "authors": errors.AuthorsViolation,
    "processes": errors.ProcessesViolation,
    "backends": errors.BackendsViolation,
    "plane": errors.PlaneViolation,
    "export": errors.ExportViolation,
    "scopes": errors.ScopesViolation,
}
_WORST_FIRST: Final = (Verdict.VIOLATED, Verdict.INCONCLUSIVE, Verdict.KNOWN, Verdict.ALLOWED, Verdict.HELD)


def conclude(entries: Sequence[Entry]) -> None:
    """End a test as its own rules' findings say: pass, fail, expected failure, or skip."""
    own = [entry for entry in entries if entry.own]
    for verdict in _WORST_FIRST:
        for entry in own:
            if entry.finding.verdict is verdict:
                _end(entry)
                return
    pytest.skip("; ".join(dict.fromkeys(f"{e.finding.rule} not exercised: {e.finding.reason}" for e in own)))


def _end(entry: Entry) -> None:
    finding = entry.finding
    match finding.verdict:
        case Verdict.VIOLATED:
            _violated(entry)
        case Verdict.INCONCLUSIVE:
            pytest.fail("\n".join([f"{finding.rule} INCONCLUSIVE: {finding.reason}", *details(entry)]), pytrace=False)
        case Verdict.ALLOWED | Verdict.KNOWN:
            pytest.xfail(f"{finding.rule} {finding.verdict.value}: {finding.reason}")
        case _:
            return


def _violated(entry: Entry) -> NoReturn:
    finding = entry.finding
    kind = _VIOLATIONS[RULES[finding.rule].boundary]
    lines = [
        f"{finding.rule} VIOLATED: {finding.reason}",
        f"  the rule: {RULES[finding.rule].statement}",
        *details(entry),
    ]
    evidence = tuple(f"{e.title}: {e.text}" for e in finding.evidence)
    raise kind("\n".join(lines), rule=finding.rule, reason=finding.reason, evidence=evidence)


def details(entry: Entry) -> list[str]:
    """Evidence, the command that plays it again, and where to read how to fix it."""
    lines = [f"  {e.title}:\n{indent(e.text.rstrip() or '(nothing)', '    ')}" for e in entry.finding.evidence]
    if entry.rerun:
        lines.append(f"  again: {entry.rerun}")
    lines.append(f"  fix:   memtrace rules {entry.finding.rule}")
    return lines


def table(ledger: Ledger) -> list[str]:
    """The ledger as text: a line a rule, and under what is not held the reason and the evidence."""
    rows = ledger.rows()
    width = max((len(row.rule) for row in rows), default=0)
    lines = [f"memtrace: {ledger.system} {ledger.version}".rstrip()]
    lines += [f"  {note}" for note in ledger.notes]
    for row, stores in _told_once(rows):
        on = f"  [{', '.join(stores)}]" if len(ledger.stores()) > 1 and any(stores) else ""
        lines.append(f"{row.verdict.value.upper():<14}{row.rule:<{width}}  {_scripts(row)}{on}")
        lines += [f"              {line}" for line in _why(row)]
    return [*lines, *dict.fromkeys(ledger.stale()), *filter(None, [told(ledger.left)])]


def _told_once(rows: Sequence[Row]) -> list[tuple[Row, list[str]]]:
    """Rows, with the stores of which the same is to be said."""
    told: dict[tuple[str, ...], tuple[Row, list[str]]] = {}
    for row in rows:
        key = (row.rule, row.verdict.value, _scripts(row), *_why(row))
        told.setdefault(key, (row, []))[1].append(row.store)
    return list(told.values())


def _scripts(row: Row) -> str:
    """How many scripts exercised a rule, or why none did."""
    unexercised = row.verdict is Verdict.NOT_EXERCISED
    return row.entry.finding.reason if unexercised else f"scripts: {row.exercised}/{row.scripts}"


def _why(row: Row) -> list[str]:
    """The reason; and the evidence too where no failed test of the rule's own has shown it already."""
    finding = row.entry.finding
    if finding.verdict in (Verdict.HELD, Verdict.NOT_EXERCISED):
        return []
    if row.entry.own or finding.verdict not in (Verdict.VIOLATED, Verdict.INCONCLUSIVE):
        return [finding.reason]
    seen = [f"  seen in: {row.entry.test}", *(line for detail in details(row.entry) for line in detail.splitlines())]
    return [finding.reason, *seen]


def markdown(ledger: Ledger) -> str:
    """The ledger for a job summary: what is not held first, then the count."""
    lines = [f"## memtrace: {ledger.system} {ledger.version}".rstrip(), "", ledger.summary(), ""]
    lines += [f"- {note}" for note in ledger.notes] + [""] * bool(ledger.notes)
    rows = [row for row in ledger.rows() if row.verdict is not Verdict.HELD]
    if rows:
        lines += ["| verdict | rule | store | scripts | reason |", "|---|---|---|---|---|"]
        lines += [
            f"| {row.verdict.value} | `{row.rule}` | {row.store} | {row.exercised}/{row.scripts} |"
            f" {_cell(row.entry.finding)} |"
            for row in rows
        ]
    lines += ["", told(ledger.left)] if ledger.left else []
    return "\n".join(lines) + "\n"


def _cell(finding: Finding) -> str:
    return finding.reason.replace("|", "\\|").replace("\n", " ")


def dump_entries(entries: Sequence[Entry]) -> str:
    """Entries as JSON, to travel with a test's report from an xdist worker."""
    return msgspec.json.encode(list(entries)).decode()


def load_entries(text: str) -> list[Entry]:
    """And back."""
    return msgspec.json.decode(text, type=list[Entry])
