"""From a history to a finding for each rule that bears on it."""

from __future__ import annotations

import traceback
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from memtrace.harness.checks import CHECKS
from memtrace.harness.findings import Judgement, told, undecided, untested
from memtrace.harness.record.history import History
from memtrace.harness.rules import RULES, Kind, Rule
from memtrace.model import Evidence, Finding, Verdict


def judge(history: History, own: Collection[str] = ()) -> list[Finding]:
    """A finding for each rule: ``own`` are the rules the script was written for; invariants are judged always."""
    return [judge_rule(history, rule, own) for rule in RULES.values() if _applies(history, rule, own)]


def judge_rule(history: History, rule: Rule, own: Collection[str] = ()) -> Finding:
    """What one rule's check says, as a finding. A check that crashes has decided nothing."""
    claims = history.opened.capabilities if history.opened else ()
    if missing := rule.unmet(claims):
        return _finding(rule, untested(f"the system does not claim {', '.join(missing)}"))
    try:
        judgement = CHECKS[rule.id](history)
    except Exception as error:  # noqa: BLE001  whatever a check raises, it is not a verdict on the system
        where = traceback.format_exception_only(error)[-1].strip()
        judgement = undecided(f"the check crashed: {where}", Evidence("traceback", traceback.format_exc(limit=-3)))
    return _finding(rule, _in_context(history, rule, judgement, own))


def _applies(history: History, rule: Rule, own: Collection[str]) -> bool:
    if rule.id not in CHECKS:
        return False
    return rule.kind is Kind.INVARIANT or rule.id in own or bool(history.expected(rule.id))


def _in_context(history: History, rule: Rule, judgement: Judgement, own: Collection[str]) -> Judgement:
    """What the check said, given whose script it was and whether the script went as written."""
    if judgement.uncontrolled and rule.id not in own:
        return untested(judgement.reason)
    if rule.id in own and judgement.verdict in (Verdict.HELD, Verdict.NOT_EXERCISED) and history.surprises:
        turn = history.surprises[0]
        took = " or ".join(turn.expected)
        how = turn.outcome.value if turn.outcome else "open"
        cause = f": {' '.join(turn.error.split())}" if turn.error else ""
        return undecided(f"turn {turn} ended {how}, where the script expected {took}{cause}", told(turn))
    return judgement


def _finding(rule: Rule, judgement: Judgement) -> Finding:
    return Finding(rule.id, judgement.verdict, judgement.reason, judgement.evidence)


def worst(findings: Iterable[Finding]) -> Finding | None:
    """The finding that decides: the worst one, where any exercised the rule; else why none did."""
    order = [
        Verdict.NOT_EXERCISED,
        Verdict.HELD,
        Verdict.ALLOWED,
        Verdict.KNOWN,
        Verdict.INCONCLUSIVE,
        Verdict.VIOLATED,
    ]
    return max(findings, key=lambda finding: order.index(finding.verdict), default=None)


def excuse(finding: Finding, allowed: Mapping[str, str], known: Mapping[str, str]) -> Finding:
    """A violation that is by design is ALLOWED, one with an issue of its own KNOWN; any other stays what it is."""
    for excuses, verdict in ((allowed, Verdict.ALLOWED), (known, Verdict.KNOWN)):
        reason = excuses.get(finding.rule)
        if reason is not None and finding.verdict is Verdict.VIOLATED:
            return replace(finding, verdict=verdict, reason=f"{reason} ({finding.reason})")
    return finding
