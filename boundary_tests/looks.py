"""Looking at all that is known of a caller, for scripts about what is kept and what is gone."""

from __future__ import annotations

from memtrace.harness.stage import Actor, Stage
from memtrace.model import Caller, Outcome

NO_LEARNING = {"learn": False}
"""So that what is recalled comes from the conversation and not from a fact."""
ENDED = (Outcome.OK, Outcome.FAILED, Outcome.REFUSED)
"""How a turn may end that a crash or an erasure came before."""
QUESTION = "What do you know of me?"


def look(actor: Actor, stage: Stage, caller: Caller) -> None:
    """Look at what is known of a caller in every way there is."""
    if "list" in stage.claims:
        actor.facts(caller)
        actor.facts(caller, superseded=True)
    if "search" in stage.claims:
        actor.search(caller, "What does this person do, and where?")
    actor.messages(caller)
    actor.turn(caller, QUESTION, expect=ENDED)


def look_afresh(stage: Stage, *callers: Caller) -> None:
    """Look once more where the system knows no more than what is stored: it is opened again, if it can be."""
    if "reopen" in stage.claims:
        stage.reopen()
        for caller in callers:
            look(stage, stage, caller)


def scan(stage: Stage, *words: str) -> None:
    """Look into the files, where they are the harness's own."""
    if stage.disposable:
        stage.scan(*words)
