"""Proof 3: what gets learned."""

from __future__ import annotations

from memtrace.harness.record.history import History
from memtrace.harness.stage import Stage
from proofs import showing
from proofs.act import Act, Proof


def chatty(stage: Stage) -> None:
    """A user who tells four things to an agent that recommends a product in every reply."""
    dana = stage.caller()
    stage.add(dana, f"Dana prefers e-mail over {stage.canary()}.")
    for about in ("I have a beagle named", "He is allergic to", "I live in", "We just adopted"):
        stage.turn(dana, f"{about} {stage.canary()}.", says=[f"You should try the {stage.canary()} chew toy!"])
    if "list" in stage.claims:
        stage.facts(dana)
    stage.turn(dana, "What do you know about me?")


def capped(stage: Stage) -> None:
    """More learned facts than the cap holds, and one that was persisted by hand before all of them."""
    dana = stage.caller()
    stage.add(dana, f"Dana is allergic to {stage.canary()}.")
    for _ in range(6):
        stage.turn(dana, f"I have been to {stage.canary()}.")
    stage.facts(dana)


def _learned(history: History) -> list[str]:
    return [
        "what the extractor was shown", *showing.extractor(history), "",
        "the next turn's prompt", *showing.prompt(history),
    ]  # fmt: skip


PROOF = Proof(
    number=3,
    boundary="between the user's words and the model's",
    claim="Only what users say becomes a fact about them; the model's replies never do, and persisted facts stay.",
    method=(
        "Let an extractor that keeps all it is shown read a user and a chatty model; read facts and the next prompt."
    ),
    acts=(
        Act(
            title="no reply became a fact, and each fact is in the prompt once",
            rules=("authors.reply-never-a-fact", "authors.once-in-prompt"),
            script=chatty,
            show=_learned,
            against="memtrace.broken.authors:LearnsFromBoth",
            needs=("facts",),
        ),
        Act(
            title="the cap keeps the newest learned facts and the persisted one",
            rules=("authors.cap-spares-persisted",),
            script=capped,
            show=lambda history: showing.reads(history, "facts"),
            against="memtrace.broken.authors:PrunesByAge",
            needs=("list",),
            options={"cap": 4},
        ),
    ),
)
