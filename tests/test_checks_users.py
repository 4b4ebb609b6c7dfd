"""The users rules on the smallest histories: the bad one, the nearest good one, the empty one, the doubtful one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from histories import ALICE, BOB, A, B, C, HistoryWriter

from memtrace.harness.checks import CHECKS
from memtrace.harness.findings import Judgement
from memtrace.harness.record.events import Expected, FactsRead, FactWritten, Noted, Scanned
from memtrace.harness.record.history import History
from memtrace.harness.rules import RULES
from memtrace.model import Caller, Fact, Unresolved, Verdict

ANNE = Caller("alice@example.com2", "s-anne", "", "agent")
STAR = Caller("*", "s-star", "", "agent")
NOBODY = Caller("", "s-nobody", "", "agent", Unresolved.NONE)
EMPTY = Caller("", "s-empty", "", "agent")
CAROL = Caller("carol7@example.com", "s-carol", "", "agent")
ALL = (
    "turns", "ids", "conv", "facts", "list", "forget", "erase", "update", "record-ids", "agent-facts", "agents",
    "project", "session", "resolver", "recall", "window",
)  # fmt: skip


def judged(rule: str, history: History) -> Judgement:
    return CHECKS[f"users.{rule}"](history)


def writer(**declares: object) -> HistoryWriter:
    return HistoryWriter(*ALL, **declares)


def said(write: HistoryWriter, caller: Caller, word: str) -> None:
    """A caller says a word, and is shown it again in their next turn."""
    write.turn(caller, f"My code is {word}.")
    write.turn(caller, "What is my code?", prompt=[f"user: My code is {word}.", "user: What is my code?"])


def asks(write: HistoryWriter, caller: Caller, *lines: str, exact: bool = True) -> None:
    write.turn(caller, "What is it?", prompt=[*lines, "user: What is it?"], exact=exact)


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.startswith("users.")])
def test_nothing_follows_from_nothing(rule: str) -> None:
    assert CHECKS[rule](writer().history()).verdict is Verdict.NOT_EXERCISED


# Leaks from one caller to another: who they are decides whose fault it is


LEAKS = [
    ("no-foreign-memory", ALICE, BOB),
    ("similar-ids-apart", ALICE, ANNE),
    ("wildcard-is-not-a-user", ALICE, STAR),
    ("same-session-id-apart", ALICE, replace(BOB, session=ALICE.session)),
    ("project-partitions", ALICE, replace(BOB, project="other")),
    ("unresolved-sees-only-agent-facts", ALICE, NOBODY),
    ("unresolved-writes-nothing", NOBODY, ALICE),
    ("empty-id-reads-nothing", ALICE, EMPTY),
]


@pytest.mark.parametrize(("rule", "owner", "stranger"), LEAKS)
def test_words_of_another_are_a_leak_and_one_rule_answers_for_it(rule: str, owner: Caller, stranger: Caller) -> None:
    write = writer()
    write.turn(owner, f"My code is {A}.")
    asks(write, stranger, f"system: Known: {A}")
    history = write.history()
    accusing = {name for name in RULES if name.startswith("users.") and _accuses(name, history)}
    assert accusing == {f"users.{rule}"}
    evidence = "\n".join(e.text for e in judged(rule, history).evidence)
    assert A in evidence


def _accuses(rule: str, history: History) -> bool:
    return CHECKS[rule](history).verdict is Verdict.VIOLATED


@pytest.mark.parametrize(("rule", "owner", "stranger"), LEAKS)
def test_whose_turn_it_was_must_be_known_to_accuse(rule: str, owner: Caller, stranger: Caller) -> None:
    write = writer()
    write.turn(owner, f"My code is {A}.")
    asks(write, stranger, f"system: Known: {A}", exact=False)
    assert judged(rule, write.history()).verdict is Verdict.INCONCLUSIVE


@pytest.mark.parametrize(("rule", "owner", "stranger"), [row for row in LEAKS if EMPTY not in row])
def test_each_shown_their_own_is_as_it_should_be(rule: str, owner: Caller, stranger: Caller) -> None:
    write = writer()
    for caller, word in ((owner, A), (stranger, B)):
        if caller.unresolved is None:
            said(write, caller, word)
    for caller, word in ((owner, A), (stranger, B)):
        if caller.unresolved is not None:
            write.turn(caller, f"My code is {word}.")
    assert judged(rule, write.history()) == Judgement(Verdict.HELD)


@pytest.mark.parametrize(("rule", "owner", "stranger"), [row for row in LEAKS if EMPTY not in row])
def test_a_memory_that_shows_nothing_keeps_no_rule(rule: str, owner: Caller, stranger: Caller) -> None:
    write = writer()
    for caller, word in ((owner, A), (stranger, B)):
        write.turn(caller, f"My code is {word}.")
        write.turn(caller, "What is my code?")
    judgement = judged(rule, write.history())
    assert (judgement.verdict, judgement.uncontrolled) == (Verdict.INCONCLUSIVE, True)


def test_what_callers_have_in_common_is_not_to_blame_where_anyone_was_shown_it() -> None:
    write = writer()
    write.turn(ALICE, f"My code is {A}.")
    asks(write, ANNE, f"system: Known: {A}")
    asks(write, CAROL, f"system: Known: {A}")
    history = write.history()
    assert judged("no-foreign-memory", history).verdict is Verdict.VIOLATED
    assert judged("similar-ids-apart", history).verdict is not Verdict.VIOLATED


def test_a_rule_that_does_not_apply_is_not_blamed() -> None:
    write = HistoryWriter("turns", "ids", "conv")
    write.turn(ALICE, f"My code is {A}.")
    asks(write, replace(BOB, session=ALICE.session), f"system: Known: {A}")
    assert judged("no-foreign-memory", write.history()).verdict is Verdict.VIOLATED


def test_a_read_that_gives_anothers_words_is_a_leak() -> None:
    write = writer()
    write.fact(ALICE, f"Desk {A}", record="1")
    write.read(BOB, f"Desk {A}")
    assert judged("no-foreign-memory", write.history()).verdict is Verdict.VIOLATED


def test_another_scripts_word_is_a_leak_of_nobody_here() -> None:
    write = writer()
    asks(write, BOB, f"system: Known: {C}")
    assert "another script" in judged("no-foreign-memory", write.history()).evidence[1].text


def test_the_model_may_repeat_in_a_turn_what_entered_in_it() -> None:
    write = writer()
    said(write, ALICE, A)
    turn = write.begin(BOB, f"My code is {B}.")
    write.model(turn, [f"user: My code is {B}."])
    write.model(turn, [f"user: Extract: {B}"], purpose="memory")
    write.end(turn)
    assert judged("no-foreign-memory", write.history()).verdict is Verdict.HELD


def test_of_several_leaks_one_whose_turn_is_known_accuses() -> None:
    write = writer()
    write.turn(ALICE, f"My code is {A}.")
    for exact in (False, True):
        asks(write, BOB, f"system: Known: {A}", exact=exact)
    assert judged("no-foreign-memory", write.history()).verdict is Verdict.VIOLATED


def test_who_looked_before_an_owner_spoke_proves_nothing() -> None:
    write = writer()
    asks(write, BOB)
    said(write, ALICE, A)
    assert judged("no-foreign-memory", write.history()).uncontrolled


# Expectations


def expect(write: HistoryWriter, rule: str, turn: str, word: str, times: str = "some") -> None:
    write.add(Expected, rule=f"users.{rule}", canary=word, turn=turn, times=times, why="so it was said")


def test_an_owner_who_is_not_shown_their_own_has_no_memory() -> None:
    write = writer()
    write.turn(ALICE, f"My code is {A}.")
    expect(write, "own-memory-recalled", write.turn(ALICE, "What is it?"), A)
    assert judged("own-memory-recalled", write.history()).verdict is Verdict.VIOLATED


def test_an_owner_who_is_shown_their_own_has() -> None:
    write = writer()
    write.turn(ALICE, f"My code is {A}.")
    turn = write.turn(ALICE, "What is it?", prompt=[f"user: My code is {A}.", "user: What is it?"])
    expect(write, "own-memory-recalled", turn, A)
    assert judged("own-memory-recalled", write.history()).verdict is Verdict.HELD


@pytest.mark.parametrize(
    ("shown", "verdict"),
    [
        ((True, True), Verdict.HELD),
        ((True, False), Verdict.VIOLATED),
        ((False, True), Verdict.INCONCLUSIVE),
        ((False, False), Verdict.INCONCLUSIVE),
    ],
)
def test_a_quiet_user_is_crowded_out_if_they_were_shown_it_before(shown: tuple[bool, bool], verdict: Verdict) -> None:
    write = HistoryWriter(*ALL)
    write.opened(ALL, recall=True)
    write.turn(ALICE, f"My class is {A}.")
    for is_shown in shown:
        turn = write.turn(ALICE, "When?", prompt=[*([f"system: Earlier: {A}"] if is_shown else []), "user: When?"])
        expect(write, "recall-namespaced", turn, A)
        write.turn(BOB, f"When? {B}")
    assert judged("recall-namespaced", write.history()).verdict is verdict


def test_recall_of_anothers_message_is_blamed_on_recall_where_it_is_on() -> None:
    write = HistoryWriter(*ALL)
    write.opened(ALL, recall=True)
    write.turn(ALICE, f"My class is {A}.")
    asks(write, BOB, f"system: Earlier: My class is {A}.")
    history = write.history()
    assert judged("recall-namespaced", history).verdict is Verdict.VIOLATED
    assert judged("no-foreign-memory", history).verdict is not Verdict.VIOLATED


@pytest.mark.parametrize(("after", "verdict"), [([], Verdict.HELD), ([f"user: {B}"], Verdict.VIOLATED)])
def test_a_dropped_window_is_gone(after: list[str], verdict: Verdict) -> None:
    write = writer(max_users=2)
    for lines, times in (([f"user: {B}"], "some"), (after, "none")):
        turn = write.turn(ALICE, "What?", prompt=[f"system: {A}", *lines, "user: What?"])
        expect(write, "evicted-keeps-facts", turn, A)
        expect(write, "evicted-keeps-facts", turn, B, times)
    assert judged("evicted-keeps-facts", write.history()).verdict is verdict


def test_a_fact_that_went_with_the_window_is_lost() -> None:
    write = writer(max_users=2)
    for lines in ([f"system: {A}"], []):
        expect(write, "evicted-keeps-facts", write.turn(ALICE, "What?", prompt=[*lines, "user: What?"]), A)
    assert judged("evicted-keeps-facts", write.history()).verdict is Verdict.VIOLATED


# Turns that overlap


def overlapping(shown: str, *, exact: bool = True, recalled: bool = True) -> History:
    write = writer()
    first, second = write.begin(ALICE, f"Mine is {A}."), write.begin(BOB, f"Mine is {B}.")
    write.model(first, [f"user: Mine is {A}."])
    write.model(second, [f"user: Mine is {B}."])
    for turn in (first, second):
        write.end(turn)
    asks(write, ALICE, f"user: Mine is {shown}.", exact=exact)
    asks(write, BOB, *([f"user: Mine is {B}."] if recalled else []))
    return write.history()


def test_words_that_change_hands_while_turns_overlap_are_blamed_on_that() -> None:
    assert judged("concurrent-turns-apart", overlapping(B)).verdict is Verdict.VIOLATED
    assert judged("no-foreign-memory", overlapping(B)).verdict is not Verdict.VIOLATED


def test_overlapping_turns_that_keep_to_themselves_are_apart() -> None:
    assert judged("concurrent-turns-apart", overlapping(A)).verdict is Verdict.HELD
    assert judged("concurrent-turns-apart", overlapping(A, recalled=False)).verdict is Verdict.INCONCLUSIVE
    assert judged("concurrent-turns-apart", overlapping(B, exact=False)).verdict is Verdict.INCONCLUSIVE


def test_turns_one_after_another_do_not_overlap() -> None:
    write = writer()
    said(write, ALICE, A)
    said(write, BOB, B)
    assert judged("concurrent-turns-apart", write.history()).verdict is Verdict.NOT_EXERCISED


@pytest.mark.parametrize(
    ("reply", "exact", "verdict"),
    [
        (f"It is {B}.", True, Verdict.HELD),
        (f"It is {A}.", True, Verdict.VIOLATED),
        (f"It is {A}.", False, Verdict.INCONCLUSIVE),
        ("It is.", True, Verdict.HELD),
    ],
)
def test_a_caller_gets_what_the_model_said_to_them(reply: str, exact: bool, verdict: Verdict) -> None:
    write = writer()
    write.turn(ALICE, "How much?", says=f"It is {A}.")
    write.turn(BOB, "How much?", says=f"It is {B}.", reply=reply, exact=exact)
    assert judged("reply-goes-to-its-caller", write.history()).verdict is verdict


def test_a_resumed_run_may_answer_with_what_was_said_before_it_paused() -> None:
    write = writer()
    write.turn(ALICE, "Hello.")
    paused = write.turn(BOB, "Pay.", prompt=["user: Pay."], says=f"Wait: {B}.", outcome="paused", reply="")
    write.turn(BOB, "", prompt=["user: Pay."], via="resume", of=paused, says="Done.", reply=f"Wait: {B}. Done.")
    assert judged("reply-goes-to-its-caller", write.history()).verdict is Verdict.HELD


# Callers who cannot be told


def test_an_agents_facts_are_for_callers_who_cannot_be_told_too() -> None:
    write = writer()
    said(write, ALICE, A)
    write.fact(ALICE, f"Open at {B}", scope="agent")
    asks(write, NOBODY, f"system: Open at {B}")
    assert judged("unresolved-sees-only-agent-facts", write.history()).verdict is Verdict.HELD


def test_two_callers_who_cannot_be_told_share_nothing() -> None:
    write = writer()
    said(write, ALICE, A)
    write.turn(NOBODY, f"My code is {B}.")
    asks(write, replace(NOBODY, session="s-other"), f"user: My code is {B}.")
    history = write.history()
    assert judged("unresolved-writes-nothing", history).verdict is Verdict.VIOLATED
    assert judged("unresolved-sees-only-agent-facts", history).verdict is not Verdict.VIOLATED


@pytest.mark.parametrize(
    ("files", "verdict"),
    [((), Verdict.HELD), (("memory.db",), Verdict.VIOLATED), (("spans.db-wal",), Verdict.HELD)],
)
def test_what_is_on_disk_is_stored_unless_it_is_telemetry(files: tuple[str, ...], verdict: Verdict) -> None:
    write = writer(telemetry=["spans.db*"])
    said(write, ALICE, A)
    write.turn(NOBODY, f"My code is {B}.")
    write.add(Scanned, found={A: ("memory.db",), B: files})
    assert judged("unresolved-writes-nothing", write.history()).verdict is verdict


def changing(read_as: str, kept_for: Caller, *, exact: bool = True) -> History:
    """Alice's context begins to name Bob while her turn runs, in which one's memory is read and another's written."""
    write = writer()
    said(write, ALICE, A)
    said(write, BOB, B)
    write.add(Noted, name="resolves as", value={"user": ALICE.user, "values": [ALICE.user, BOB.user]})
    write.turn(ALICE, f"Mine is {C}.", prompt=[f"user: {read_as}", f"user: Mine is {C}."], exact=exact)
    write.add(Noted, name="resolves as", value={"user": ALICE.user, "values": [ALICE.user]})
    asks(write, kept_for, f"user: Mine is {C}.")
    return write.history()


def test_a_turn_read_as_one_and_written_as_another_is_two_callers() -> None:
    assert judged("resolved-once-per-turn", changing(A, BOB)).verdict is Verdict.VIOLATED
    assert judged("resolved-once-per-turn", changing(A, BOB, exact=False)).verdict is Verdict.INCONCLUSIVE
    assert judged("no-foreign-memory", changing(A, BOB)).verdict is not Verdict.VIOLATED


def test_a_turn_that_goes_by_one_answer_throughout_is_one_callers() -> None:
    assert judged("resolved-once-per-turn", changing(A, ALICE)).verdict is Verdict.HELD
    assert judged("resolved-once-per-turn", changing(B, BOB)).verdict is Verdict.HELD
    assert judged("no-foreign-memory", changing(B, BOB)).verdict is not Verdict.VIOLATED


# Scopes


@pytest.mark.parametrize(("agent", "verdict"), [("agent", Verdict.NOT_EXERCISED), ("other", Verdict.VIOLATED)])
def test_an_agents_fact_is_for_that_agent(agent: str, verdict: Verdict) -> None:
    write = writer()
    write.fact(ALICE, f"Open at {A}", scope="agent")
    asks(write, replace(BOB, agent=agent), f"system: Open at {A}")
    assert judged("agent-facts-stay-with-agent", write.history()).verdict is verdict


@pytest.mark.parametrize(("shown", "verdict"), [(True, Verdict.HELD), (False, Verdict.INCONCLUSIVE)])
def test_an_agents_fact_must_be_seen_at_that_agent(shown: bool, verdict: Verdict) -> None:
    write = writer()
    write.fact(ALICE, f"Open at {A}", scope="agent")
    asks(write, BOB, *([f"system: Open at {A}"] if shown else []))
    asks(write, replace(BOB, agent="other"))
    assert judged("agent-facts-stay-with-agent", write.history()).verdict is verdict


def test_a_user_and_an_agent_of_one_name_are_two() -> None:
    write = writer()
    write.fact(ALICE, f"Desk {A}")
    asks(write, replace(BOB, agent=ALICE.user), f"system: Desk {A}")
    assert judged("agent-facts-stay-with-agent", write.history()).verdict is Verdict.VIOLATED


def test_a_callers_agent_is_the_systems_own_where_they_name_none() -> None:
    write = writer()
    write.fact(replace(ALICE, agent=""), f"Open at {A}", scope="agent")
    asks(write, BOB, f"system: Open at {A}")
    assert judged("agent-facts-stay-with-agent", write.history()).verdict is Verdict.NOT_EXERCISED


def test_an_agents_fact_in_another_project_is_the_projects_fault() -> None:
    write = writer()
    write.fact(replace(ALICE, agent=""), f"Open at {A}", scope="agent")
    asks(write, replace(BOB, project="other"), f"system: Open at {A}")
    assert judged("project-partitions", write.history()).verdict is Verdict.VIOLATED


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        (f"system: Facts of carol7@example.com: {A}", Verdict.VIOLATED),
        (f"system: Facts of CAROL7: {A}", Verdict.VIOLATED),
        (f"system: Facts of carol7%40example.com: {A}", Verdict.VIOLATED),
        (f"system: Facts of the user: {A}", Verdict.HELD),
    ],
)
def test_memory_does_not_tell_the_model_who_asks(line: str, verdict: Verdict) -> None:
    write = writer()
    write.fact(CAROL, f"Desk {A}")
    asks(write, CAROL, line)
    assert judged("id-not-in-prompt", write.history()).verdict is verdict


def test_an_id_that_its_user_says_may_be_in_prompts() -> None:
    write = writer()
    write.turn(CAROL, f"Write to carol7@example.com, code {A}.")
    asks(write, CAROL, f"user: Write to carol7@example.com, code {A}.")
    assert judged("id-not-in-prompt", write.history()).verdict is Verdict.HELD


def test_an_id_in_the_extractors_prompt_is_one_too() -> None:
    write = writer()
    turn = write.begin(CAROL, "Hello.")
    write.model(turn, ["user: Extract facts of carol7@example.com."], purpose="memory", exact=False)
    write.end(turn)
    assert judged("id-not-in-prompt", write.history()).verdict is Verdict.INCONCLUSIVE


# Records


def reads(write: HistoryWriter, caller: Caller, *texts: str, op: str = "facts", **more: object) -> None:
    facts = tuple(Fact(str(n), text) for n, text in enumerate(texts)) if op == "facts" else ()
    write.add(FactsRead, op=op, caller=caller, texts=texts, facts=facts, **more)


def wrote(write: HistoryWriter, caller: Caller, op: str, record: str = "", **more: object) -> None:
    write.add(FactWritten, op=op, caller=caller, record=record, **more)


def between(owner: Caller, *acts: tuple[Caller, str, str], after: str = "", **more: object) -> History:
    """An owner's two looks at a fact of theirs, and what others did in between."""
    write = writer()
    write.fact(owner, f"Desk {A}", record="1")
    reads(write, owner, f"Desk {A}")
    for caller, op, record in acts:
        wrote(write, caller, op, record, **more)
    reads(write, owner, *([after] if after else []))
    return write.history()


LOSSES = [
    ("forget-one-leaves-others", ALICE, (BOB, "forget", "")),
    ("forget-one-leaves-others", ALICE, (BOB, "erase", "")),
    ("similar-ids-apart", ALICE, (ANNE, "forget", "")),
    ("similar-ids-apart", ALICE, (ANNE, "add", "2")),
    ("wildcard-is-not-a-user", ALICE, (STAR, "forget", "")),
    ("project-partitions", ALICE, (replace(ALICE, project="other"), "forget", "")),
    ("foreign-record-untouchable", ALICE, (BOB, "forget", "1")),
    ("foreign-record-untouchable", ALICE, (BOB, "update", "1")),
    ("empty-id-reads-nothing", ALICE, (EMPTY, "forget", "")),
]


@pytest.mark.parametrize(("rule", "owner", "act"), LOSSES)
def test_what_is_gone_after_anothers_act_is_a_loss_and_one_rule_answers_for_it(
    rule: str, owner: Caller, act: tuple[Caller, str, str]
) -> None:
    history = between(owner, act)
    assert {name for name in RULES if name.startswith("users.") and _accuses(name, history)} == {f"users.{rule}"}


@pytest.mark.parametrize(("rule", "owner", "act"), LOSSES)
def test_what_is_still_there_is_no_loss(rule: str, owner: Caller, act: tuple[Caller, str, str]) -> None:
    history = between(owner, act, after=f"Desk {A}", count=1)
    assert judged(rule, history).verdict is not Verdict.VIOLATED


def test_forgetting_that_leaves_others_is_as_it_should_be() -> None:
    assert judged("forget-one-leaves-others", between(ALICE, (BOB, "forget", ""), after=f"Desk {A}", count=1)) == (
        Judgement(Verdict.HELD)
    )


def test_forgetting_nothing_shows_nothing() -> None:
    history = between(ALICE, (BOB, "forget", ""), after=f"Desk {A}", count=0)
    assert judged("forget-one-leaves-others", history).uncontrolled


def test_what_its_owner_forgot_is_not_lost() -> None:
    history = between(ALICE, (BOB, "forget", ""), (ALICE, "forget", ""))
    assert judged("forget-one-leaves-others", history).verdict is not Verdict.VIOLATED


def test_what_was_refused_is_not_to_blame() -> None:
    history = between(ALICE, (BOB, "forget", ""), error="Refused: no", refused=True)
    assert judged("forget-one-leaves-others", history).verdict is not Verdict.VIOLATED


@pytest.mark.parametrize("fields", [{"limit": 0}, {"error": "TimeoutError: slow"}])
def test_a_read_that_may_not_show_all_shows_no_loss(fields: dict[str, object]) -> None:
    write = writer()
    write.fact(ALICE, f"Desk {A}", record="1")
    reads(write, ALICE, f"Desk {A}")
    wrote(write, BOB, "forget", count=1)
    reads(write, ALICE, **fields)
    assert judged("forget-one-leaves-others", write.history()).verdict is not Verdict.VIOLATED


def test_a_superseded_fact_that_is_no_longer_listed_is_not_lost() -> None:
    write = writer()
    write.fact(ALICE, f"Desk {A}", record="1")
    old = Fact("1", f"Desk {A}", superseded=True)
    write.add(FactsRead, op="facts", caller=ALICE, texts=(old.text,), facts=(old,))
    wrote(write, BOB, "forget", count=1)
    reads(write, ALICE)
    assert judged("forget-one-leaves-others", write.history()).verdict is not Verdict.VIOLATED


def test_a_fact_that_leaves_a_later_prompt_for_the_same_question_is_lost() -> None:
    write = writer()
    write.fact(ALICE, f"Desk {A}", record="1")
    asks(write, ALICE, f"system: Desk {A}")
    wrote(write, BOB, "forget", count=1)
    asks(write, ALICE)
    assert judged("forget-one-leaves-others", write.history()).verdict is Verdict.VIOLATED


@pytest.mark.parametrize(
    ("rule", "act"),
    [
        ("foreign-record-untouchable", (BOB, "forget", "1")),
        ("foreign-record-untouchable", (BOB, "update", "1")),
        ("foreign-record-untouchable", (ALICE, "forget", "1")),
        ("forget-one-leaves-others", (BOB, "forget", "")),
        ("forget-one-leaves-others", (BOB, "erase", "")),
        ("", (ALICE, "erase", "")),  # the fact may be taken for hers, who stored it
        ("", (BOB, "add", "2")),
        ("forget-one-leaves-others", (BOB, "forget", "2")),
    ],
)
def test_what_is_gone_of_an_agents_is_a_loss_by_naming_it_or_by_forgetting_a_user(
    rule: str, act: tuple[Caller, str, str]
) -> None:
    caller, op, record = act
    write = writer()
    write.fact(ALICE, f"Open at {A}", scope="agent", record="1")
    asks(write, ALICE, f"system: Open at {A}")
    wrote(write, caller, op, record, count=1)
    asks(write, ALICE)
    accused = {name for name in RULES if name.startswith("users.") and _accuses(name, write.history())}
    assert accused == ({f"users.{rule}"} if rule else set())


@pytest.mark.parametrize(("prompt", "verdict"), [((f"system: Open at {A}",), Verdict.HELD), ((), Verdict.INCONCLUSIVE)])
def test_an_agents_record_that_was_named_is_shown_again(prompt: tuple[str, ...], verdict: Verdict) -> None:
    write = writer()
    write.fact(ALICE, f"Open at {A}", scope="agent", record="1")
    wrote(write, BOB, "forget", "1", count=0)
    asks(write, ALICE, *prompt)
    assert judged("foreign-record-untouchable", write.history()).verdict is verdict


def test_similar_ids_are_not_to_blame_where_forgetting_takes_from_everyone() -> None:
    write = writer()
    for caller, word in ((ALICE, A), (CAROL, C)):
        write.fact(caller, f"Desk {word}", record=word)
        reads(write, caller, f"Desk {word}")
    wrote(write, ANNE, "forget", count=1)
    for caller in (ALICE, CAROL):
        reads(write, caller)
    history = write.history()
    assert judged("forget-one-leaves-others", history).verdict is Verdict.VIOLATED
    assert judged("similar-ids-apart", history).verdict is not Verdict.VIOLATED


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({}, Verdict.HELD),
        ({"error": "Refused: not yours", "refused": True}, Verdict.HELD),
        ({"error": "KeyError: 1"}, Verdict.INCONCLUSIVE),
    ],
)
def test_an_exception_is_not_a_refusal(fields: dict[str, object], verdict: Verdict) -> None:
    history = between(ALICE, (BOB, "update", "1"), after=f"Desk {A}", **fields)
    assert judged("foreign-record-untouchable", history).verdict is verdict
    empty = between(ALICE, (EMPTY, "forget", ""), after=f"Desk {A}", **fields)
    assert judged("empty-id-reads-nothing", empty).verdict is verdict


def test_anothers_record_is_not_read_by_its_id() -> None:
    write = writer()
    write.fact(ALICE, f"Desk {A}", record="1")
    reads(write, BOB, f"Desk {A}", op="get", record="1")
    assert judged("foreign-record-untouchable", write.history()).verdict is Verdict.VIOLATED


def test_text_put_into_anothers_record_is_blamed_on_naming_it() -> None:
    write = writer()
    write.fact(ALICE, f"Desk {A}", record="1")
    wrote(write, BOB, "update", "1", text=f"Desk {B}")
    reads(write, ALICE, f"Desk {B}")
    assert judged("foreign-record-untouchable", write.history()).verdict is Verdict.VIOLATED


def test_an_owner_must_look_after_their_record_was_named() -> None:
    write = writer()
    write.fact(ALICE, f"Desk {A}", record="1")
    reads(write, ALICE, f"Desk {A}")
    wrote(write, BOB, "forget", "1", count=0)
    judgement = judged("foreign-record-untouchable", write.history())
    assert (judgement.verdict, judgement.uncontrolled) == (Verdict.INCONCLUSIVE, True)


def test_an_id_that_was_given_again_is_its_new_owners() -> None:
    write = writer()
    write.fact(ALICE, f"Desk {A}", record="1")
    wrote(write, ALICE, "forget", count=1)
    write.fact(BOB, f"Desk {B}", record="1")
    reads(write, BOB, f"Desk {B}", op="get", record="1")
    assert judged("foreign-record-untouchable", write.history()).verdict is Verdict.NOT_EXERCISED


def test_an_empty_id_is_not_even_shown_what_was_stored_under_it() -> None:
    write = writer()
    said(write, ALICE, A)
    write.fact(EMPTY, f"Desk {B}")
    reads(write, EMPTY, f"Desk {B}")
    assert judged("empty-id-reads-nothing", write.history()).verdict is Verdict.VIOLATED


def test_callers_who_are_refused_need_no_proof_of_a_memory() -> None:
    write = writer()
    said(write, ALICE, A)
    write.turn(STAR, f"My code is {B}.", outcome="refused")
    assert judged("wildcard-is-not-a-user", write.history()).verdict is Verdict.HELD
