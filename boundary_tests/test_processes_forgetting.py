"""What was forgotten, or erased, is gone everywhere and stays gone."""

from __future__ import annotations

from functools import partial

from boundary_tests.looks import ENDED, NO_LEARNING, QUESTION, look, look_afresh, scan
from memtrace.harness.rules import rule
from memtrace.harness.running.holds import Point
from memtrace.harness.scenes.at_once import meanwhile
from memtrace.harness.scripted_model.scripting import use_tool
from memtrace.harness.stage import Stage
from memtrace.harness.system import APPROVAL_TOOL
from memtrace.model import Outcome


@rule("processes.forget-fact", needs=("facts",), options=NO_LEARNING)
def test_a_forgotten_fact_is_gone_with_all_it_superseded(stage: Stage) -> None:
    alice = stage.caller()
    words = [stage.canary()]
    record = stage.add(alice, f"Alice is on the Free plan, says {words[0]}.")
    if "update" in stage.claims:
        words.append(stage.canary())
        record = stage.update(alice, record, f"Alice is on the Pro plan, says {words[1]}.")
    stage.add(alice, f"Alice plays saxophone at {stage.canary()}.")
    look(stage, stage, alice)
    scan(stage, *words)
    stage.forget(alice, record)
    scan(stage, *words)
    if "record-ids" in stage.claims:
        stage.get(alice, record)
    look(stage, stage, alice)
    if "reopen" in stage.claims:
        look(stage.restart(), stage, alice)


@rule("processes.forget-fact", needs=("facts",))
def test_all_of_a_users_facts_are_gone_once_they_are_forgotten(stage: Stage) -> None:
    alice = stage.caller()
    word = stage.canary()
    stage.add(alice, f"Alice plays saxophone at {word}.")
    if "learn" in stage.claims:
        stage.turn(alice, f"I am allergic to {stage.canary()}.")
    look(stage, stage, alice)
    stage.forget(alice)
    scan(stage, word)
    look(stage, stage, alice)
    look_afresh(stage, alice)


@rule("processes.forget-fact", needs=("learn", "list", "record-ids"))
def test_a_learned_fact_that_is_forgotten_is_gone(stage: Stage) -> None:
    alice = stage.caller()
    word = stage.canary()
    stage.turn(alice, f"I am allergic to {word}.")
    stage.turn(alice, f"I live in {stage.canary()}.")
    learned = [fact.id for fact in stage.facts(alice) if word in fact.text]
    for record in learned:
        stage.forget(alice, record)
    look(stage, stage, alice)
    look_afresh(stage, alice)


@rule("processes.forget-user")
def test_nothing_of_an_erased_user_is_left(stage: Stage) -> None:
    _erase(stage)


@rule("processes.forget-user", needs=("summary|recall",), options={"recall": True, "summary": True, "window": 2})
def test_nothing_of_an_erased_user_is_left_in_summary_or_recall(stage: Stage) -> None:
    _erase(stage)


def _erase(stage: Stage) -> None:
    """Leave words of a user in every place there is, erase the user, and look into each place again."""
    alice, bob = stage.callers(2)
    words = [stage.canary() for _ in range(6)]
    hobby, allergy, advice, home, order, receipt = words
    if "facts" in stage.claims:
        stage.add(alice, f"Alice plays saxophone at {hobby}.")
    stage.turn(alice, f"I am allergic to {allergy}.", says=[f"Then avoid {advice}."])
    stage.turn(alice, f"I live in {home}.")
    for text in ("The weather is nice.", "Is it warm?", QUESTION):
        stage.turn(alice, text)
    window = stage.directory / "alice.json"
    if "save-load" in stage.claims:
        stage.save(alice, window)
    paused = None
    if "resume" in stage.claims:
        transfer = use_tool(f"pay {receipt}", name=APPROVAL_TOOL)
        paused = stage.turn(alice, f"Pay for my order {order}.", says=[transfer], expect=Outcome.PAUSED)
    stage.turn(bob, f"I live in {stage.canary()}.")
    for caller in (alice, bob):
        look(stage, stage, caller)
    scan(stage, *words)
    stage.erase(alice)
    scan(stage, *words)
    for caller in (alice, bob):
        look(stage, stage, caller)
    if "save-load" in stage.claims:
        stage.load(alice, window)
        look(stage, stage, alice)
    if paused is not None:
        stage.resume(paused, expect=(*ENDED, Outcome.PAUSED))
    if "reopen" in stage.claims:
        look(stage.restart(), stage, alice)


# And stays forgotten


def points(stage: Stage) -> list[Point]:
    """Where a turn can be held that writes what was said."""
    held: list[Point] = ["model"]
    if "learn" in stage.claims:
        held.append("memory")
    if "recall" in stage.claims:
        held.append("embed")
    return held


@rule("processes.forget-stays-forgotten", needs=("learn", "list"), options={"recall": True, "window": 2})
def test_a_turn_in_flight_does_not_bring_a_forgotten_fact_back(stage: Stage) -> None:
    callers = stage.callers(3)
    for point, alice in zip(points(stage), callers, strict=False):
        plan = f"I am on the Pro plan, says {stage.canary()}."
        record = stage.add(alice, plan)
        stage.facts(alice)
        with stage.hold(point) as held:
            running = stage.start(alice, plan, expect=ENDED)
            meanwhile(held, partial(stage.forget, alice, record))
        stage.finished(running)
        look(stage, stage, alice)
    look_afresh(stage, *callers)


@rule("processes.forget-stays-forgotten", needs=("erase",), options={"recall": True, "window": 2})
def test_a_turn_in_flight_does_not_bring_an_erased_user_back(stage: Stage) -> None:
    callers = stage.callers(3)
    for point, alice in zip(points(stage), callers, strict=False):
        stage.turn(alice, f"My locker code is {stage.canary()}.")
        stage.turn(alice, "What is my locker code?")
        with stage.hold(point) as held:
            running = stage.start(alice, f"And my bicycle has the code {stage.canary()}.", expect=ENDED)
            meanwhile(held, partial(stage.erase, alice))
        stage.finished(running)
        look(stage, stage, alice)
        stage.turn(alice, "Which code has my bicycle?")
    look_afresh(stage, *callers)


@rule("processes.forget-stays-forgotten", needs=("facts", "shared"), options=NO_LEARNING)
def test_a_process_that_knew_a_fact_does_not_bring_it_back(stage: Stage) -> None:
    alice, elsewhere = stage.caller(), stage.process()
    record = stage.add(alice, f"Alice is on the Pro plan, says {stage.canary()}.")
    look(elsewhere, stage, alice)
    stage.forget(alice, record)
    look(stage, stage, alice)
    elsewhere.add(alice, f"Alice plays saxophone at {stage.canary()}.")
    look(elsewhere, stage, alice)
    look(stage, stage, alice)


@rule("processes.forget-stays-forgotten", needs=("erase", "shared"))
def test_a_process_that_knew_a_user_does_not_bring_them_back(stage: Stage) -> None:
    alice, elsewhere = stage.caller(), stage.process()
    elsewhere.turn(alice, f"My locker code is {stage.canary()}.")
    look(elsewhere, stage, alice)
    look(stage, stage, alice)
    stage.erase(alice)
    for actor in (stage, elsewhere, stage):
        look(actor, stage, alice)


@rule("processes.forget-stays-forgotten", needs=("facts",), options=NO_LEARNING)
def test_an_index_that_is_built_again_does_not_bring_a_forgotten_fact_back(stage: Stage) -> None:
    alice = stage.caller()
    record = stage.add(alice, f"Alice is on the Pro plan, says {stage.canary()}.")
    look(stage, stage, alice)
    stage.forget(alice, record)
    look(stage, stage, alice)
    other = stage.add(alice, f"Alice plays saxophone at {stage.canary()}.")
    look(stage, stage, alice)
    if "update" in stage.claims:
        stage.update(alice, other, f"Alice plays trombone at {stage.canary()}.")
        look(stage, stage, alice)
    look_afresh(stage, alice)


@rule("processes.forget-stays-forgotten", needs=("facts", "learn-offline"))
def test_offline_learning_does_not_bring_back_what_was_forgotten(stage: Stage) -> None:
    alice, bob = stage.callers(2)
    for caller in (alice, bob):
        stage.turn(caller, f"My locker code is {stage.canary()}.")
        stage.turn(caller, QUESTION)
        look(stage, stage, caller)
    stage.forget(alice)
    if "erase" in stage.claims:
        stage.erase(bob)
    for caller in (alice, bob):
        stage.learn_offline(caller, scope="user", personal=True)
        look(stage, stage, caller)
    look_afresh(stage, alice, bob)
