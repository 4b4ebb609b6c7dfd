"""Agents that work together: one turn is kept, with the user's words and the final answer, and nothing else."""

from __future__ import annotations

import asyncio

import pytest
from scripted import FACES, FakeMemory, ScriptedModel, assistant, calls, recorded, system, user

from memtrace.errors import UsageError
from memtrace.model import Author, Outcome
from memtrace.reference.agent import Agent
from memtrace.reference.checkpoints import Checkpoints
from memtrace.reference.drivers import Cancellation, Cancelled
from memtrace.reference.guardrails import Blocked, Guardrail
from memtrace.reference.middleware import RedactEmails
from memtrace.reference.models import Completion
from memtrace.reference.team import Supervisor, Swarm, Worker
from memtrace.reference.tools import MEMORY_TOOLS, Tool, text_parameter

pytestmark = [
    pytest.mark.parametrize("face", FACES, ids=lambda face: face.name),
    pytest.mark.filterwarnings("ignore::memtrace.identity.IdKeyWarning"),
]

REASON = "the customer wants the money desk"
TO_BILLING = calls(("handoff_to_billing", {"reason": REASON}), text="One moment.")


def swarm(memory, front, billing, *, front_options=(), billing_options=(), **options):
    agents = [
        Agent("front", front, memory, system_prompt="greet", **dict(front_options)),
        Agent("billing", billing, system_prompt="bill", **dict(billing_options)),
    ]
    return Swarm(agents, **options)


# Swarm


@pytest.mark.parametrize("way", ["run", "stream"])
def test_a_handoff_is_one_turn_with_the_users_words_and_the_final_answer(face, way):
    memory = FakeMemory()
    team = swarm(memory, ScriptedModel(TO_BILLING), ScriptedModel("It is $42."))
    got = getattr(face, way)(team, "How much is INV-7?", context="alice")
    result = got if way == "run" else got[1]
    assert result.text == "It is $42."
    assert memory.windows == {"alice": [user("How much is INV-7?"), assistant("It is $42.")]}
    assert len(memory.opened) == 1


def test_the_next_agents_prompt_is_its_own_and_no_handoff_text_is_a_users(face):
    memory = FakeMemory("facts")
    billing = ScriptedModel("It is $42.")
    face.run(swarm(memory, ScriptedModel(TO_BILLING), billing), "How much?", context="alice")
    first, facts, question, call, result = billing.prompts[0]
    assert (first, facts, question) == (system("bill"), system("facts"), user("How much?"))
    assert (call.author, result.author, result.tool_call_id) == (Author.ASSISTANT, Author.TOOL, call.tool_calls[0].id)
    assert REASON not in "".join(m.text for m in billing.prompts[0])


def test_each_agent_has_its_own_tools_and_may_hand_over_to_every_other(face):
    front, billing = ScriptedModel(TO_BILLING), ScriptedModel("done")
    team = swarm(FakeMemory(), front, billing, billing_options={"tools": MEMORY_TOOLS})
    face.run(team, "go", context="alice")
    assert front.tools == [("handoff_to_billing",)]
    assert billing.tools == [("remember", "forget", "handoff_to_front")]


def test_handoffs_can_be_limited(face):
    front, billing = ScriptedModel(TO_BILLING), ScriptedModel("done")
    face.run(swarm(FakeMemory(), front, billing, handoffs={"front": ["billing"]}), "go", context="alice")
    assert billing.tools == [()]


def test_there_and_back_again_is_one_turn(face):
    memory, spans = FakeMemory(), recorded()
    front = ScriptedModel(TO_BILLING, "All settled.")
    billing = ScriptedModel(calls(("handoff_to_front", {"reason": "done"})))
    team = swarm(memory, front, billing, front_options={"tracing": spans.tracing}, name="desk")
    face.run(team, "go", context="alice")
    assert memory.windows == {"alice": [user("go"), assistant("All settled.")]}
    ended = spans.ended()
    assert len({span.context.trace_id for span in ended}) == 1
    assert sorted(span.name for span in ended) == [
        *["chat scripted"] * 3,
        "execute_tool handoff_to_billing",
        "execute_tool handoff_to_front",
        "invoke_agent desk",
    ]


def test_calls_beside_a_handoff_get_their_results_and_the_first_handoff_counts(face):
    lookup = Tool("lookup", lambda query: f"found {query}", parameters=text_parameter("query"))
    agents = [
        Agent(
            "front",
            ScriptedModel(
                calls(
                    ("handoff_to_billing", {"reason": "a"}),
                    ("lookup", {"query": "x"}),
                    ("handoff_to_legal", {"reason": "b"}),
                )
            ),
            FakeMemory(),
            tools=[lookup],
        ),
        Agent("billing", ScriptedModel("done")),
        Agent("legal", ScriptedModel()),
    ]
    assert face.run(Swarm(agents), "go", context="alice").text == "done"
    (prompt,) = agents[1].plan.roles[0].model.prompts
    assert [m.text for m in prompt[-3:]] == [
        "billing takes over.",
        "found x",
        "Not handed over: billing takes over already.",
    ]


def test_a_swarm_that_goes_in_circles_reaches_the_limit_and_keeps_nothing(face):
    memory = FakeMemory()
    back = calls(("handoff_to_front", {"reason": "no"}))
    team = swarm(
        memory, ScriptedModel(*[TO_BILLING] * 2), ScriptedModel(*[back] * 2), front_options={"max_iterations": 4}
    )
    with pytest.raises(Exception, match="no answer after 4 model calls"):
        face.run(team, "go", context="alice")
    assert memory.windows == {}


@pytest.mark.parametrize("options", ["front_options", "billing_options"])
def test_what_one_agent_redacts_and_checks_holds_whoever_answers(face, options):
    memory = FakeMemory()
    steps = []
    rails = [Guardrail("no", lambda text: "refund" not in text)]
    extra = {options: {"middleware": [RedactEmails()], "guardrails": rails, "after_run": steps.append}}
    billing = ScriptedModel("sure, a@shop.example", "a refund")
    front = ScriptedModel(TO_BILLING, TO_BILLING)
    team = swarm(memory, front, billing, **extra)
    assert face.run(team, "I am b@shop.example", context="alice").text == "sure, [REDACTED]"
    assert "shop.example" not in str(front.prompts) + str(billing.prompts)
    with pytest.raises(Blocked):
        face.run(team, "again", context="alice")
    assert steps == ["sure, [REDACTED]"]
    assert len(memory.windows["alice"]) == 2


def test_a_run_that_paused_after_a_handoff_goes_on_with_the_heir(face, tmp_path):
    memory = FakeMemory()
    pay = Tool("pay", lambda: "paid", approval=True)
    front = ScriptedModel(TO_BILLING)
    billing = ScriptedModel(calls("pay"), "Paid.")
    team = swarm(
        memory,
        front,
        billing,
        billing_options={"tools": [pay], "checkpoints": Checkpoints(tmp_path / "runs.db")},
    )
    paused = face.run(team, "Pay it", context="alice")
    assert (paused.outcome, memory.windows) == (Outcome.PAUSED, {})
    assert face.resume(team, paused.token, context="alice").text == "Paid."
    assert memory.windows == {"alice": [user("Pay it"), assistant("Paid.")]}
    assert len(front.prompts) == 1


def test_a_run_that_paused_beside_a_handoff_still_has_its_tool(face, tmp_path):
    pay = Tool("pay", lambda: "paid", approval=True)
    both = calls(("handoff_to_billing", {"reason": "x"}), "pay")
    billing = ScriptedModel("Done.")
    front_options = {"tools": [pay], "checkpoints": Checkpoints(tmp_path / "runs.db")}
    team = swarm(FakeMemory(), ScriptedModel(both), billing, front_options=front_options)
    token = face.run(team, "go", context="alice").token
    assert face.resume(team, token, context="alice").text == "Done."
    assert billing.prompts[0][-1].text == "paid"


def test_a_swarm_that_could_not_run_is_refused_at_once(face):
    one = Agent("one", ScriptedModel(), FakeMemory())
    with pytest.raises(UsageError, match="at least one agent"):
        Swarm([])
    with pytest.raises(UsageError, match="agent 'two' has a memory of its own"):
        Swarm([one, Agent("two", ScriptedModel(), FakeMemory())])
    with pytest.raises(UsageError, match="two agents have the same name: one"):
        Swarm([one, Agent("one", ScriptedModel())])
    with pytest.raises(UsageError, match="not in the swarm: three"):
        Swarm([one, Agent("two", ScriptedModel())], handoffs={"one": ["three"]})


# Supervisor

TASK = "find out what the user owes"
DELEGATE = calls(("delegate_to_clerk", {"task": TASK}))


def supervisor(memory, boss, clerk, *, clerk_memory=None, boss_options=(), **clerk_options):
    worker = Agent("clerk-agent", clerk, clerk_memory, system_prompt="you are a clerk", **clerk_options)
    lead = Agent("boss", boss, memory, **dict(boss_options))
    return Supervisor(lead, [Worker(worker, "clerk", "knows invoices")])


@pytest.mark.parametrize("way", ["run", "stream"])
@pytest.mark.parametrize("shared", [True, False])
def test_a_task_is_no_users_message_in_any_memory(face, way, shared):
    memory = FakeMemory()
    own = memory if shared else FakeMemory("clerk's facts")
    boss, clerk = ScriptedModel(DELEGATE, "You owe $42."), ScriptedModel("$42")
    team = supervisor(memory, boss, clerk, clerk_memory=own)
    getattr(face, way)(team, "What do I owe?", context="alice")
    assert memory.windows == {"alice": [user("What do I owe?"), assistant("You owe $42.")]}
    assert shared or not own.windows
    assert boss.prompts[1][-1].text == "$42"


def test_the_worker_is_told_its_task_and_who_delegated_it(face):
    clerk_memory = FakeMemory("alice pays monthly")
    clerk = ScriptedModel("$42")
    team = supervisor(FakeMemory(), ScriptedModel(DELEGATE, "ok"), clerk, clerk_memory=clerk_memory)
    face.run(team, "What do I owe?", context="alice")
    assert clerk.prompts == [
        (system("you are a clerk"), system("alice pays monthly"), user(f"Task delegated by boss:\n{TASK}"))
    ]
    assert clerk_memory.opened == ["alice"]


def test_a_workers_pieces_are_not_in_the_users_stream(face):
    team = supervisor(FakeMemory(), ScriptedModel(DELEGATE, "You owe it."), ScriptedModel("forty two"))
    assert "".join(face.stream(team, "go", context="alice")[0]) == "You owe it."


def test_a_worker_sees_nobody_but_the_turns_caller(face):
    """The context changes while the turn runs, so that the worker's memory would take the caller for someone else."""
    who = {"now": "alice"}
    clerk_memory = FakeMemory(resolve=lambda context: who["now"])
    clerk_memory.windows["bob"] = [user("bob's secret")]
    clerk = ScriptedModel("$42")
    boss = ScriptedModel(lambda messages: who.update(now="bob") or DELEGATE, "ok")
    memory = FakeMemory(resolve=lambda context: who["now"])
    face.run(supervisor(memory, boss, clerk, clerk_memory=clerk_memory), "What do I owe?", context="x")
    assert "secret" not in str(clerk.prompts)
    assert list(memory.windows) == ["alice"]


def test_a_worker_of_another_project_sees_nothing_of_it(face):
    clerk_memory = FakeMemory(project="other")
    clerk_memory.windows["alice"] = [user("other project's secret")]
    clerk = ScriptedModel("$42")
    face.run(
        supervisor(FakeMemory(), ScriptedModel(DELEGATE, "ok"), clerk, clerk_memory=clerk_memory), "go", context="alice"
    )
    assert "secret" not in str(clerk.prompts)


def test_what_a_worker_asks_memory_to_do_waits_for_the_end_of_the_users_turn(face):
    memory, clerk_memory = FakeMemory(), FakeMemory()
    seen = []
    clerk = ScriptedModel(calls(("remember", {"text": "owes 42"})), "$42")
    boss = ScriptedModel(DELEGATE, lambda messages: seen.append(list(memory.queued)) or Completion("ok"))
    team = supervisor(memory, boss, clerk, clerk_memory=clerk_memory, tools=MEMORY_TOOLS)
    face.run(team, "go", context="alice")
    assert (seen, memory.queued, clerk_memory.queued) == ([[]], [("remember", "owes 42")], [])


def test_what_the_supervisor_redacts_its_workers_redact(face):
    boss = ScriptedModel(calls(("delegate_to_clerk", {"task": "mail a@shop.example"})), "ok")
    clerk, memory = ScriptedModel("sent to a@shop.example"), FakeMemory()
    face.run(
        supervisor(FakeMemory(), boss, clerk, clerk_memory=memory, boss_options={"middleware": [RedactEmails()]}),
        "x",
        context="alice",
    )
    assert "shop.example" not in str(clerk.prompts) + str(boss.prompts)
    assert memory.outgoing("a@shop.example") == "[REDACTED]"


@pytest.mark.parametrize(
    ("options", "raises"),
    [
        ({"guardrails": [Guardrail("no", lambda text: False, on="input")]}, Blocked),
        ({"guardrails": [Guardrail("no", lambda text: False)]}, Blocked),
        ({"after_run": lambda answer: 1 / 0}, ZeroDivisionError),
    ],
)
def test_a_worker_that_fails_fails_the_turn(face, options, raises):
    memory, spans = FakeMemory(), recorded()
    clerk, boss = ScriptedModel("$42"), ScriptedModel(DELEGATE, "ok")
    team = supervisor(memory, boss, clerk, boss_options={"tracing": spans.tracing}, **options)
    with pytest.raises(raises):
        face.run(team, "go", context="alice")
    assert memory.windows == {}
    assert len({span.context.trace_id for span in spans.ended()}) == 1


def test_a_workers_spans_are_inside_the_call_that_delegated(face):
    spans = recorded()
    team = supervisor(
        FakeMemory(), ScriptedModel(DELEGATE, "ok"), ScriptedModel("$42"), boss_options={"tracing": spans.tracing}
    )
    face.run(team, "go", context="alice")
    ended = {span.context.span_id: span for span in spans.ended()}

    def path(span):
        return [*path(ended[span.parent.span_id]), span.name] if span.parent else [span.name]

    assert [
        "invoke_agent boss",
        "execute_tool delegate_to_clerk",
        "invoke_agent clerk-agent",
        "chat scripted",
    ] in [path(span) for span in ended.values()]


def test_a_cancelled_delegation_keeps_nothing(face):
    memory, cancel = FakeMemory(), Cancellation()
    boss = ScriptedModel(DELEGATE, "ok")

    def stop(messages):
        cancel.set()
        if face.name == "async":
            raise asyncio.CancelledError
        return calls("nothing")

    team = supervisor(memory, boss, ScriptedModel(stop, "never"))
    options = {"cancel": cancel} if face.name == "plain" else {}
    with pytest.raises((Cancelled, asyncio.CancelledError)):
        face.run(team, "go", context="alice", **options)
    assert (len(boss.prompts), memory.windows) == (1, {})


def test_a_swarm_may_be_a_worker(face):
    team = swarm(None, ScriptedModel(TO_BILLING), ScriptedModel("$42"))
    boss, memory = ScriptedModel(DELEGATE, "You owe $42."), FakeMemory()
    lead = Supervisor(Agent("boss", boss, memory), [Worker(team, "clerk")])
    face.run(lead, "go", context="alice")
    assert boss.prompts[1][-1].text == "$42"
    assert memory.windows == {"alice": [user("go"), assistant("You owe $42.")]}


def test_a_worker_cannot_wait_for_an_approval(face, tmp_path):
    pay = Tool("pay", lambda: "paid", approval=True)
    worker = Agent("clerk", ScriptedModel(), tools=[pay], checkpoints=Checkpoints(tmp_path / "runs.db"))
    with pytest.raises(UsageError, match="give 'pay' to the supervisor"):
        Supervisor(Agent("boss", ScriptedModel()), [Worker(worker, "clerk")])
