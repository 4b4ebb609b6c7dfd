"""Who said it: what becomes a fact, how it is marked, and which facts stay."""

from __future__ import annotations

import json

import pytest
from remembering import Lab, MemoryModel, ask, say, systems, user_scope

from memtrace.errors import UsageError
from memtrace.model import Author
from memtrace.tracing import Tracing

pytestmark = pytest.mark.filterwarnings("ignore::memtrace.identity.IdKeyWarning")


@pytest.fixture
def lab(tmp_path):
    lab = Lab(tmp_path)
    yield lab
    lab.store.close()


def test_the_extractor_is_shown_the_users_words_of_this_turn_and_nothing_else(lab):
    learn = MemoryModel()
    memory = lab.memory(learn=learn, recall="auto", summarize=MemoryModel("summed up"), window=2)
    memory.persist("agent fact", tier="global"), memory.persist("hand fact", scope_id="alice")
    say(memory, "alice", "first words", "first reply")
    say(memory, "alice", "second words", "second reply")
    say(memory, "alice", "third words", "third reply")
    assert [[m.text for m in prompt[1:]] for prompt in learn.prompts] == [
        ["first words"],
        ["second words"],
        ["third words"],
    ]
    assert len({prompt[0] for prompt in learn.prompts}) == 1
    assert {m.author for prompt in learn.prompts for m in prompt[1:]} == {Author.USER}
    assert lab.facts("alice") == ["third words", "second words", "first words", "hand fact"]


def test_a_learned_fact_is_marked_and_linked_to_the_span_that_wrote_it(lab):
    memory = lab.memory(learn=MemoryModel(), clock=lambda: 12.5)
    say(memory, "alice", "I like fish")
    [record] = lab.store.newest(user_scope("alice"))
    [span] = lab.spans("memory.write.facts")
    assert (record.confidence, record.source, record.created_at) == (0.6, "learned", 12.5)
    assert record.source_trace_id == f"{span.context.trace_id:032x}"
    assert record.source_span_id == f"{span.context.span_id:016x}"


def test_a_fact_by_hand_is_not_marked_learned(lab):
    record = lab.memory().persist("Allergic to nuts.", scope_id="alice")
    [span] = lab.spans("memory.persist")
    assert (record.confidence, record.source) == (1.0, "")
    assert record.source_span_id == f"{span.context.span_id:016x}"


def test_at_most_so_many_facts_are_kept_of_one_message(lab):
    memory = lab.memory(learn=MemoryModel(json.dumps([f"fact {n}" for n in range(30)])), max_facts_per_message=10)
    say(memory, "alice", "much")
    assert sorted(lab.facts("alice")) == [f"fact {n}" for n in range(10)]


@pytest.mark.parametrize("traced", [True, False])
def test_the_cap_keeps_the_newest_learned_facts_and_every_one_by_hand(lab, traced):
    options = {} if traced else {"tracing": Tracing(tracer_provider=None)}
    memory = lab.memory(learn=MemoryModel(), max_learned_facts=3, **options)
    memory.persist("by hand", scope_id="alice")
    for number in range(6):
        say(memory, "alice", f"fact {number}")
    say(memory, "bob", "fact of bob")
    assert lab.facts("alice") == ["fact 5", "fact 4", "fact 3", "by hand"]
    assert lab.facts("bob") == ["fact of bob"]


def test_the_cap_spares_a_fact_that_was_learned_before_it_was_persisted_by_hand(lab):
    memory = lab.memory(learn=MemoryModel(), max_learned_facts=2)
    say(memory, "alice", "Allergic to nuts.")
    kept = memory.persist("Allergic to nuts.", scope_id="alice")
    assert (kept.source, kept.confidence) == ("", 1.0)
    for number in range(5):
        say(memory, "alice", f"fact {number}")
    assert lab.facts("alice") == ["fact 4", "fact 3", "Allergic to nuts."]


def test_learning_a_fact_that_is_there_by_hand_leaves_it_by_hand(lab):
    memory = lab.memory(learn=MemoryModel())
    memory.persist("I like fish", scope_id="alice")
    say(memory, "alice", "I like fish")
    [record] = lab.store.newest(user_scope("alice"))
    assert record.source == ""


MALFORMED = {
    "prose": "I found nothing.",
    "cut short": '["I like fi',
    "bad escape": '["a \\x b"]',
    "empty": "",
    "null": "null",
    "number": "3",
    "string": '"I like fish"',
    "other object": '{"error": ["rate limited"]}',
    "nested": '{"a": {"facts": ["I like fish"]}}',
    "numbers": "[1, 2]",
    "half": '["I like fish", 3]',
    "facts is a text": '{"facts": "I like fish"}',
}


@pytest.mark.parametrize("reply", MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_extraction_is_visible_keeps_nothing_and_hinders_nothing(lab, reply, caplog):
    learn = MemoryModel(reply)
    memory = lab.memory(learn=learn)
    say(memory, "alice", "I like fish")
    [span] = lab.spans("memory.write.facts")
    assert not span.status.is_ok
    assert span.attributes["error.type"] == "memtrace.errors.AdapterError"
    assert len(caplog.records) == 1
    assert "fish" not in caplog.text
    assert lab.facts("alice") == []
    learn.reply = '["I like fish"]'
    assert [m.text for m in memory.for_user("alice").messages] == ["I like fish", "Noted."]
    say(memory, "alice", "hello")
    assert lab.facts("alice") == ["I like fish"]


WELL_FORMED = {
    "list": '["I like fish"]',
    "object": '{"facts": ["I like fish"]}',
    "fenced": '```json\n["I like fish"]\n```',
    "prose around": 'Sure {here you are}: ["I like fish"] -- [that is all]',
    "blank ones": '["", "  I like fish  ", "   "]',
    "twice": '["I like fish", "i  like FISH"]',
    "NUL": '["I like\\u0000 fish"]',
}


@pytest.mark.parametrize("reply", WELL_FORMED.values(), ids=WELL_FORMED)
def test_the_forms_in_which_models_answer_are_understood(lab, reply):
    memory = lab.memory(learn=MemoryModel(reply))
    say(memory, "alice", "hello")
    assert lab.facts("alice") == ["I like fish"]


@pytest.mark.parametrize("reply", ["[]", '{"facts": []}', '[""]', "Nothing: []"])
def test_an_empty_extraction_keeps_nothing_and_is_no_failure(lab, reply):
    memory = lab.memory(learn=MemoryModel(reply))
    say(memory, "alice", "hello")
    assert lab.facts("alice") == []
    assert lab.spans("memory.write.facts")[0].status.is_ok


def test_a_lone_surrogate_in_one_fact_does_not_lose_the_others(lab):
    memory = lab.memory(learn=MemoryModel('["a\\ud800", "I like fish"]'))
    say(memory, "alice", "hello")
    assert lab.facts("alice") == ["I like fish", "a?"]


def test_a_failing_extraction_model_is_visible_and_the_turn_is_kept(lab, caplog):
    def fails(messages):
        raise ConnectionError("I like fish")

    memory = lab.memory(learn=MemoryModel(fails))
    say(memory, "alice", "I like fish")
    assert len(memory.for_user("alice").messages) == 2
    assert lab.spans("memory.write.facts")[0].attributes["error.type"] == "ConnectionError"
    assert caplog.messages == ["writing facts failed: ConnectionError"]


def test_recalled_and_injected_memory_is_not_learned_again(lab):
    memory = lab.memory(learn=MemoryModel(), recall="auto", window=0)
    say(memory, "alice", "My dog Rex likes fish.")
    rows = len(lab.store.history(user_scope("alice")))
    say(memory, "alice", "My dog Rex likes fish.")
    assert len(lab.store.history(user_scope("alice"))) == rows


def test_a_forgotten_fact_that_is_stated_again_is_stored_again(lab):
    memory = lab.memory(learn=MemoryModel())
    for _ in range(3):
        say(memory, "alice", "I live in Lisbon")
        assert lab.facts("alice") == ["I live in Lisbon"]
        assert memory.forget(scope_id="alice", fact="I live in Lisbon") == 1
        assert lab.facts("alice") == []
        assert "Learned facts" not in ask(memory, "alice")


def test_an_update_keeps_the_old_fact_superseded_and_there_and_back_leaves_the_first_active(lab):
    memory = lab.memory()
    first = memory.persist("Lives in Lisbon", scope_id="alice")
    second = memory.update("Lives in Porto", old=first.id, scope_id="alice")
    assert lab.facts("alice") == ["Lives in Porto"]
    assert lab.store.get(user_scope("alice"), first.id).superseded_by == second.id
    third = memory.update("Lives in Lisbon", old="lives in porto", scope_id="alice")
    assert lab.facts("alice") == ["Lives in Lisbon"]
    assert memory.update("Lives in Lisbon", old=third.id, scope_id="alice") == third
    assert len(lab.store.history(user_scope("alice"))) == 3
    assert memory.forget(scope_id="alice", fact="Lives in Porto") == 2
    assert lab.store.history(user_scope("alice")) == [third]


def test_naming_another_users_record_reads_updates_and_deletes_nothing(lab):
    memory = lab.memory()
    hers = memory.persist("Lives in Lisbon", scope_id="alice")
    with pytest.raises(UsageError):
        memory.update("Lives in Porto", old=hers.id, scope_id="bob")
    assert memory.forget(scope_id="bob", fact=hers.id) == 0
    assert memory.forget(scope_id="bob", fact="Lives in Lisbon") == 0
    assert lab.facts("alice") == ["Lives in Lisbon"]


def test_an_empty_id_reads_and_forgets_nothing(lab):
    memory = lab.memory()
    memory.persist("Lives in Lisbon", scope_id="alice")
    assert memory.retrieve() == []
    for refused in (
        lambda: memory.forget(fact="Lives in Lisbon"),
        lambda: memory.persist("x"),
        lambda: memory.erase(""),
        lambda: memory.for_user(""),
        lambda: memory.update("x", old="Lives in Lisbon"),
    ):
        with pytest.raises(UsageError):
            refused()
    with pytest.raises(UsageError, match="scope_id="):
        memory.forget()
    assert memory.retrieve(scope_id="*") == []
    assert memory.forget(scope_id="*") == 0
    assert lab.facts("alice") == ["Lives in Lisbon"]


def test_a_memory_of_one_user_needs_no_id(lab):
    memory = lab.memory(user_id="me")
    memory.persist("Lives in Lisbon")
    assert [record.text for record in memory.retrieve()] == ["Lives in Lisbon"]
    assert "Lisbon" in ask(memory, None)
    assert memory.forget() == 1


@pytest.mark.parametrize("tier", ["session", "agent", ""])
def test_a_tier_that_holds_no_facts_is_refused(lab, tier):
    with pytest.raises(UsageError, match="tier="):
        lab.memory().persist("x", tier=tier, scope_id="a")


def test_blank_facts_and_negative_limits_are_refused(lab):
    memory = lab.memory()
    with pytest.raises(UsageError, match="blank"):
        memory.persist(" \n", scope_id="alice")
    with pytest.raises(UsageError, match="limit=-1"):
        memory.retrieve(scope_id="alice", limit=-1)


def test_project_facts_are_kept_apart_and_reach_no_prompt(lab):
    memory = lab.memory()
    memory.persist("The deadline is May.", tier="project", scope_id="apollo")
    assert [r.text for r in memory.retrieve(tier="project", scope_id="apollo")] == ["The deadline is May."]
    assert memory.retrieve(tier="project", scope_id="gemini") == []
    assert "May" not in ask(memory, "alice")


def test_what_the_model_queued_takes_effect_after_the_turn_and_never_without_it(lab):
    memory = lab.memory()
    memory.persist("Lives in Lisbon", scope_id="alice")
    failed = memory.open("alice")
    failed.forget("Lives in Lisbon"), failed.remember("Lives in Rome")
    turn = memory.open("alice")
    turn.forget("lives in  lisbon"), turn.remember("Lives in Porto"), turn.remember("Has a cat")
    turn.forget("Has a cat"), turn.remember(" ")
    assert systems(turn.read("hi"))[0].count("\n") == 1
    assert lab.facts("alice") == ["Lives in Lisbon"]
    turn.write("I moved", "ok")
    assert lab.facts("alice") == ["Lives in Porto"]
    [record] = lab.store.newest(user_scope("alice"))
    assert (record.source, record.confidence) == ("learned", 0.6)
    [span] = lab.spans("memory.write.queued")
    assert (span.attributes["memtrace.author"], span.attributes["memory.count"]) == ("assistant", 1)
    assert not lab.store.newest(user_scope("bob"))
