"""What was forgotten is gone, and stays gone."""

from __future__ import annotations

from typing import Final

from memtrace.harness.findings import Judgement, check, held, untested
from memtrace.harness.record.history import History
from memtrace.harness.rules import RULES
from memtrace.harness.seen.forgotten import Forgetting, forgettings, seen_before
from memtrace.harness.seen.remnants import (
    Remnant,
    in_flight,
    in_stale_process,
    learned_offline,
    looks,
    remnants,
    was_away,
)
from memtrace.model import Verdict

_FACT: Final = "processes.forget-fact"
_USER: Final = "processes.forget-user"
_STAYS: Final = "processes.forget-stays-forgotten"
_SEEN: Final = "processes.other-process-seen"


@check(_FACT)
def forget_fact(history: History) -> Judgement:
    """A forgotten fact is in no later prompt, no read and no file, in any process begun afterwards."""
    reason = "a fact that was forgotten is still in {where}"
    return _judged(history, _FACT, [f for f in forgettings(history) if not f.all_of_them], reason)


@check(_USER)
def forget_user(history: History) -> Judgement:
    """Nothing that an erased user had said or was told is in a later prompt of theirs, in a read or in a file."""
    reason = "the words of a user who was erased are still in {where}"
    return _judged(history, _USER, [f for f in forgettings(history) if f.all_of_them], reason)


@check(_STAYS)
def forget_stays_forgotten(history: History) -> Judgement:
    """No turn in flight, no process that knew it, no rebuilding and no offline learning brings it back."""
    return _judged(history, _STAYS, list(forgettings(history)), "what was forgotten came back: it is in {where}")


def _judged(history: History, rule: str, forgotten: list[Forgetting], reason: str) -> Judgement:
    if not forgotten:
        return untested("nothing that was known was forgotten")
    found = sorted((r for r in remnants(history) if blame(history, r) == rule), key=lambda r: bool(r.files))
    judgements = [remnant.accuse(reason.format(where=remnant.where)) for remnant in found]
    if judgements:
        return next((known for known in judgements if known.verdict is Verdict.VIOLATED), judgements[0])
    proven = [forgetting for forgetting in forgotten if seen_before(history, forgetting)]
    if not proven:
        return held(when=False, otherwise="memory had not shown what was forgotten before either")
    return held(
        when=any(any(looks(history, forgetting)) for forgetting in proven), otherwise="nobody looked afterwards"
    )


def blame(history: History, remnant: Remnant) -> str:
    """The one rule that a remnant is blamed on; never one that does not apply to the system."""
    claims = history.opened.capabilities if history.opened else ()
    general = _USER if remnant.forgetting.all_of_them else _FACT
    for rule, holds in ((_stale(remnant), in_stale_process), (_STAYS, _brought_back)):
        if holds(history, remnant) and not RULES[rule].unmet(claims):
            return rule
    return general


def _stale(remnant: Remnant) -> str:
    """Facts that another process forgot have a rule of their own."""
    return _STAYS if remnant.forgetting.all_of_them else _SEEN


def _brought_back(history: History, remnant: Remnant) -> bool:
    return in_flight(history, remnant) or learned_offline(history, remnant) or was_away(history, remnant)
