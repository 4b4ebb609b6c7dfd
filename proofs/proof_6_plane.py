"""Proof 6: curated facts, and a plane that fails in every way there is."""

from __future__ import annotations

from typing import Final

from memtrace import semconv
from memtrace.harness.plane.faults import FAULTS
from memtrace.harness.record.events import Timed
from memtrace.harness.record.history import History
from memtrace.harness.scenes.timing import timing
from memtrace.harness.seen.plane import agent_asked_for, asks, outages
from memtrace.harness.stage import PLANE, Stage
from memtrace.model import Caller
from proofs import showing
from proofs.act import Act, Proof

LADDER: Final = tuple(fault for fault in FAULTS if fault != "twice")
ASKS: Final = "When do you close?"
LONG_AFTER: Final = 601.0


def served_and_taken_back(stage: Stage) -> None:
    """Facts are approved, served, served twice and taken back, for two users who ask."""
    alice, bob = stage.callers(2)
    record = _curate(stage, alice)
    _curate(stage, alice)
    stage.plane.propose(_agent(stage, alice), f"We are open on {stage.canary()}.")
    stage.plane.look()
    for caller in (alice, bob):
        stage.turn(caller, ASKS)
    stage.plane.fault("twice")
    stage.turn(bob, ASKS)
    stage.plane.fault()
    stage.plane.look()
    stage.plane.retire(record)
    for caller in (alice, bob):
        stage.turn(caller, ASKS)


def every_fault(stage: Stage) -> None:
    """For each fault: somebody is served, the plane fails, and they and somebody new ask."""
    for number, fault in enumerate(LADDER):
        alice, newcomer = _callers(stage, number, 2)
        _curate(stage, alice)
        stage.turn(alice, ASKS)
        stage.plane.fault(fault)
        for caller in (newcomer, alice):
            stage.turn(caller, ASKS)
        _long_after(stage)


def silence(stage: Stage) -> None:
    """The plane answers a byte at a time, or takes questions and is silent, while four users ask at once."""
    for number, fault in enumerate(("slow drip", "black hole")):
        callers = _callers(stage, number, 4)
        _curate(stage, callers[0])
        stage.turn(callers[0], ASKS)
        stage.plane.fault(fault)
        with timing(stage) as turns:
            for caller in callers:
                turns.start(caller, ASKS)
        _long_after(stage)


def never_read(stage: Stage) -> None:
    """The plane is gone; this process has read it, and one that was just started has not."""
    alice = stage.caller()
    _curate(stage, alice)
    stage.turn(alice, ASKS)
    stage.plane.fault("refused")
    stage.turn(alice, ASKS)
    stage.process().turn(alice, ASKS)


def _callers(stage: Stage, number: int, count: int) -> list[Caller]:
    """So many; of an agent of their own, where the system has no clock on which an outage could be over."""
    return stage.callers(count, **({} if "advance" in stage.claims else {"agent": f"{stage.agent}-{number}"}))


def _long_after(stage: Stage) -> None:
    """The outage is over, and the time to try again has come."""
    stage.plane.fault()
    if "advance" in stage.claims:
        stage.advance(LONG_AFTER)


def _curate(stage: Stage, caller: Caller) -> str:
    return stage.plane.curate(_agent(stage, caller), f"The shop closes at {stage.canary()}.")


def _agent(stage: Stage, caller: Caller) -> str:
    return caller.agent or stage.agent


def _prompt_and_requests(history: History) -> list[str]:
    requests = [f"{ask.method} …{ask.path[-13:]} for {agent_asked_for(ask)} -> {ask.status}" for ask in asks(history)]
    return ["the last prompt", *showing.prompt(history), "", "what the plane was asked", *requests]


def _ladder(history: History) -> list[str]:
    lines = []
    for outage in outages(history):
        turns = [turn for turn in history.turns.values() if outage.covers(turn)]
        kept = sum("closes at" in turn.answers[0].prompt.text for turn in turns if turn.answers)
        lines.append(f"{outage.fault:<18} {len(turns)} turns, {kept} with curated facts")
    return lines


def _times(history: History) -> list[str]:
    return [f"turn {event.turn}: {event.seconds:.2f} s" for event in history.of(Timed)]


def _freshness(history: History) -> list[str]:
    return [
        f"{span.process}: {span.attributes[semconv.FRESHNESS]}, {span.attributes.get(semconv.PLANE_STATUS, '')}"
        for span in history.spans
        if semconv.FRESHNESS in span.attributes
    ]


PROOF = Proof(
    number=6,
    boundary="between the agent and the plane",
    claim=(
        "The agent reads what people approved and never writes; "
        "whatever the plane does, turns go on, in time, and say so."
    ),
    method=(
        "Serve, retire, and fail in every way, on a `memtrace plane serve`; read prompts, requests, times and spans."
    ),
    acts=(
        Act(
            title="what is approved reaches everyone once, and what is taken back nobody",
            rules=("plane.facts-reach-everyone", "plane.retired-is-gone", "plane.read-only"),
            script=served_and_taken_back,
            show=_prompt_and_requests,
            against="memtrace.broken.plane:ServedTwice",
            options={PLANE: True},
        ),
        Act(
            title="in every kind of outage the last facts are served",
            rules=("plane.outage-serves-last",),
            script=every_fault,
            show=_ladder,
            against="memtrace.broken.plane:RefusedMeansNone",
            needs=("advance|agents",),
            options={PLANE: True, "plane_timeout": 0.3},
        ),
        Act(
            title="a plane that is silent or drips keeps no turn beyond its time",
            rules=("plane.turn-is-bounded",),
            script=silence,
            show=_times,
            against="memtrace.broken.plane:TimesEachRead",
            options={PLANE: True, "plane_timeout": 0.5},
        ),
        Act(
            title="the trace says fresh, stale or missing, in a process that never read the plane too",
            rules=("plane.staleness-is-visible",),
            script=never_read,
            show=_freshness,
            against="memtrace.broken.plane:EmptyIsFresh",
            needs=("reopen",),
            options={PLANE: True},
        ),
    ),
)
