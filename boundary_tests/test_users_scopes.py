"""Between users: what belongs to an agent, a project or a record's owner."""

from __future__ import annotations

import pytest

from memtrace.harness.rules import rule
from memtrace.harness.stage import OK_OR_REFUSED, Stage
from memtrace.model import Caller, Outcome

_ALL = "What is my locker code, where is my desk, and when does the shop open?"


@rule("users.agent-facts-stay-with-agent", needs=("agents",))
def test_an_agents_facts_reach_its_own_callers_only(stage: Stage) -> None:
    alice = stage.caller()
    names = [stage.agent, f"{stage.agent}-eu", stage.agent.upper(), stage.agent[:-1]]
    for name in names:
        stage.add(_at(alice, name), f"The shop opens at {stage.canary()}.", scope="agent")
    for name in names:
        stage.turn(stage.caller(agent=name), "When does the shop open?")


@rule("users.agent-facts-stay-with-agent", needs=("agents", "facts"))
def test_an_agent_and_a_user_of_one_name_have_nothing_in_common(stage: Stage) -> None:
    alice, bob = stage.callers(2)
    stage.add(alice, f"Their desk is number {stage.canary()}.")
    stage.add(_at(bob, alice.user), f"The shop opens at {stage.canary()}.", scope="agent")
    for caller in (alice, bob, _at(bob, alice.user), alice):
        stage.turn(caller, "Where is my desk, and when does the shop open?")


def _at(caller: Caller, agent: str) -> Caller:
    return Caller(caller.user, caller.session, caller.project, agent)


@rule("users.project-partitions")
def test_one_user_in_two_projects_has_two_memories(stage: Stage) -> None:
    alice = stage.caller()
    here, there = (stage.caller(user=alice.user, project=f"{alice.session}-{name}") for name in ("acme", "acme-corp"))
    for caller in (here, there):
        if "facts" in stage.claims:
            stage.add(caller, f"Their desk is number {stage.canary()}.")
        if "agent-facts" in stage.claims:
            stage.add(caller, f"The shop opens at {stage.canary()}.", scope="agent")
        stage.turn(caller, f"My locker code is {stage.canary()}.")
    for caller in (here, there, stage.caller(project=here.project)):
        stage.turn(caller, _ALL)
        _read_all(stage, caller)
    if "forget" in stage.claims:
        stage.forget(here)
        _read_all(stage, there)


@rule("users.project-partitions", options={"recall": True, "window": 2, "learn": False}, needs=("recall",))
def test_recall_stays_in_its_project(stage: Stage) -> None:
    alice = stage.caller()
    both = [stage.caller(user=alice.user, project=f"{alice.session}-{name}") for name in ("acme", "globex")]
    for caller in both:
        stage.turn(caller, f"My yoga class is on {stage.canary()}.")
        stage.turn(caller, "The weather is fine today.")
    for caller in (*both, stage.caller(project=both[0].project)):
        stage.turn(caller, "When is my yoga class?")


@rule("users.project-partitions", needs=("facts", "list"))
def test_facts_of_projects_and_users_that_concatenate_alike_are_apart(stage: Stage) -> None:
    names = [_alike(stage, separator) for separator in (":", "/", "-", ".", "|", "::", "")]
    callers = [caller for alike in names for caller in alike]
    for caller in callers:
        stage.add(caller, f"Their desk is number {stage.canary()}.")
        stage.facts(caller)
    for caller in callers:
        stage.facts(caller)
    if "forget" in stage.claims:
        for first, *_ in names:
            stage.forget(first)
        for _, *others in names:
            for caller in others:
                stage.facts(caller)


@rule("users.project-partitions", needs=("conv",), options={"learn": False})
def test_conversations_of_projects_and_users_that_concatenate_alike_are_apart(stage: Stage) -> None:
    callers = [caller for separator in (":", "/", "") for caller in _alike(stage, separator)[:2]]
    told = [stage.turn(caller, f"My locker code is {stage.canary()}.", expect=OK_OR_REFUSED) for caller in callers]
    for caller in [turn.caller for turn in told if turn.outcome is Outcome.OK]:
        stage.turn(caller, "What is my locker code?")


def _alike(stage: Stage, separator: str) -> list[Caller]:
    """Callers whose project and user, joined in one order or the other, give the same text."""
    name = stage.caller().session
    pairs = [(f"{name}{separator}x", "u7"), (name, f"x{separator}u7"), (f"u7{separator}{name}", "x")]
    return [stage.caller(project=project, user=user) for project, user in pairs]


def _read_all(stage: Stage, caller: Caller) -> None:
    if "list" in stage.claims:
        stage.facts(caller)
    if "search" in stage.claims:
        stage.search(caller, "desk number")
    stage.messages(caller)


@rule("users.id-not-in-prompt")
def test_a_users_id_stays_out_of_every_prompt(stage: Stage) -> None:
    for caller in stage.callers(2):
        stage.add(caller, f"Their desk is number {stage.canary()}.")
        stage.turn(caller, f"My locker code is {stage.canary()}.")
        stage.turn(caller, _ALL, via="stream" if "stream" in stage.claims else "run")


@rule("users.id-not-in-prompt", options={"recall": True, "summary": True, "window": 2})
def test_a_users_id_stays_out_of_recall_and_summaries(stage: Stage) -> None:
    stage.needs("recall|summary")
    alice = stage.caller()
    for number in range(4):
        stage.turn(alice, f"Item {number} on my list is {stage.canary()}.")
    stage.turn(alice, "Which items are on my list?")


# Records


@rule("users.foreign-record-untouchable", needs=("list", "update", "forget"))
def test_whoever_names_anothers_record_changes_nothing(stage: Stage) -> None:
    alice, bob = stage.callers(2)
    record = stage.add(alice, f"Their desk is number {stage.canary()}.")
    stage.add(bob, f"Their desk is number {stage.canary()}.")
    stage.get(alice, record)
    for attempt in ("get", "update", "forget"):
        stage.facts(alice)
        _name(stage, bob, record, attempt)
        stage.facts(alice)
        stage.get(alice, record)
    stage.turn(alice, "Where is my desk?")
    stage.update(alice, record, f"Their desk is number {stage.canary()}.")
    stage.facts(alice)


@rule("users.foreign-record-untouchable", needs=("agent-facts", "update", "forget"))
def test_a_user_who_names_the_agents_record_changes_nothing(stage: Stage) -> None:
    alice, bob = stage.callers(2)
    record = stage.add(alice, f"The shop opens at {stage.canary()}.", scope="agent")
    for attempt in ("update", "forget"):
        stage.turn(alice, "When does the shop open?")
        _name(stage, bob, record, attempt)
        stage.turn(alice, "When does the shop open?")


def _name(stage: Stage, caller: Caller, record: str, attempt: str) -> None:
    match attempt:
        case "get":
            stage.get(caller, record)
        case "update":
            stage.update(caller, record, f"Their desk is number {stage.canary()}.")
        case "forget":
            stage.forget(caller, record)


@rule("users.empty-id-reads-nothing")
def test_an_empty_id_reads_and_forgets_nothing(stage: Stage) -> None:
    stage.needs("list|search")
    alice, nobody = stage.caller(), Caller(agent=stage.agent)
    stage.add(alice, f"Their desk is number {stage.canary()}.")
    _read_all(stage, alice)
    _read_all(stage, nobody)
    if stage.disposable and "forget" in stage.claims:
        stage.forget(nobody)
    if stage.fresh:
        stage.add(nobody, f"Their desk is number {stage.canary()}.")
    for caller in (nobody, alice):
        _read_all(stage, caller)
    stage.turn(alice, "Where is my desk?")


@rule("users.forget-one-leaves-others", needs=("facts",))
@pytest.mark.parametrize("verb", ["forget", "erase"])
def test_forgetting_one_user_leaves_the_others_as_they_were(stage: Stage, verb: str) -> None:
    stage.needs(verb)
    alice, bob, carol = stage.callers(3)
    shared = f"The meeting is in room {stage.canary()}."
    if "agent-facts" in stage.claims:
        stage.add(carol, f"The shop opens at {stage.canary()}.", scope="agent")
    for caller in (alice, bob, carol):
        stage.add(caller, shared)
        stage.add(caller, f"Their desk is number {stage.canary()}.")
        stage.turn(caller, f"My locker code is {stage.canary()}.")
    for caller in (alice, carol):
        stage.turn(caller, _ALL)
        _read_all(stage, caller)
    if verb == "erase":
        stage.erase(bob)
    else:
        stage.forget(bob)
    for caller in (alice, carol):
        _read_all(stage, caller)
        stage.turn(caller, _ALL)
