"""The plane rules on the smallest histories: the bad one, the nearest good one, the empty one, the doubtful one."""

from __future__ import annotations

from typing import Any

import pytest
from histories import ALICE, BOB, A, B, C, HistoryWriter

from memtrace.harness.checks import CHECKS
from memtrace.harness.findings import Judgement
from memtrace.harness.record.events import Curated, Expected, PlaneAsked, PlaneFaulty, PlaneHolds, Printed, Timed
from memtrace.harness.rules import RULES
from memtrace.model import Caller, Verdict

ALL = ("turns", "ids", "conv", "facts", "agents", "plane", "advance", "own-spans", "redaction")
DESK = Caller("alice@example.com", "s-alice", "", "desk")


class Writer(HistoryWriter):
    """What happens at a plane too."""

    def __init__(self, **declares: Any) -> None:
        super().__init__(*ALL, **{"plane_timeout": 0.5, "plane_retry": 30.0, **declares})
        self.clock = 100.0

    def curate(self, word: str, op: str = "approve", agent: str = "agent", record: str = "") -> None:
        self.add(Curated, op=op, agent=agent, text=f"We close at {word}.", record=record or word)

    def fault(self, fault: str = "", **details: Any) -> None:
        self.add(PlaneFaulty, fault=fault, details=details, clock=self.clock)

    def ask(self, method: str = "GET", status: int = 200, query: str = "agent_id=agent", **more: Any) -> None:
        fields = {"path": "/public/v1/memory/facts", "headers": {}, "body": "", "fault": ""} | more
        self.add(PlaneAsked, method=method, query=query, status=status, clock=self.clock, **fields)

    def shown(self, caller: Caller, *words: str, asks: bool = True, said: str = "", **more: Any) -> str:
        """A turn that reads the plane, and whose prompt holds these words."""
        text = said or "When?"
        turn = self.begin(caller, text)
        if asks:
            self.ask()
        lines = [f"system: Curated: {word}" for word in words]
        self.model(turn, [*lines, f"user: {text}"], **more)
        return self.end(turn, text="Noted.")

    def said(self, turn: str, freshness: str, **more: Any) -> None:
        self.span("memory.read.plane_facts", turn, attributes={"memtrace.freshness": freshness, **more})


def judged(rule: str, write: Writer) -> Judgement:
    return CHECKS[f"plane.{rule}"](write.history())


def is_(verdict: Verdict, rule: str, write: Writer, because: str = "") -> None:
    found = judged(rule, write)
    assert (found.verdict, because in found.reason) == (verdict, True), found


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.startswith("plane.")])
def test_nothing_follows_from_nothing(rule: str) -> None:
    assert CHECKS[rule](Writer().history()).verdict is Verdict.NOT_EXERCISED


@pytest.mark.parametrize(("words", "times"), [((), "0 times"), ((A, A), "2 times")])
def test_an_approved_fact_that_is_not_there_once_is_a_violation(words: tuple[str, ...], times: str) -> None:
    write = Writer()
    write.curate(A)
    write.shown(ALICE, A)
    is_(Verdict.HELD, "facts-reach-everyone", write)
    write.shown(BOB, *words)
    is_(Verdict.VIOLATED, "facts-reach-everyone", write, times)


def test_a_guessed_turn_accuses_nobody() -> None:
    write = Writer()
    write.curate(A)
    write.shown(BOB, exact=False)
    is_(Verdict.INCONCLUSIVE, "facts-reach-everyone", write, "guess")


def test_a_turn_beside_another_or_after_an_outage_may_not_have_the_newest() -> None:
    write = Writer()
    write.curate(A)
    one = write.begin(ALICE, "When?")
    write.shown(BOB)
    write.end(one)
    write.fault("503")
    write.fault()
    write.shown(BOB, asks=False)
    assert judged("facts-reach-everyone", write).uncontrolled
    write.shown(BOB, asks=True)
    is_(Verdict.VIOLATED, "facts-reach-everyone", write)


def test_writing_to_the_plane_is_a_violation() -> None:
    write = Writer()
    write.ask()
    write.ask("POST", path="/public/v1/governance/enroll")
    is_(Verdict.HELD, "read-only", write)
    write.ask("POST", 405)
    is_(Verdict.VIOLATED, "read-only", write, "POST")


def test_a_plane_that_holds_other_facts_afterwards_was_written_to() -> None:
    write = Writer()
    write.ask()
    write.add(PlaneHolds, facts={"agent": (A,)})
    write.curate(B)
    write.add(PlaneHolds, facts={"agent": (A, B)})
    is_(Verdict.HELD, "read-only", write)
    write.add(PlaneHolds, facts={"agent": (A,)})
    is_(Verdict.VIOLATED, "read-only", write, "other facts")


WAYS: list[dict[str, Any]] = [{"query": f"query={A}"}, {"headers": {"x-memtrace-query": A}}, {"body": A}]


@pytest.mark.parametrize("way", WAYS)
def test_a_question_that_is_sent_with_payloads_off_is_a_violation(way: dict[str, Any]) -> None:
    write = Writer()
    write.turn(ALICE, f"Where is {A}?")
    write.ask()
    is_(Verdict.HELD, "question-stays-home", write)
    write.ask(**way)
    is_(Verdict.VIOLATED, "question-stays-home", write, "payloads are off")


def payloads_on(**more: Any) -> Writer:
    write = Writer()
    fields = {"system": "x", "agent": "agent", "capabilities": ALL, "payloads": True, "declares": {}, "options": {}}
    opened = next(iter(write.history().events))
    write.add(type(opened), **{**fields, **more})
    write.turn(ALICE, f"Where is {A}?")
    return write


def test_with_payloads_on_a_header_may_hold_it_and_a_url_only_where_declared() -> None:
    write = payloads_on()
    write.ask(headers={"x-memtrace-query": A})
    is_(Verdict.HELD, "question-stays-home", write)
    write.ask(query=f"query={A}")
    is_(Verdict.VIOLATED, "question-stays-home", write, "access logs")
    declared = payloads_on(declares={"plane_question_in_url": True})
    declared.ask(query=f"query={A}")
    is_(Verdict.HELD, "question-stays-home", declared)


def test_a_question_that_is_sent_unredacted_or_logged_is_a_violation() -> None:
    write = payloads_on(options={"redaction": True})
    write.ask(headers={"x-memtrace-query": f"{A} [REDACTED]"})
    is_(Verdict.HELD, "question-stays-home", write)
    write.ask(headers={"x-memtrace-query": f"{A}@example.org"})
    is_(Verdict.VIOLATED, "question-stays-home", write, "redaction")
    logged = payloads_on()
    logged.ask()
    logged.add(Printed, text=f"INFO app: {A}\nINFO httpx: GET /memory/facts?query={A}\n")
    is_(Verdict.VIOLATED, "question-stays-home", logged, "log line")


def down(*, shown: bool = True) -> Writer:
    write = Writer()
    write.curate(A)
    if shown:
        write.shown(ALICE, A)
    write.fault("503")
    return write


def test_a_fact_that_is_gone_in_an_outage_is_a_violation() -> None:
    write = down()
    write.shown(BOB, A, asks=False)
    is_(Verdict.HELD, "outage-serves-last", write)
    write.shown(BOB, asks=False)
    is_(Verdict.VIOLATED, "outage-serves-last", write, "known before")


def test_a_turn_that_fails_with_the_plane_is_a_violation() -> None:
    write = down()
    write.turn(BOB, "When?", outcome="failed")
    is_(Verdict.VIOLATED, "outage-serves-last", write, "a turn failed")


def test_what_was_never_shown_before_need_not_be_shown_in_an_outage() -> None:
    write = down(shown=False)
    write.shown(BOB, asks=False)
    assert judged("outage-serves-last", write).uncontrolled


def one_outage(*waits: float, warnings: int = 1, fault: str = "503", **details: Any) -> Writer:
    write = Writer()
    write.fault(fault, **details)
    for wait in (0.0, *waits):
        write.clock += wait
        write.ask(fault=fault, status=503)
    write.fault()
    lines = ["WARNING x: plane down"] * warnings + ["WARNING x: something else", "INFO x: the plane is back"]
    write.add(Printed, text="\n".join(lines))
    return write


def test_a_plane_that_is_asked_too_soon_is_a_violation() -> None:
    is_(Verdict.HELD, "one-warning", one_outage(30.0, 31.0))
    is_(Verdict.VIOLATED, "one-warning", one_outage(30.0, 12.0), "after 12.0 s, not 30 s")
    is_(Verdict.HELD, "one-warning", one_outage(90.0, fault="429", seconds=90))
    is_(Verdict.VIOLATED, "one-warning", one_outage(30.0, fault="429", seconds=90), "not 90 s")
    assert judged("one-warning", one_outage()).uncontrolled


@pytest.mark.parametrize("warnings", [0, 2])
def test_no_warning_and_two_of_one_outage_are_violations(warnings: int) -> None:
    is_(Verdict.VIOLATED, "one-warning", one_outage(30.0, warnings=warnings), f"1 outages were told in {warnings}")


def timed(seconds: float, stalled: float = 0.0) -> Writer:
    write = down()
    turn = write.shown(BOB, A, asks=False)
    write.add(Timed, turn=turn, seconds=seconds, stalled=stalled)
    return write


def test_a_turn_that_takes_longer_than_twice_the_timeout_is_a_violation_unless_the_machine_stood_still() -> None:
    is_(Verdict.HELD, "turn-is-bounded", timed(0.9))
    is_(Verdict.VIOLATED, "turn-is-bounded", timed(1.1), "took 1.1 s")
    is_(Verdict.INCONCLUSIVE, "turn-is-bounded", timed(1.1, stalled=0.4), "stalled")


def test_facts_that_stay_away_after_an_outage_are_a_violation() -> None:
    write = down()
    write.curate(B)
    write.fault()
    turn = write.shown(ALICE, A, B)
    write.add(Expected, rule="plane.recovers", turn=turn, canary=B)
    is_(Verdict.HELD, "recovers", write)
    turn = write.shown(ALICE, A)
    write.add(Expected, rule="plane.recovers", turn=turn, canary=B)
    is_(Verdict.VIOLATED, "recovers", write)


def test_a_retired_fact_in_a_later_prompt_is_a_violation() -> None:
    write = Writer()
    write.curate(A)
    write.shown(ALICE, A)
    write.curate(A, "retire")
    write.shown(ALICE)
    is_(Verdict.HELD, "retired-is-gone", write)
    write.shown(BOB, A)
    is_(Verdict.VIOLATED, "retired-is-gone", write, "retired before")


@pytest.mark.parametrize("op", ["propose", "reject"])
def test_a_fact_that_nobody_approved_in_a_prompt_is_a_violation(op: str) -> None:
    write = Writer()
    write.curate(A)
    write.curate(B, op)
    write.shown(ALICE, A)
    is_(Verdict.HELD, "retired-is-gone", write)
    write.shown(ALICE, A, B)
    is_(Verdict.VIOLATED, "retired-is-gone", write, "nobody approved")


def test_what_is_retired_in_an_outage_may_be_served_until_it_is_over() -> None:
    write = down()
    write.curate(A, "retire")
    write.shown(ALICE, A, asks=False)
    is_(Verdict.HELD, "retired-is-gone", write)


def test_a_fact_of_another_agent_is_a_violation() -> None:
    write = Writer()
    write.curate(A)
    write.curate(C, agent="desk")
    write.shown(ALICE, A)
    write.shown(DESK, C)
    is_(Verdict.HELD, "agents-apart", write)
    write.shown(DESK, C, A)
    is_(Verdict.VIOLATED, "agents-apart", write, "another agent")


def test_a_span_that_does_not_tell_the_state_of_curated_facts_is_a_violation() -> None:
    write = Writer()
    write.curate(A)
    write.said(write.shown(ALICE, A), "fresh", **{"memtrace.age": 0.0})
    write.fault("503")
    write.said(write.shown(BOB, A, asks=False), "stale", **{"memtrace.age": 7.0})
    is_(Verdict.HELD, "staleness-is-visible", write)
    write.shown(BOB, A, asks=False)
    is_(Verdict.VIOLATED, "staleness-is-visible", write, "no span says")


@pytest.mark.parametrize(("said", "because"), [("fresh", "otherwise"), ("stale", "since when")])
def test_a_span_that_says_something_else_is_a_violation(said: str, because: str) -> None:
    write = Writer()
    write.curate(A)
    write.said(write.shown(ALICE, A), "fresh")
    write.fault("503")
    write.said(write.shown(ALICE, A, asks=False), said)
    is_(Verdict.VIOLATED, "staleness-is-visible", write, because)


def test_a_prompt_that_does_not_say_as_declared_that_facts_are_missing_is_a_violation() -> None:
    write = Writer(missing_plane_says="cannot be read")
    write.curate(A)
    write.fault("503")
    write.said(write.shown(ALICE, asks=False), "missing")
    is_(Verdict.VIOLATED, "staleness-is-visible", write, "the prompt does not say so")
