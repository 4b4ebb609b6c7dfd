"""The checks of the backends boundary, on the smallest bad history of each and the nearest good one."""

from __future__ import annotations

import pytest
from histories import ALICE, BOB, A, B, HistoryWriter

from memtrace.harness.checks import CHECKS
from memtrace.harness.findings import Judgement
from memtrace.harness.record.events import Expected, FactsRead, FactWritten, Noted, StoreFaulty, Timed
from memtrace.harness.seen.moments import GOES, STOPPED
from memtrace.harness.seen.slopes import BEST_OF, DURATIONS, NEWEST, STORED, slope
from memtrace.model import Fact, Verdict


def writer(**declares: object) -> HistoryWriter:
    return HistoryWriter("turns", "ids", "facts", "list", "memory-spans", **declares)


def judged(rule: str, write: HistoryWriter) -> Judgement:
    return CHECKS[rule](write.history())


def outage(write: HistoryWriter, *, lacks: bool, says: str = "UNSET", outcome: str = "ok", exact: bool = True) -> None:
    """A turn with a stored fact in its prompt, and one in an outage."""
    write.fact(ALICE, f"Desk {A}.")
    write.turn(ALICE, "hello", prompt=[f"system: Desk {A}.", "user: hello"])
    write.add(StoreFaulty, fault="refused")
    turn = write.begin(ALICE, "hello")
    write.span("memory.read", turn, status=says)
    if outcome == "ok":
        write.model(turn, ["user: hello"] if lacks else [f"system: Desk {A}.", "user: hello"], exact=exact)
    write.end(turn, outcome)
    write.add(StoreFaulty, fault="")


@pytest.mark.parametrize("rule", [rule for rule in CHECKS if rule.startswith("backends.")])
def test_an_empty_history_says_nothing(rule: str) -> None:
    judgement = judged(rule, writer(deadline=1.0))
    assert judgement.verdict is Verdict.NOT_EXERCISED or judgement.uncontrolled


@pytest.mark.parametrize(
    ("lacks", "says", "outcome", "exact", "verdict"),
    [
        (True, "UNSET", "ok", True, Verdict.VIOLATED),
        (True, "UNSET", "ok", False, Verdict.INCONCLUSIVE),
        (True, "ERROR", "ok", True, Verdict.HELD),
        (True, "UNSET", "failed", True, Verdict.HELD),
        (False, "UNSET", "ok", True, Verdict.INCONCLUSIVE),
    ],
)
def test_a_prompt_without_stored_facts_needs_a_span_that_says_why(
    lacks: bool, says: str, outcome: str, exact: bool, verdict: Verdict
) -> None:
    write = writer()
    outage(write, lacks=lacks, says=says, outcome=outcome, exact=exact)
    assert judged("backends.outage-is-visible", write).verdict is verdict


@pytest.mark.parametrize(
    ("lacks", "outcome", "exact", "verdict"),
    [
        (False, "ok", True, Verdict.HELD),
        (True, "ok", True, Verdict.VIOLATED),
        (True, "ok", False, Verdict.INCONCLUSIVE),
        (False, "failed", True, Verdict.VIOLATED),
    ],
)
def test_what_was_known_is_served_while_the_store_fails(
    lacks: bool, outcome: str, exact: bool, verdict: Verdict
) -> None:
    write = writer(deadline=1.0)
    outage(write, lacks=lacks, outcome=outcome, exact=exact)
    assert judged("backends.outage-is-bounded", write).verdict is verdict


@pytest.mark.parametrize(
    ("seconds", "stalled", "verdict"),
    [(1.9, 0.0, Verdict.HELD), (2.1, 0.0, Verdict.VIOLATED), (2.1, 0.6, Verdict.INCONCLUSIVE)],
)
def test_a_turn_ends_within_twice_its_deadline_unless_the_machine_stood_still(
    seconds: float, stalled: float, verdict: Verdict
) -> None:
    write = writer(deadline=1.0)
    outage(write, lacks=False)
    last = list(write.history().turns)[-1]
    write.add(Timed, turn=last, seconds=seconds, stalled=stalled)
    assert judged("backends.outage-is-bounded", write).verdict is verdict


def test_without_a_declared_deadline_nothing_is_late() -> None:
    write = writer()
    outage(write, lacks=True)
    assert judged("backends.outage-is-bounded", write).verdict is Verdict.NOT_EXERCISED


@pytest.mark.parametrize(
    ("texts", "limit", "verdict"),
    [
        (("two", "one"), None, Verdict.HELD),
        (("one", "two"), None, Verdict.VIOLATED),
        (("two", "one"), 1, Verdict.VIOLATED),
        (("one",), 1, Verdict.VIOLATED),
        (("two",), 1, Verdict.INCONCLUSIVE),
    ],
)
def test_a_listing_has_the_newest_first_and_no_more_than_were_asked_for(
    texts: tuple[str, ...], limit: int | None, verdict: Verdict
) -> None:
    write = writer()
    for text in ("one", "two"):
        write.fact(ALICE, text)
    write.add(FactsRead, op="facts", caller=ALICE, texts=texts, limit=limit)
    assert judged("backends.newest-means-newest", write).verdict is verdict


def test_facts_of_one_moment_have_one_order_whichever_it_is() -> None:
    write = writer()
    for text in ("one", "two"):
        write.fact(ALICE, text)
    facts = {text: Fact(text, text, created_at=5.0) for text in ("one", "two")}
    for texts, verdict in ((("one", "two"), Verdict.HELD), (("two", "one"), Verdict.VIOLATED)):
        write.add(FactsRead, op="facts", caller=ALICE, texts=texts, facts=tuple(facts[text] for text in texts))
        assert judged("backends.newest-means-newest", write).verdict is verdict


@pytest.mark.parametrize(
    ("limit", "texts", "verdict"),
    [
        (None, ("three", "one", "two"), Verdict.HELD),
        (2, ("three", "one"), Verdict.HELD),
        (2, ("one", "two"), Verdict.VIOLATED),
        (None, ("one", "three", "two"), Verdict.VIOLATED),
    ],
)
def test_facts_that_came_while_the_clock_stood_still_are_of_one_moment(
    limit: int | None, texts: tuple[str, ...], verdict: Verdict
) -> None:
    write = writer()
    write.add(Noted, name=STOPPED)
    write.fact(ALICE, "one")
    write.fact(ALICE, "two")
    write.add(Noted, name=GOES)
    write.fact(ALICE, "three")
    write.add(FactsRead, op="facts", caller=ALICE, texts=texts, limit=limit)
    assert judged("backends.newest-means-newest", write).verdict is verdict


@pytest.mark.parametrize(
    ("there", "error", "verdict"),
    [
        (("x",), "", Verdict.HELD),
        (("x", "y"), "", Verdict.VIOLATED),
        (("x",), "too long", Verdict.VIOLATED),
    ],
)
def test_two_stores_give_the_same_answers(there: tuple[str, ...], error: str, verdict: Verdict) -> None:
    write = writer()
    for store, caller, texts, failure in (("here", ALICE, ("x",), ""), ("there", BOB, there, error)):
        write.add(Noted, name="store", value=store)
        write.add(FactWritten, op="add", caller=caller, text="x", error=failure)
        write.read(caller, *texts)
    assert judged("backends.same-answers", write).verdict is verdict


@pytest.mark.parametrize(("shown", "verdict"), [(A, Verdict.HELD), (B, Verdict.VIOLATED)])
def test_what_is_stored_is_in_the_prompt(shown: str, verdict: Verdict) -> None:
    write = writer()
    turn = write.turn(ALICE, "hello", prompt=[f"system: {shown}", "user: hello"])
    write.add(Expected, rule="backends.lifecycle", canary=A, turn=turn)
    assert judged("backends.lifecycle", write).verdict is verdict


AROUND = [took for best in (0.98, 0.99, 1.0, 1.01, 1.02) * 12 for took in (3.0, best, 2.0, 1.5, 9.0)]
ONE = [1.0] * len(AROUND)
SWINGING = ([0.1] * BEST_OF + [10.0] * BEST_OF) * 30
DRIFTING = [1.0 + turn / 10 for turn in range(len(AROUND))]


def timed(few: list[float], some: list[float], many: list[float], **changed: int) -> HistoryWriter:
    """Durations of reads at three sizes; ``changed``: how many facts are there, or are listed."""
    write = writer()
    write.add(Noted, name=DURATIONS, value={"50": few, "500": some, "5000": many})
    write.add(Noted, name=STORED, value={"50": 50, "5000": changed.get("there", 5000)})
    write.add(FactsRead, op="facts", caller=ALICE, texts=("x",) * changed.get("listed", NEWEST), limit=NEWEST)
    return write


def times(factor: float) -> list[float]:
    return [factor * took for took in AROUND]


@pytest.mark.parametrize(
    ("some", "many", "verdict"),
    [
        (1.0, 1.0, Verdict.HELD),
        (1.2, 1.5, Verdict.HELD),
        (1.3, 1.7, Verdict.VIOLATED),
        (0.9, 0.5, Verdict.HELD),
        (10.0, 100.0, Verdict.VIOLATED),
    ],
)
def test_a_read_is_flat_where_the_whole_interval_lies_under_the_bound(
    some: float, many: float, verdict: Verdict
) -> None:
    assert judged("backends.read-is-flat", timed(AROUND, times(some), times(many))).verdict is verdict


def test_the_slope_is_the_power_with_which_time_grows() -> None:
    assert slope({"50": AROUND, "500": times(10), "5000": times(100)}) == pytest.approx((1.0, 1.0, 1.0))
    assert slope({"50": ONE, "500": ONE, "5000": ONE}) == pytest.approx((0.0, 0.0, 0.0))
    assert str(slope({"50": ONE, "500": ONE, "5000": SWINGING})) == "0.00 (95 % between -0.50 and 0.50)"


@pytest.mark.parametrize(
    "durations",
    [
        {"50": ONE},
        {"50": ONE, "500": ONE[BEST_OF:]},
        {"50": ONE[1:], "500": ONE[1:]},
        {"50": ONE, "500": [0.0] * len(ONE)},
        {"50": [], "500": []},
        {},
    ],
)
def test_what_no_slope_can_be_drawn_through_is_refused(durations: dict[str, list[float]]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  some are the standard library's words
        slope(durations)


def test_of_sixty_slopes_the_median_lies_between_the_22nd_and_the_39th() -> None:
    steeper = [10 ** (turn / 50) for turn in range(1, 61) for _ in range(BEST_OF)]
    assert slope({"50": ONE, "500": ONE, "5000": steeper}) == pytest.approx((0.22, 0.305, 0.39))


def test_what_slows_all_sizes_or_single_reads_down_is_no_growth() -> None:
    assert slope(dict.fromkeys(("50", "500", "5000"), DRIFTING)) == pytest.approx((0.0, 0.0, 0.0))
    assert slope({"50": ONE, "500": ONE, "5000": [1.0, *[99.0] * (BEST_OF - 1)] * 60}) == pytest.approx((0.0, 0.0, 0.0))


def test_a_slope_on_both_sides_of_the_bound_is_undecided() -> None:
    judgement = judged("backends.read-is-flat", timed(ONE, ONE, SWINGING))
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert judgement.reason.startswith("the machine is too noisy to tell: the slope is 0.00")


@pytest.mark.parametrize("changed", [{"there": 200}, {"listed": 49}])
def test_a_read_of_less_than_was_asked_for_shows_nothing(changed: dict[str, int]) -> None:
    judgement = judged("backends.read-is-flat", timed(AROUND, AROUND, AROUND, **changed))
    assert judgement.verdict is Verdict.INCONCLUSIVE
    assert judgement.uncontrolled


def test_without_durations_nothing_is_said_of_a_read() -> None:
    assert judged("backends.read-is-flat", writer()).verdict is Verdict.NOT_EXERCISED
