"""Proof 1: what one turn writes."""

from __future__ import annotations

from memtrace.harness.record.history import History
from memtrace.harness.scripted_model.openai_api import Step
from memtrace.harness.scripted_model.scripting import use_tool
from memtrace.harness.stage import Stage
from memtrace.model import Outcome
from proofs import showing
from proofs.act import Act, Proof


def tool_then_blocked(stage: Stage) -> None:
    """A turn with a tool, then one that a guardrail blocks, then a look at what is left."""
    alice = stage.caller()
    order = stage.canary()
    stage.turn(
        alice, f"Where is order {order}?", says=[use_tool(order), f"Order {order} was shipped by sea."],
        tool_returns=[f"{stage.canary()}: shipped"],
    )  # fmt: skip
    stage.turn(
        alice, f"Promise me a refund for {stage.canary()}.", says=["A refund is promised."], blocks="output",
        expect=Outcome.BLOCKED,
    )  # fmt: skip
    stage.messages(alice)
    stage.turn(alice, "What did I ask you about?")


def _kept(history: History) -> list[str]:
    return [*showing.turns(history), "", "the prompt of the last turn", *showing.prompt(history)]


def hand_over(stage: Stage) -> None:
    """A swarm run with one hand-off, then a look at what is left."""
    alice = stage.caller()
    invoice = stage.canary()
    call = stage.system.handoff_call(f"The user asks about {stage.canary()}.")
    stage.turn(
        alice,
        f"How much is invoice {invoice}?",
        via="handoff",
        says=[Step(calls=(call,)), f"Invoice {invoice} is $42."],
    )
    stage.messages(alice)
    stage.turn(alice, "Thank you.")


def redacted(stage: Stage) -> None:
    """An e-mail address, said in a run and in a stream."""
    for via in ("run", "stream") if "stream" in stage.claims else ("run",):
        alice = stage.caller()
        stage.turn(alice, f"My address is {stage.canary()}@example.org, about {stage.canary()}.", via=via)
        stage.messages(alice)
        stage.turn(alice, "What is my address?")


def _sent_and_stored(history: History) -> list[str]:
    return ["sent to the model", *showing.prompt(history, 0), "", "stored", *showing.reads(history, "messages")]


PROOF = Proof(
    number=1,
    boundary="between turns",
    claim="A turn writes the user's input and the final answer, once, and only if it succeeded.",
    method="Play turns that use a tool, are blocked, hand over and are redacted; read the prompt of the turn after.",
    acts=(
        Act(
            title="a blocked turn wrote nothing, and tool traffic is not kept",
            rules=("turns.input-and-answer", "turns.blocked-writes-nothing", "turns.tool-traffic-not-replayed"),
            script=tool_then_blocked,
            show=_kept,
            against="memtrace.broken.turns:KeepsWhatItRefused",
            needs=("tools", "guardrails"),
        ),
        Act(
            title="a hand-off run is recorded once",
            rules=("turns.handoff-recorded-once",),
            script=hand_over,
            show=_kept,
            against="memtrace.broken.turns_ways:EachAgentRecords",
        ),
        Act(
            title="redaction changes what the model is sent, not what memory keeps",
            rules=("turns.redaction-is-for-the-model",),
            script=redacted,
            show=_sent_and_stored,
            against="memtrace.broken.turns:ExtractorSeesAll",
            options={"redaction": True},
        ),
    ),
)
