"""The check of writes that a crash cut short, on the smallest bad history of each kind and the nearest good one."""

from __future__ import annotations

import pytest
from histories import ALICE, BOB, A, B, C, HistoryWriter

from memtrace.harness.checks import CHECKS
from memtrace.harness.findings import Judgement
from memtrace.harness.record.events import FactsRead, FactWritten, ProcessEnded, ProcessStarted
from memtrace.harness.scenes.closing_in import closing_in
from memtrace.model import Caller, Fact, Verdict

OLD, NEW, OTHER = f"A cat called {A}.", f"A dog called {B}.", f"A home in {C}."
GONE = "process-1 is gone"


class Crash(HistoryWriter):
    """A process that dies while it adds, or puts a new fact in the place of the old one; the next goes on."""

    def __init__(self, op: str = "add", *, error: str = GONE, how: str = "kill", before: bool = True) -> None:
        super().__init__("turns", "ids", "facts", "list", "reopen")
        self.op = op
        self.process = "process-1"
        self.add(ProcessStarted, pid=1)
        self.fact(ALICE, OTHER)
        if op == "update":
            self.fact(ALICE, OLD, record=OLD)
        if before:
            self.listed(OTHER, *([OLD] if op == "update" else []))
        self.written(error=error)
        self.next_process(how)

    def written(self, *, error: str = "", caller: Caller = ALICE) -> None:
        record = OLD if self.op == "update" else "" if error else NEW
        returned = "" if error or self.op == "add" else NEW
        self.add(FactWritten, op=self.op, caller=caller, text=NEW, record=record, returned=returned, error=error)

    def listed(self, *texts: str, caller: Caller = ALICE, error: str = "") -> None:
        facts = tuple(Fact(text, text) for text in texts)
        self.add(FactsRead, op="facts", caller=caller, texts=texts, facts=facts, error=error)

    def forget(self, record: str, *, caller: Caller = ALICE) -> None:
        self.add(FactWritten, op="forget", caller=caller, record=record)

    def bob_forgets(self, *, until_when: str = "ever") -> None:
        """Forgetting works where nobody died: for ever, or for as long as the process lives."""
        self.add(FactWritten, op="add", caller=BOB, text="x", record="1")
        self.listed("x", caller=BOB)
        self.forget("1", caller=BOB)
        self.listed(caller=BOB)
        self.next_process("exit")
        self.listed(*([] if until_when == "ever" else ["x"]), caller=BOB)

    def next_process(self, how: str = "kill") -> None:
        """The one that goes on ends, and another does."""
        self.add(ProcessEnded, how=how)
        self.process = f"process-{int(self.process[-1]) + 1}"
        self.add(ProcessStarted, pid=1)

    def judged(self) -> Judgement:
        return CHECKS["backends.add-is-atomic"](self.history())


@pytest.mark.parametrize(
    ("op", "left", "says"),
    [
        ("add", [OTHER, NEW], ""),
        ("add", [NEW, OTHER], ""),
        ("add", [], "less than there was before"),
        ("add", [NEW], "less than there was before"),
        ("add", [OTHER, NEW, NEW], "neither those before it nor those after"),
        ("add", [OTHER, NEW[:9]], "neither those before it nor those after"),
        ("update", [OTHER, NEW], ""),
        ("update", [OTHER, OLD, NEW], "both the old fact and the new one"),
        ("update", [OTHER], "neither the old fact nor the new one"),
        ("update", [NEW], "less than there was before"),
    ],
)
def test_a_crash_leaves_the_facts_before_it_or_those_after(op: str, left: list[str], says: str) -> None:
    write = Crash(op)
    write.listed(*left)
    judgement = write.judged()
    assert judgement.verdict is (Verdict.VIOLATED if says else Verdict.HELD)
    assert says in judgement.reason


@pytest.mark.parametrize(
    ("op", "then", "says"),
    [
        ("add", [OTHER, NEW], ""),
        ("add", [OTHER], "is not among the facts"),
        ("add", [OTHER, NEW, NEW], "is there twice"),
        ("add", [NEW], "is not all there is"),
        ("update", [OTHER, NEW], ""),
        ("update", [OTHER, OLD], "is not among the facts"),
        ("update", [OTHER, NEW, OLD], "is not all there is"),
    ],
)
def test_the_same_call_made_again_makes_it(op: str, then: list[str], says: str) -> None:
    write = Crash(op)
    write.listed(OTHER, *([OLD] if op == "update" else []))
    write.written()
    write.listed(*then)
    judgement = write.judged()
    assert judgement.verdict is (Verdict.VIOLATED if says else Verdict.HELD)
    assert says in judgement.reason


@pytest.mark.parametrize("how", ["kill", "exit"])
@pytest.mark.parametrize(
    ("op", "then", "says"),
    [
        ("add", [NEW, OTHER], ""),
        ("add", [OTHER], "is not among the facts for another process"),
        ("add", [OTHER, NEW, NEW], "is there twice for another process"),
        ("add", [NEW], "is not all there is for another process"),
        ("update", [OTHER, NEW], ""),
        ("update", [OTHER, OLD], "is not among the facts for another process"),
        ("update", [OTHER, NEW, OLD], "is not all there is for another process"),
    ],
)
def test_what_was_made_again_is_stored_and_not_only_remembered(op: str, then: list[str], says: str, how: str) -> None:
    write = Crash(op)
    write.listed(OTHER, *([OLD] if op == "update" else []))
    write.written()
    write.listed(OTHER, NEW)
    write.listed(OTHER, NEW)
    write.next_process(how)
    write.listed(*then)
    judgement = write.judged()
    assert judgement.verdict is (Verdict.VIOLATED if says else Verdict.HELD)
    assert says in judgement.reason
    if says:
        assert [one.title for one in judgement.evidence][2:] == [
            "the facts then: process-2",
            "the facts then: process-3",
        ]


@pytest.mark.parametrize("op", ["add", "update"])
@pytest.mark.parametrize(("then", "verdict"), [([NEW, OTHER], Verdict.HELD), ([OTHER], Verdict.VIOLATED)])
def test_what_a_crash_left_is_the_same_for_the_next_process_but_one(op: str, then: list[str], verdict: Verdict) -> None:
    write = Crash(op)
    write.listed(OTHER, NEW)
    write.next_process()
    write.listed(*then)
    judgement = write.judged()
    assert judgement.verdict is verdict
    assert ("is not what another process finds later" in judgement.reason) is (verdict is Verdict.VIOLATED)


def test_a_process_that_was_there_before_may_know_less() -> None:
    """Whether it sees what others wrote is for another rule."""
    write = Crash()
    write.process = "process-3"
    write.add(ProcessStarted, pid=1)
    write.process = "process-2"
    write.listed(OTHER)
    write.written()
    write.listed(OTHER, NEW)
    write.process = "process-3"
    write.listed(OTHER)
    assert write.judged().verdict is Verdict.HELD


@pytest.mark.parametrize(
    ("op", "prompt", "exact", "verdict"),
    [
        ("add", f"{C} {B}", True, Verdict.HELD),
        ("add", C, True, Verdict.VIOLATED),
        ("add", C, False, Verdict.INCONCLUSIVE),
        ("add", "nothing at all", True, Verdict.HELD),
        ("update", f"{C} {B}", True, Verdict.HELD),
        ("update", f"{C} {A} {B}", True, Verdict.VIOLATED),
        ("update", f"{C} {A}", True, Verdict.VIOLATED),
    ],
)
def test_a_prompt_that_shows_the_other_facts_shows_what_is_listed(
    op: str, prompt: str, exact: bool, verdict: Verdict
) -> None:
    write = Crash(op)
    write.listed(OTHER, NEW)
    write.turn(ALICE, "hello", prompt=[f"system: {prompt}", "user: hello"], exact=exact)
    assert write.judged().verdict is verdict


@pytest.mark.parametrize(
    ("works", "then", "verdict"),
    [(True, [OTHER], Verdict.HELD), (True, [OTHER, NEW], Verdict.VIOLATED), (False, [OTHER, NEW], Verdict.HELD)],
)
def test_what_was_stored_again_can_be_forgotten_where_anything_can(
    works: bool, then: list[str], verdict: Verdict
) -> None:
    write = Crash()
    if works:
        write.bob_forgets()
    write.listed(OTHER)
    write.written()
    write.listed(OTHER, NEW)
    write.forget(NEW)
    write.listed(*then)
    assert write.judged().verdict is verdict


@pytest.mark.parametrize(
    ("until_when", "verdict"), [("ever", Verdict.VIOLATED), ("it ends", Verdict.HELD)], ids=["works", "never lasts"]
)
def test_what_was_forgotten_stays_so_for_the_next_process_where_anything_does(
    until_when: str, verdict: Verdict
) -> None:
    write = Crash()
    write.bob_forgets(until_when=until_when)
    write.listed(OTHER)
    write.written()
    write.listed(OTHER, NEW)
    write.forget(NEW)
    write.listed(OTHER)
    write.next_process()
    write.listed(OTHER, NEW)
    assert write.judged().verdict is verdict


def test_a_second_write_after_a_crash_that_fails_is_no_accusation() -> None:
    write = Crash()
    write.listed(OTHER)
    write.written(error="StoreError: busy")
    write.listed(OTHER)
    judgement = write.judged()
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert "not made again with success" in judgement.reason


def test_facts_that_cannot_be_read_after_a_crash_are_no_accusation() -> None:
    write = Crash()
    write.listed(error="StoreError: busy")
    judgement = write.judged()
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert "could not be listed" in judgement.reason


@pytest.mark.parametrize(
    "write",
    [Crash(error=""), Crash(how="exit", error="StoreError: full"), Crash(before=False)],
    ids=["acknowledged", "an exception", "nobody knows what was there"],
)
def test_what_was_no_crash_in_a_write_is_not_judged(write: Crash) -> None:
    write.listed()
    judgement = write.judged()
    assert judgement.verdict is not Verdict.VIOLATED
    assert judgement.uncontrolled


def test_what_another_has_stored_or_forgotten_does_not_count() -> None:
    write = Crash()
    write.written(caller=BOB)
    write.listed(NEW, caller=BOB)
    write.listed(OTHER, NEW)
    assert write.judged().verdict is Verdict.HELD


@pytest.mark.parametrize("moments", [1, 2, 9, 25])
def test_the_moments_on_both_sides_of_each_change_are_tried(moments: int) -> None:
    for first_new in range(1, moments + 2):
        tried: list[int] = []

        def left_the_new(after: int, tried: list[int] = tried, first_new: int = first_new) -> bool:
            tried.append(after)
            return after >= first_new

        closing_in(moments, left_the_new)
        assert {first_new - 1, first_new} & set(range(1, moments + 1)) <= set(tried)
        assert len(tried) <= 6


def test_where_there_is_no_moment_nothing_is_tried() -> None:
    closing_in(0, lambda _after: pytest.fail("there is none"))
