"""Offline learning: whose words are mined, how often, and who may read what comes of it."""

from __future__ import annotations

import json

import pytest
from remembering import Lab, MemoryModel, ask, say, user_scope

from memtrace.errors import UsageError
from memtrace.model import Level, Scope
from memtrace.reference import Mined, PastTurn, TurnLog
from memtrace.reference.turnlog import statement

pytestmark = pytest.mark.filterwarnings("ignore::memtrace.identity.IdKeyWarning")
AGENT = Scope(Level.AGENT, "shop")


@pytest.fixture
def lab(tmp_path):
    lab = Lab(tmp_path)
    yield lab
    lab.store.close()


def logged(lab, reply=None, **options):
    """A memory that logs turns and learns offline only."""
    memory = lab.memory(turn_log=TurnLog(lab.path / "turns.db"), **options)
    memory._learn = MemoryModel(reply)
    return memory


@pytest.fixture
def memory(lab):
    return logged(lab)


def agent_facts(lab, agent="shop", project=""):
    return [record.text for record in lab.store.newest(Scope(Level.AGENT, agent, project), None)]


def test_only_users_words_are_mined_each_turn_once(lab, memory):
    memory.persist("agent fact", tier="global")
    say(memory, "alice", "I like fish", "Fish is tasty"), say(memory, "alice", "I like bread", "So do I")
    assert memory.learn_offline(scope="user", scope_id="alice", personal=True) == Mined(
        2, 0, ("I like fish", "I like bread")
    )
    assert [[m.text for m in prompt[1:]] for prompt in memory._learn.prompts] == [["I like fish"], ["I like bread"]]
    assert memory.learn_offline(scope="user", scope_id="alice", personal=True) == Mined()
    assert len(memory._learn.prompts) == 2
    assert lab.facts("alice") == ["I like bread", "I like fish"]


def test_another_process_mines_no_turn_again(lab, memory):
    say(memory, "alice", "I like fish")
    memory.learn_offline(scope="user", scope_id="alice", personal=True)
    assert logged(lab).learn_offline(scope="user", scope_id="alice", personal=True) == Mined()


def test_a_turn_that_another_process_claimed_meanwhile_is_left_to_it(lab, memory):
    say(memory, "alice", "I like fish"), say(memory, "alice", "I like bread")
    [first, second] = memory._turn_log.unmined(user_scope("alice"), agent="shop")

    def claims(messages):
        memory._turn_log.claim(second, user_scope("alice"))
        return '["I like fish"]'

    memory._learn = MemoryModel(claims)
    assert memory.learn_offline(scope="user", scope_id="alice", personal=True).turns == 1
    assert not memory._turn_log.claim(first, user_scope("alice"))


def test_a_mined_fact_is_marked_and_linked_to_the_turn_that_taught_it(lab, memory):
    say(memory, "alice", "I like fish")
    [turn] = lab.spans("memory.write.turn_log")
    memory.learn_offline(scope="user", scope_id="alice", personal=True)
    [record] = lab.store.newest(user_scope("alice"))
    assert (record.source, record.confidence) == ("learned", 0.6)
    assert record.source_trace_id == f"{turn.context.trace_id:032x}"
    assert record.source_span_id == f"{turn.context.span_id:016x}"


def test_at_agent_scope_what_one_or_two_users_said_reaches_nobody_else(lab, memory):
    for _ in range(3):
        say(memory, "alice", "my code is secretword"), say(memory, "bob", "My  CODE is secretword")
    assert memory.learn_offline().facts == ()
    assert "secretword" not in ask(memory, "carol")
    assert agent_facts(lab) == []


def test_at_agent_scope_what_three_users_said_in_the_same_words_is_kept_also_over_several_runs(lab, memory):
    for user in ("alice", "bob", "carol"):
        assert agent_facts(lab) == []
        say(memory, user, "The shop closes at noon.")
        mined = memory.learn_offline()
    assert mined == Mined(1, 0, ("The shop closes at noon.",))
    assert "closes at noon" in ask(memory, "dan")
    assert lab.store.newest(AGENT)[0].source == "learned"


@pytest.mark.parametrize("let_go", ["erase", "forget all", "forget it"])
def test_an_agent_fact_goes_when_too_few_are_left_who_said_it(lab, memory, let_go):
    for user in ("alice", "bob", "carol"):
        say(memory, user, "The shop closes at noon."), say(memory, user, "Fish is fresh.")
    memory.persist("By hand.", tier="global")
    memory.learn_offline()
    assert len(agent_facts(lab)) == 3
    memory.persist("The shop closes at noon.", scope_id="alice")
    {
        "erase": lambda: memory.erase("alice"),
        "forget all": lambda: memory.forget(scope_id="alice"),
        "forget it": lambda: memory.forget(scope_id="alice", fact="the shop closes at noon."),
    }[let_go]()
    assert agent_facts(lab) == (["Fish is fresh.", "By hand."] if let_go == "forget it" else ["By hand."])
    memory.learn_offline()
    assert "noon" not in "".join(agent_facts(lab))


def test_an_agent_fact_that_was_persisted_by_hand_since_stays(lab, memory):
    for user in ("alice", "bob", "carol"):
        say(memory, user, "The shop closes at noon.")
    memory.learn_offline()
    memory.persist("The shop closes at noon.", tier="global")
    memory.erase("alice")
    assert agent_facts(lab) == ["The shop closes at noon."]


def test_a_fact_that_enough_others_still_say_stays(lab, memory):
    for user in ("alice", "bob", "carol", "dan"):
        say(memory, user, "The shop closes at noon.")
    memory.learn_offline()
    memory.erase("alice")
    assert agent_facts(lab) == ["The shop closes at noon."]


def test_personal_scopes_must_be_asked_for(lab, memory):
    say(memory, "alice", "I like fish")
    for scope, scope_id in (("user", "alice"), ("project", "apollo")):
        with pytest.raises(UsageError, match="personal=True"):
            memory.learn_offline(scope=scope, scope_id=scope_id)
    assert memory._learn.prompts == []


def test_at_user_scope_only_that_users_turns_are_read(lab, memory):
    say(memory, "alice", "I like fish"), say(memory, "bob", "I like bread"), say(memory, "*", "I like tea")
    memory.learn_offline(scope="user", scope_id="bob", personal=True)
    assert lab.facts("bob") == ["I like bread"]
    assert len(memory._learn.prompts) == 1
    memory.learn_offline(scope="user", scope_id="*", personal=True)
    assert lab.facts("*") == ["I like tea"]


def test_at_project_scope_all_turns_become_that_projects_facts(lab, memory):
    say(memory, "alice", "I like fish"), say(memory, "bob", "I like bread")
    memory.learn_offline(scope="project", scope_id="apollo", personal=True)
    assert [r.text for r in memory.retrieve(tier="project", scope_id="apollo")] == ["I like bread", "I like fish"]
    assert "I like" not in ask(logged(lab), "carol")


@pytest.mark.parametrize(
    "options",
    [
        {"scope": "user", "personal": True},
        {"scope": "project", "personal": True},
        {"scope": "everyone"},
        {"scope": "agent", "scope_id": "other"},
        {"max_traces": -1},
    ],
    ids=repr,
)
def test_options_that_name_nobody_are_refused(memory, options):
    with pytest.raises(UsageError):
        memory.learn_offline(**options)


def test_without_a_log_a_model_or_an_agent_it_is_refused(lab):
    for options in ({"learn": MemoryModel()}, {"turn_log": TurnLog(lab.path / "turns.db")}):
        with pytest.raises(UsageError, match="turn_log= and learn="):
            lab.memory(**options).learn_offline()
    with pytest.raises(UsageError, match="agent="):
        lab.memory(agent_id=None).learn_offline()


def test_a_dry_run_tells_what_would_be_kept_and_keeps_nothing(lab, memory):
    for user in ("alice", "bob", "carol"):
        say(memory, user, "The shop closes at noon.")
    assert memory.learn_offline(dry_run=True) == Mined(3, 0, ("The shop closes at noon.",))
    assert agent_facts(lab) == []
    assert memory.learn_offline(dry_run=True).turns == 3
    assert memory.learn_offline().facts == ("The shop closes at noon.",)


def test_the_oldest_turns_come_first_and_no_more_than_asked_for(lab, memory):
    for number in range(5):
        say(memory, "alice", f"fact {number}")
    options = {"scope": "user", "scope_id": "alice", "personal": True}
    assert memory.learn_offline(max_traces=2, **options).facts == ("fact 0", "fact 1")
    assert memory.learn_offline(max_traces=0, **options).turns == 0
    assert memory.learn_offline(max_traces=2, **options).facts == ("fact 2", "fact 3")


def test_turns_before_the_chosen_time_are_left_alone(lab):
    now = [100.0]
    memory = logged(lab, clock=lambda: now[0])
    say(memory, "alice", "early")
    now[0] = 200.0
    say(memory, "alice", "late")
    assert memory.learn_offline(scope="user", scope_id="alice", personal=True, since=150.0).facts == ("late",)


def test_a_failed_extraction_leaves_its_turn_for_another_run(lab, caplog):
    memory = logged(lab, lambda messages: "no list" if "fish" in messages[1].text else json.dumps([messages[1].text]))
    say(memory, "alice", "I like fish"), say(memory, "alice", "I like bread")
    options = {"scope": "user", "scope_id": "alice", "personal": True}
    assert memory.learn_offline(**options) == Mined(2, 1, ("I like bread",))
    assert caplog.text.count("offline learning failed") == 1
    assert "fish" not in caplog.text
    assert [span.status.is_ok for span in lab.spans("memory.write.facts")] == [False, True]
    memory._learn = MemoryModel()
    assert memory.learn_offline(**options) == Mined(1, 0, ("I like fish",))


def test_what_was_forgotten_is_not_mined_again(lab, memory):
    say(memory, "alice", "I like fish"), say(memory, "bob", "I like bread")
    options = {"scope": "user", "personal": True}
    memory.learn_offline(scope_id="alice", **options)
    memory.forget(scope_id="alice", fact="I like fish")
    say(memory, "alice", "I like tea")
    memory.forget(scope_id="alice")
    assert memory.learn_offline(scope_id="alice", **options) == Mined()
    assert lab.facts("alice") == []
    assert memory.learn_offline(scope_id="bob", **options).facts == ("I like bread",)
    say(memory, "alice", "I like fish")
    assert memory.learn_offline(scope_id="alice", **options).facts == ("I like fish",)


def test_a_forgotten_agent_fact_comes_back_only_when_it_is_said_anew(lab, memory):
    for user in ("alice", "bob", "carol"):
        say(memory, user, "The shop closes at noon.")
    memory.learn_offline()
    say(memory, "dan", "The shop closes at noon.")
    assert memory.forget(tier="global", fact="The shop closes at noon.") == 1
    assert memory.learn_offline() == Mined()
    for user in ("alice", "bob"):
        say(memory, user, "The shop closes at noon.")
    memory.learn_offline()
    assert agent_facts(lab) == []
    say(memory, "dan", "The shop closes at noon.")
    memory.learn_offline()
    assert agent_facts(lab) == ["The shop closes at noon."]


@pytest.mark.parametrize("scope", ["user", "agent"])
def test_a_user_who_is_erased_while_their_turn_is_mined_is_not_brought_back(lab, memory, scope):
    for user in ("bob", "carol", "alice"):
        say(memory, user, "The shop closes at noon.")

    def erases(messages):
        if not lab.store.newest(Scope(Level.SESSION, "alice")) and mined_last():
            memory.erase("alice")
        return json.dumps([messages[1].text])

    def mined_last():
        return scope == "user" or len(memory._learn.prompts) == 3

    memory._learn = MemoryModel(erases)
    memory.learn_offline(scope=scope, scope_id="alice" if scope == "user" else "", personal=True)
    assert lab.facts("alice") == []
    assert agent_facts(lab) == []


def test_each_agent_and_project_has_turns_of_its_own(lab):
    one, two, far = logged(lab), logged(lab, agent_id="shop2"), logged(lab, project_id="acme")
    for memory, word in ((one, "one"), (two, "two"), (far, "far")):
        for user in ("alice", "bob", "carol"):
            say(memory, user, f"It is {word}.")
    assert one.learn_offline() == Mined(3, 0, ("It is one.",))
    assert one.learn_offline(agent="shop2").facts == ("It is two.",)
    assert agent_facts(lab, "shop2") == ["It is two."]
    assert far.learn_offline().facts == ("It is far.",)
    assert agent_facts(lab, project="acme") == ["It is far."]


def test_the_cap_holds_offline_too(lab):
    memory = logged(lab, max_learned_facts=2)
    memory.persist("by hand", scope_id="alice")
    for number in range(4):
        say(memory, "alice", f"fact {number}")
    memory.learn_offline(scope="user", scope_id="alice", personal=True)
    assert lab.facts("alice") == ["fact 3", "fact 2", "by hand"]


def test_a_failed_turn_and_an_unresolved_one_are_not_logged(lab, memory):
    memory.open("alice").read("never written")
    turn = memory.open(None)
    turn.write("anonymous", "ok")
    assert memory._turn_log.unmined(AGENT, agent="shop") == []
    assert b"anonymous" not in lab.raw()


def test_nothing_of_a_turn_that_left_the_log_stays_in_its_file(lab):
    log = TurnLog(lab.path / "turns.db")
    turns = [log.add(PastTurn("", "shop", "alice", f"secretword {number}", 1.0)) for number in range(2)]
    [first, _] = log.unmined(AGENT, agent="shop")
    log.claim(first, AGENT), log.support(first, [statement("", "shop", "x")])
    log.remove(turns[1])
    assert b"secretword 1" not in lab.raw()
    assert [(made.digest, left) for made, left in log.withdraw("", "alice")] == [(statement("", "", "x").digest, 0)]
    assert b"secretword" not in lab.raw()
    with log._database.transaction() as connection:
        assert connection.execute("SELECT (SELECT count(*) FROM mined), (SELECT count(*) FROM said)").fetchone() == (
            0,
            0,
        )
