"""The reference agent on the reference memory: what neither half can show alone."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from scripted import FACES, ScriptedModel, assistant, calls, recorded, user

from memtrace.model import Outcome
from memtrace.reference import (
    Agent,
    Checkpoints,
    Completion,
    Memory,
    RedactEmails,
    ResumeRefused,
    Swarm,
    Tool,
    text_parameter,
)
from memtrace.reference.tools import MEMORY_TOOLS

pytestmark = [
    pytest.mark.parametrize("face", FACES, ids=lambda face: face.name),
    pytest.mark.filterwarnings("ignore::memtrace.identity.IdKeyWarning"),
]

PAY = calls(("pay", {"query": "5"}))


class Greedy:
    """A memory model that keeps every utterance it is shown, and remembers what it was sent."""

    name = "memory-model"

    def __init__(self):
        self.prompts = []

    def complete(self, messages, tools=()):
        self.prompts.append(tuple(messages))
        return Completion(json.dumps([messages[-1].text]))


@pytest.fixture
def shop(tmp_path):
    return lambda *replies, **options: Shop(tmp_path, *replies, **options)


class Shop:
    def __init__(self, path, *replies, memory_options=(), **options):
        self.spans = recorded()
        self.memory = Memory(
            location=path / "facts.db",
            agent_id="shop",
            user_id=lambda context: context["user"],
            tracing=self.spans.tracing,
            **dict(memory_options),
        )
        self.model = ScriptedModel(*replies)
        self.paid = []
        tools = [
            Tool(
                "pay",
                lambda query: self.paid.append(query) or "paid",
                parameters=text_parameter("query"),
                approval=True,
            ),
            *MEMORY_TOOLS,
        ]
        self.agent = Agent(
            "shop",
            self.model,
            self.memory,
            system_prompt="be kind",
            tools=tools,
            checkpoints=Checkpoints(path / "runs.db"),
            tracing=self.spans.tracing,
            **options,
        )

    def window(self, who):
        return list(self.memory.for_user(who).messages)


def as_(who):
    return {"user": who}


def test_what_a_turn_kept_is_in_the_next_prompt_of_its_user_alone(face, shop):
    shop = shop("hi", "hello", "again")
    for who, text in (("alice", "I am Alice"), ("bob", "I am Bob"), ("alice", "who am I?")):
        face.run(shop.agent, text, context=as_(who))
    assert [m.text for m in shop.model.prompts[2]] == ["be kind", "I am Alice", "hi", "who am I?"]
    assert [m.text for m in shop.model.prompts[1]] == ["be kind", "I am Bob"]


def test_an_unresolved_caller_sees_agent_facts_alone_and_is_not_kept(face, shop):
    shop = shop(*["hi"] * 4)
    shop.memory.persist("We open at nine.", tier="global", scope_id="shop")
    shop.memory.persist("Alice has a dog.", scope_id="alice")
    for context in (None, as_(None), as_(""), as_(object())):
        face.run(shop.agent, "secret", context=context)
    for prompt in shop.model.prompts:
        text = "\n".join(m.text for m in prompt)
        assert "nine" in text
        assert "dog" not in text
        assert text.count("secret") == 1


def test_remember_and_forget_take_effect_in_the_next_turn(face, shop):
    shop = shop(
        calls(("remember", {"text": "Likes tea."})),
        "noted",
        calls(("forget", {"text": "Likes tea."})),
        "gone",
        "bye",
    )
    for text in ("one", "two", "three"):
        face.run(shop.agent, text, context=as_("alice"))
    holds = ["Likes tea." in "\n".join(m.text for m in prompt if m.author == "system") for prompt in shop.model.prompts]
    assert holds == [False, False, True, True, False]


RESUME = """
import sys
sys.path[:0] = {paths!r}
from pathlib import Path
from test_reference_whole import PAY, Shop, as_
print(Shop(Path(sys.argv[1]), PAY).agent.run("Pay five", context=as_("alice")).token)
"""


def test_a_run_paused_in_another_process_goes_on_here_for_its_owner(face, shop, tmp_path):
    tests = Path(__file__).parent
    script = RESUME.format(paths=[str(tests), str(tests.parent)])
    process = [sys.executable, "-c", script, str(tmp_path)]
    token = subprocess.run(process, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
    shop = shop("Paid.")
    with pytest.raises(ResumeRefused):
        face.resume(shop.agent, token, context=as_("bob"))
    with pytest.raises(ResumeRefused):
        face.resume(shop.agent, token)
    assert face.resume(shop.agent, token, context=as_("alice")).text == "Paid."
    assert shop.window("alice") == [user("Pay five"), assistant("Paid.")]
    assert (shop.window("bob"), shop.paid) == ([], ["5"])


def test_erasing_a_user_drops_their_paused_runs(face, shop, tmp_path):
    shop = shop(PAY, PAY, "Paid.")
    token = face.run(shop.agent, "Pay my zebra", context=as_("alice")).token
    other = face.run(shop.agent, "Pay", context=as_("bob")).token
    shop.memory.erase("alice")
    for way in (face.resume, face.fork):
        with pytest.raises(ResumeRefused):
            way(shop.agent, token, context=as_("alice"))
    assert b"zebra" not in (tmp_path / "runs.db").read_bytes()
    assert face.resume(shop.agent, other, context=as_("bob")).outcome is Outcome.OK


def test_a_turn_that_pauses_after_its_user_was_erased_leaves_no_paused_run(face, shop, tmp_path):
    def erases(_messages):
        shop.memory.erase("alice")
        return PAY

    shop = shop(erases)
    token = face.run(shop.agent, "Pay the zebra", context=as_("alice")).token
    with pytest.raises(ResumeRefused):
        face.resume(shop.agent, token, context=as_("alice"))
    assert b"zebra" not in b"".join(file.read_bytes() for file in tmp_path.iterdir())


def test_agents_made_for_each_request_are_not_kept_by_their_memory(face, shop):
    shop = shop()
    plan = shop.agent.plan
    for _ in range(3):
        Agent("shop", shop.model, shop.memory, checkpoints=plan.checkpoints)
    assert len(shop.memory._kept.others) == 1


def test_a_swarms_first_memory_and_another_agents_checkpoints_are_erased_together(face, shop, tmp_path):
    one = shop()
    two = Agent(
        "two",
        ScriptedModel(PAY),
        tools=[Tool("pay", lambda query: "", parameters=text_parameter("query"), approval=True)],
        checkpoints=Checkpoints(tmp_path / "two.db"),
    )
    front = Agent("front", ScriptedModel(calls(("handoff_to_two", {"reason": "x"}))), one.memory)
    swarm = Swarm([front, two])
    token = face.run(swarm, "Pay", context=as_("alice")).token
    one.memory.erase("alice")
    with pytest.raises(ResumeRefused):
        face.resume(swarm, token, context=as_("alice"))


def test_redaction_reaches_every_model_of_the_memory_and_none_of_what_it_keeps(face, shop):
    extractor, summary, embedded = Greedy(), Greedy(), []

    def embed(texts):
        embedded.extend(texts)
        return [[1.0, 0.0] for _ in texts]

    options = {"learn": extractor, "summarize": summary, "recall": "auto", "embedder": embed, "window": 2}
    shop = shop(*["I wrote to b@shop.example"] * 3, memory_options=options, middleware=[RedactEmails()])
    for n in range(3):
        face.run(shop.agent, f"My email is a{n}@shop.example indeed", context=as_("alice"))
    sent = str(extractor.prompts) + str(summary.prompts) + str(embedded) + str(shop.model.prompts)
    assert extractor.prompts
    assert summary.prompts
    assert embedded
    assert "shop.example" not in sent
    assert shop.window("alice") == [user("My email is a2@shop.example indeed"), assistant("I wrote to [REDACTED]")]


@pytest.mark.parametrize("way", ["run", "stream"])
def test_a_turn_is_one_tree_with_its_memory_in_it(face, shop, way):
    shop = shop("hi there", memory_options={"learn": Greedy()})
    getattr(face, way)(shop.agent, "hello", context=as_("alice"))
    ended = shop.spans.ended()
    by_id = {span.context.span_id: span.name for span in ended}
    parents = {span.name: by_id.get(span.parent.span_id) if span.parent else None for span in ended}
    assert parents["invoke_agent shop"] is None
    assert parents["memory.read"] == parents["memory.write"] == parents["chat scripted"] == "invoke_agent shop"
    assert parents["chat memory-model"] == "memory.write.facts"
    assert len({span.context.trace_id for span in ended}) == 1
    assert sum(span.name.startswith("chat") for span in ended) == 2
