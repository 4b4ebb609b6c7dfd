"""Proof 2: whose memory it is."""

from __future__ import annotations

from memtrace.harness.record.history import History
from memtrace.harness.stage import OK_OR_REFUSED, Stage
from memtrace.model import Unresolved
from proofs import showing
from proofs.act import Act, Proof


def two_members(stage: Stage) -> None:
    """Alice, streaming where she can, and Bob, on one agent."""
    alice, bob = stage.callers(2)
    streamed = "stream" if "stream" in stage.claims else "run"
    stage.turn(alice, f"I take the Tuesday {stage.canary()} spin class.", via=streamed)
    stage.turn(bob, f"I take the Thursday {stage.canary()} yoga class.")
    for _ in range(2):
        stage.turn(alice, "The weather is nice.", via=streamed)
        stage.turn(bob, "It is warm.")
    stage.turn(alice, "Which class do I take?", via=streamed)
    stage.turn(bob, "Which class do I take?")
    stage.turn(bob, "Which class do I take?", via=streamed)
    stage.turn(alice, "Which class do I take?", via=streamed)


def nobody(stage: Stage) -> None:
    """A member, then callers without a context and without an id, then the member again."""
    alice = stage.caller()
    stage.turn(alice, f"I take the {stage.canary()} class.")
    stage.turn(alice, "Which class do I take?")
    for why in Unresolved:
        said, asked = stage.anonymous(why), stage.anonymous(why)
        stage.turn(said, f"I take the {stage.canary()} class.", expect=OK_OR_REFUSED)
        stage.turn(asked, "Which class do I take?", expect=OK_OR_REFUSED)
    stage.turn(alice, "Which class do I take?")


def _prompts(history: History) -> list[str]:
    lines = []
    for place, turn in enumerate(turn for turn in history.turns.values() if turn.answers):
        if "Which class" in turn.text:
            who = turn.caller.user or f"no one ({turn.caller.unresolved})"
            lines += [f"the prompt for {who}", *(f"  {line}" for line in showing.prompt(history, place))]
    return lines


PROOF = Proof(
    number=2,
    boundary="between users",
    claim="A prompt holds nothing that only another user said, and a caller nobody can name reads and writes nothing.",
    method="Let two users tell the same agent different things, then ask the same question as each, and as nobody.",
    acts=(
        Act(
            title="nothing of one member's reached the other's prompt",
            rules=("users.no-foreign-memory",),
            script=two_members,
            show=_prompts,
            against="memtrace.broken.users:StreamsForItsFirstCaller",
        ),
        Act(
            title="nor from a recall store that both share, with a window of a single turn",
            rules=("users.recall-namespaced",),
            script=two_members,
            show=_prompts,
            against="memtrace.broken.users:RecallsEverybody",
            options={"window": 2, "recall": True, "learn": False},
        ),
        Act(
            title="a caller without a user sees nobody's memory and leaves none",
            rules=("users.unresolved-sees-only-agent-facts", "users.unresolved-writes-nothing"),
            script=nobody,
            show=_prompts,
            against="memtrace.broken.users:TakesAnythingForAnId",
        ),
    ),
)
