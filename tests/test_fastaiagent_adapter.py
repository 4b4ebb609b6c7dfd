"""The fastaiagent adapter does what it claims, on both faces: what the SDK makes of it is the suite's business."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fastaiagent.kb.chunking import Chunk

from memtrace.adapters import KNOWN
from memtrace.adapters import fastaiagent as adapter
from memtrace.adapters.vectors import VectorFile
from memtrace.harness.record.events import CalledBack, ModelCalled, SpanEnded
from memtrace.harness.running.embedding import embed
from memtrace.harness.scripted_model.openai_api import Step
from memtrace.harness.scripted_model.scripting import use_tool
from memtrace.harness.scripted_model.server import ModelServer
from memtrace.harness.stage import Stage
from memtrace.harness.system import APPROVAL_TOOL, ModelRequest, complaints, load_factory
from memtrace.model import Author, Caller, Message, Outcome, Prompt, Unresolved

Open = Callable[..., Stage]


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture(params=["sync", "aio"])
def opened(request: pytest.FixtureRequest, server: ModelServer, tmp_path: Path) -> Iterator[Open]:
    stages: list[Stage] = []

    def open_stage(**options: object) -> Stage:
        stage = Stage(getattr(adapter, request.param), server, tmp_path, run="abcd", options=options)
        stages.append(stage)
        return stage

    yield open_stage
    for stage in stages:
        stage.close()


def prompts(stage: Stage, purpose: str = "answer") -> list[Prompt]:
    return [e.prompt for e in stage.history().events if isinstance(e, ModelCalled) and e.purpose == purpose]


def last_prompt(stage: Stage) -> str:
    return prompts(stage)[-1].text


@pytest.mark.parametrize("name", ["fastaiagent", "fastaiagent-async"])
def test_known_name_loads_a_factory(name):
    assert load_factory(name, KNOWN).__module__ == "memtrace.adapters.fastaiagent"


def test_claims_are_consistent(opened):
    assert complaints(opened().system) == []


def test_prompt_is_in_the_declared_order(opened):
    stage = opened(recall=True, summary=True, window=2)
    alice = stage.caller()
    stage.add(alice, "We open at nine.", "agent")
    stage.remembers(["Alice plays the saxophone."], *[[]] * 20)
    for number in range(8):
        stage.turn(alice, f"I practise the saxophone daily, part {number}.")
    stage.turn(alice, "What about the saxophone?")
    texts = [message.text for message in prompts(stage)[-1].messages]
    starts = (
        "You are",
        "Learned facts (agent:",
        "Learned facts (user)",
        "Relevant prior",
        "I practise",
        "Noted.",
        "What about",
    )
    assert [text.startswith(start) for text, start in zip(texts, starts, strict=True)] == [True] * 7


def test_streamed_answer_arrives(opened):
    stage = opened()
    reply = stage.stream(stage.caller(), "Say it.", says=["one two three"])
    assert (reply.outcome, reply.text) == (Outcome.OK, "one two three")


def test_stream_can_be_left(opened):
    stage = opened()
    assert stage.stream(stage.caller(), "Say it.", says=["one two three"], leave_after=1).outcome is Outcome.ABANDONED


@pytest.mark.parametrize("position", ["input", "output"])
def test_guardrail_blocks(opened, position):
    stage = opened()
    assert stage.turn(stage.caller(), "Hello.", blocks=position).outcome is Outcome.BLOCKED


def test_tool_is_called_and_limited(opened):
    stage = opened(limit=2)
    alice = stage.caller()
    assert stage.turn(alice, "Look.", says=[use_tool("x"), "Seen."], tool_returns=["a fish"]).text == "Seen."
    assert "a fish" in last_prompt(stage)
    assert stage.turn(alice, "Look.", says=[use_tool("x")] * 3).outcome is Outcome.LIMIT


def test_step_after_the_answer_can_fail_the_turn(opened):
    stage = opened()
    assert stage.turn(stage.caller(), "Hello.", fails="after_run").outcome is Outcome.FAILED


@pytest.mark.parametrize(("approved", "result"), [(True, "a fish"), (False, "Declined.")])
def test_paused_turn_is_resumed(opened, approved, result):
    stage = opened()
    paused = stage.turn(stage.caller(), "Pay.", says=[use_tool("x", name=APPROVAL_TOOL)])
    assert paused.outcome is Outcome.PAUSED
    resumed = stage.resume(paused, approved=approved, says=["Done."], tool_returns=["a fish"])
    assert (resumed.outcome, resumed.text) == (Outcome.OK, "Done.")
    assert result in last_prompt(stage)


def test_paused_turn_is_resumed_after_a_restart(opened):
    stage = opened()
    paused = stage.turn(stage.caller(), "Pay.", says=[use_tool("x", name=APPROVAL_TOOL)])
    stage.reopen()
    assert stage.resume(paused, says=["Done."]).text == "Done."


def test_paused_turn_is_forked(opened):
    stage = opened()
    paused = stage.turn(stage.caller(), "Pay.", says=[use_tool("x", name=APPROVAL_TOOL)])
    assert stage.fork(paused, says=["Forked."]).text == "Forked."
    assert stage.resume(paused, says=["Done."]).text == "Done."


def test_running_turn_is_cancelled(opened):
    stage = opened()
    with stage.hold("model") as hold:
        running = stage.start(stage.caller(), "Wait.", expect=Outcome.CANCELLED)
        assert hold.reached()
        assert running.cancel().outcome is Outcome.CANCELLED


def test_first_agent_hands_over(opened):
    stage = opened()
    step = Step(calls=(stage.system.handoff_call("For the expert."),))
    assert stage.turn(stage.caller(), "Help.", via="handoff", says=[step, "Expertly."]).text == "Expertly."
    assert "For the expert." in last_prompt(stage)


def test_supervisor_delegates(opened):
    stage = opened()
    step = Step(calls=(stage.system.delegate_call("Do it."),))
    alice = stage.caller()
    assert stage.turn(alice, "Help.", via="delegate", says=[step, "Did it.", "All done."]).text == "All done."
    assert ["Do it." in prompt.text for prompt in prompts(stage)] == [False, True, True]
    assert stage.messages(alice) == ()


def test_facts_are_added_updated_listed_and_forgotten(opened):
    stage = opened()
    alice, bob = stage.callers(2)
    tea = stage.add(alice, "Alice likes tea.")
    assert stage.get(alice, tea).text == "Alice likes tea."
    assert stage.get(bob, tea) is None
    coffee = stage.update(alice, tea, "Alice likes coffee.")
    stage.add(bob, "Bob likes tea.")
    assert [fact.text for fact in stage.facts(alice)] == ["Alice likes coffee."]
    assert [(f.text, f.superseded) for f in stage.facts(alice, superseded=True)][1:] == [("Alice likes tea.", True)]
    assert stage.forget(alice, coffee) == 1
    assert stage.facts(alice) == ()
    assert stage.forget(bob) == 1


def test_empty_user_id_is_refused_where_the_sdk_says_so(opened):
    stage = opened()
    nobody = stage.caller(user="")
    assert stage._write("add", nobody, (nobody, "Tea.")).outcome is Outcome.REFUSED
    assert stage._write("forget", nobody, (nobody,)).outcome is Outcome.REFUSED
    assert stage.facts(nobody) == ()


def test_agent_fact_is_that_agents_alone(opened):
    stage = opened()
    alice = stage.caller()
    record = stage.add(alice, "We open at nine.", "agent")
    stage.turn(alice, "When?")
    assert "We open at nine." in last_prompt(stage)
    stage.turn(stage.caller(agent="another"), "When?")
    assert "We open at nine." not in last_prompt(stage)
    assert stage.forget(alice, record) == 1


def test_project_is_its_own(opened):
    stage = opened()
    here, there = Caller("alice", project="one"), Caller("alice", project="two")
    stage.add(here, "Alice likes tea.")
    assert len(stage.facts(here)) == 1
    assert stage.facts(there) == ()


@pytest.mark.parametrize("why", list(Unresolved))
def test_unresolved_caller_is_served(opened, why):
    stage = opened()
    assert stage.turn(stage.anonymous(why), "Who am I?").outcome is Outcome.OK


def test_caller_without_a_context_is_never_resolved(opened):
    stage = opened()
    stage.turn(stage.anonymous(Unresolved.ABSENT), "Who am I?")
    stage.turn(stage.anonymous(Unresolved.NONE), "Who am I?")
    turns = {e.turn for e in stage.history().events if isinstance(e, CalledBack) and e.point == "resolve"}
    assert len(turns) == 1


def test_learned_fact_is_shown_with_its_source(opened):
    stage = opened()
    alice = stage.caller()
    stage.turn(alice, "I like tea.")
    (fact,) = stage.facts(alice)
    assert (fact.text, fact.source, fact.confidence, fact.owner) == ("I like tea.", "learned", 0.6, alice.user)
    assert fact.source_trace_id


def test_learning_can_be_switched_off(opened):
    stage = opened(learn=False)
    alice = stage.caller()
    stage.turn(alice, "I like tea.")
    assert stage.facts(alice) == ()


def test_window_is_saved_and_loaded(opened, tmp_path):
    stage = opened()
    alice = stage.caller()
    stage.turn(alice, "I like tea.", says=["Noted."])
    said = (Message(Author.USER, "I like tea."), Message(Author.ASSISTANT, "Noted."))
    assert stage.messages(alice) == said
    stage.save(alice, tmp_path / "saved")
    stage.reopen()
    assert stage.messages(alice) == ()
    stage.load(alice, tmp_path / "saved")
    assert stage.messages(alice) == said


def test_recall_and_facts_survive_a_restart(opened):
    stage = opened(recall=True)
    alice = stage.caller()
    stage.turn(alice, "I play the saxophone.")
    stage.reopen()
    stage.turn(alice, "Which instrument is it, the saxophone?")
    assert "Learned facts (user):\n- I play the saxophone." in last_prompt(stage)
    assert "Relevant prior exchanges:\n- [user] I play the saxophone." in last_prompt(stage)


def test_search_is_by_meaning(opened):
    stage = opened()
    alice = stage.caller()
    stage.add(alice, "Alice lives in Lisbon.")
    stage.add(alice, "Alice plays the saxophone.")
    assert stage.search(alice, "the saxophone")[0] == "Alice plays the saxophone."


def test_redaction_is_on_the_way_to_the_model(opened):
    stage = opened(redaction=True)
    alice = stage.caller()
    stage.turn(alice, "Write to jane@example.org.")
    assert "jane@example.org" not in last_prompt(stage)
    assert stage.messages(alice)[0].text == "Write to jane@example.org."


def test_summary_is_kept_when_asked_for(opened):
    stage = opened(summary=True, learn=False)
    alice = stage.caller()
    for number in range(9):
        stage.turn(alice, f"Part {number} of my story.")
    assert "Conversation summary so far: Part 0 of my story." in last_prompt(stage)


def test_past_turns_are_mined_once(opened):
    stage = opened(learn=False)
    alice = stage.caller()
    stage.turn(alice, "We open at nine.")
    assert stage.learn_offline(alice).value == 1
    assert stage.learn_offline(alice).value == 0
    stage.turn(stage.caller(), "When?")
    assert "We open at nine." in last_prompt(stage)


def test_personal_mining_needs_its_flag(opened):
    stage = opened(learn=False)
    alice = stage.caller()
    stage.turn(alice, "I like tea.")
    with pytest.raises(stage.system.refusals):
        stage.system.learn_offline(caller=alice, scope="user")
    assert stage.system.learn_offline(caller=alice, scope="user", personal=True) == 1
    assert [fact.text for fact in stage.facts(alice)] == ["I like tea."]


def test_extractor_gets_a_list_and_summariser_prose(opened):
    step = opened().system.memory_step
    extraction = ModelRequest("m", (Message(Author.USER, "Extract standalone facts about the user"),), {})
    summary = ModelRequest("m", (Message(Author.USER, "You are maintaining a running conversation summary."),), {})
    assert json.loads(step(extraction, ["a", "b"])) == ["a", "b"]
    assert step(summary, ["a", "b"]) == "a b"


def test_each_model_call_has_its_span_and_turn(opened):
    stage = opened()
    stage.turn(stage.caller(), "I like tea.")
    events = stage.history().events
    spans = [e for e in events if isinstance(e, SpanEnded) and e.name.startswith("llm.")]
    calls_made = [e for e in events if isinstance(e, ModelCalled) and e.purpose != "embedding"]
    assert len(spans) == len(calls_made) == 2
    assert {e.turn for e in spans} == {e.turn for e in calls_made} != {""}


def test_tracing_can_be_switched_off(opened):
    stage = opened(tracing=False)
    stage.turn(stage.caller(), "I like tea.")
    assert not any(isinstance(e, SpanEnded) for e in stage.history().events)


def test_systems_follow_one_another_in_one_process(opened):
    first, second = opened(tracing=False), opened()
    first.turn(first.caller(), "I like tea.")
    second.turn(second.caller(), "I like coffee.")
    assert any(isinstance(e, SpanEnded) for e in second.history().events)


def test_vector_file_finds_the_nearest_and_keeps_no_deleted_text(tmp_path):
    store = VectorFile(tmp_path / "vectors.db")
    chunks = [
        Chunk(id=text, content=text, metadata={"namespace": text[:5]})
        for text in ("alice plays sax", "bobby likes tea")
    ]
    store.add(chunks, embed([chunk.content for chunk in chunks]))
    (found, cosine), *_ = store.search(embed(["bobby likes tea"])[0], 2)
    assert (found.content, round(cosine, 6)) == ("bobby likes tea", 1.0)
    store.delete([chunk.id for chunk in chunks])
    assert store.count() == 0
    assert b"sax" not in (tmp_path / "vectors.db").read_bytes()
