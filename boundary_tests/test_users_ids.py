"""Between users whose ids look alike, or like a pattern."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from memtrace.harness.rules import rule
from memtrace.harness.seen.lookalikes import awkward, families, patterns
from memtrace.harness.stage import OK_OR_REFUSED, Stage
from memtrace.model import Caller, Outcome

_FAMILIES = list(families("x"))


def _named(stage: Stage, *groups: str) -> list[Caller]:
    name = stage.caller().user.partition("@")[0]
    ids = [user for group, users in families(name).items() for user in users if not groups or group in groups]
    return [stage.named(user) for user in ids]


@rule("users.own-memory-recalled")
def test_an_owner_with_an_awkward_id_is_shown_their_own(stage: Stage) -> None:
    stage.needs("conv|learn|facts")
    for user in awkward(stage.caller().user.partition("@")[0]):
        caller, word = stage.named(user), stage.canary()
        greeted = stage.turn(caller, "Hello.", expect=OK_OR_REFUSED)
        if greeted.outcome is Outcome.OK:
            stage.turn(caller, f"My locker code is {word}.")
            asked = stage.turn(caller, "What is my locker code?")
            stage.expect("users.own-memory-recalled", asked, word, why="they said so in the turn before")


@rule("users.similar-ids-apart", needs=("facts", "list"))
def test_facts_of_callers_with_similar_ids_are_apart(stage: Stage) -> None:
    bystander, *callers = [caller for caller in (stage.caller(), *_named(stage)) if _stored(stage, caller)]
    for caller in (bystander, *callers):
        stage.facts(caller)
    if "search" in stage.claims:
        for caller in callers[:5]:
            stage.search(caller, "number of the desk")
    if "forget" in stage.claims:
        _forget_every_other(stage, bystander, callers)


def _stored(stage: Stage, caller: Caller) -> bool:
    return bool(stage.add(caller, f"Their desk is number {stage.canary()}."))


def _forget_every_other(stage: Stage, bystander: Caller, callers: Sequence[Caller]) -> None:
    stage.forget(callers[1])
    stage.facts(bystander)
    for caller in callers[3::2]:
        stage.forget(caller)
    for caller in callers[::2]:
        stage.facts(caller)


@rule("users.similar-ids-apart", needs=("conv",), options={"learn": False})
@pytest.mark.parametrize("group", _FAMILIES)
def test_conversations_of_callers_with_similar_ids_are_apart(stage: Stage, group: str) -> None:
    served = [caller for caller in _named(stage, group)[:3] if _served(stage, caller)]
    for caller in (stage.caller(), *served):
        stage.turn(caller, "What is my locker code?")
        stage.messages(caller)


def _served(stage: Stage, caller: Caller) -> bool:
    told = stage.turn(caller, f"My locker code is {stage.canary()}.", expect=OK_OR_REFUSED)
    if told.outcome is Outcome.OK:
        stage.messages(caller)
    return told.outcome is Outcome.OK


@rule("users.similar-ids-apart", needs=("save-load",), options={"learn": False})
def test_saved_windows_of_callers_with_similar_ids_are_apart(stage: Stage) -> None:
    callers = _named(stage, "prefixes")[:2] + _named(stage, "case and accents")[:2]
    callers = [caller for caller in callers if _served(stage, caller)]
    for number, caller in enumerate(callers):
        stage.save(caller, stage.directory / f"window-{number}")
    stage.reopen()
    for number, caller in enumerate(callers):
        stage.load(caller, stage.directory / f"window-{number}")
    for caller in callers:
        stage.turn(caller, "What is my locker code?")


@rule("users.wildcard-is-not-a-user")
def test_an_id_that_is_a_pattern_is_one_user(stage: Stage) -> None:
    alice = stage.caller()
    matching = [caller for caller in _matching(stage, alice)[::2] if stage.disposable or alice.user[:3] in caller.user]
    if "facts" in stage.claims:
        stage.add(alice, f"Their desk is number {stage.canary()}.")
    stage.turn(alice, f"My locker code is {stage.canary()}.")
    for caller in matching:
        _as_pattern(stage, caller)
    for caller in (stage.caller(), alice):
        stage.turn(caller, "What is my locker code, and where is my desk?")
    if "list" in stage.claims:
        stage.facts(alice)


def _matching(stage: Stage, alice: Caller) -> list[Caller]:
    """Callers whose ids are patterns that match hers; other scripts have them too, so they start with nothing."""
    callers = [stage.named(user) for user in patterns(alice.user)]
    for caller in callers if stage.disposable else []:
        if "erase" in stage.claims:
            stage.erase(caller)
        elif "forget" in stage.claims:
            stage.forget(caller)
    return callers


def _as_pattern(stage: Stage, caller: Caller) -> None:
    told = stage.turn(caller, f"My locker code is {stage.canary()}.", expect=OK_OR_REFUSED)
    if told.outcome is Outcome.OK:
        stage.turn(caller, "What is my locker code?")


@rule("users.wildcard-is-not-a-user", needs=("facts", "list", "forget"))
def test_a_pattern_lists_and_forgets_its_own_facts_only(stage: Stage) -> None:
    alice, bob, carol = stage.callers(3)
    matching = _matching(stage, alice)
    for caller in (alice, bob, carol):
        stage.add(caller, f"Their desk is number {stage.canary()}.")
        stage.facts(caller)
    stage.forget(bob)
    for caller in (alice, carol):
        stage.facts(caller)
    for caller in matching:
        stage.facts(caller)
        if stage.disposable and stage.add(caller, f"Their desk is number {stage.canary()}."):
            stage.facts(caller)
            if "search" in stage.claims:
                stage.search(caller, "number of the desk")
            stage.forget(caller)
            stage.facts(alice)
    stage.turn(alice, "Where is my desk?")
