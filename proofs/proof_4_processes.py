"""Proof 4: restart and delete."""

from __future__ import annotations

from memtrace.harness.record.history import History
from memtrace.harness.stage import Actor, Stage
from memtrace.model import Caller
from proofs import showing
from proofs.act import Act, Proof

FOUND = "processes.search-survives-forget"
KEPT = "processes.facts-survive"
QUERIES = ("Who plays saxophone in a jazz quartet?", "Who is allergic to peanuts?")


def writer_and_reader(stage: Stage) -> None:
    """One process writes, searches, deletes and searches again; a fresh one searches the same store and asks."""
    alice, bob = stage.callers(2)
    sax, peanuts = stage.canary(), stage.canary()
    stage.add(alice, f"Alice plays saxophone in a jazz quartet, the {sax}.")
    stage.add(alice, f"Alice is allergic to peanuts, says {peanuts}.")
    stage.add(bob, f"Bob plays saxophone in a jazz quartet, the {stage.canary()}.")
    _ask(stage, stage, alice, sax)
    _ask(stage, stage, bob, "")
    _search(stage, stage, alice, sax, peanuts)
    stage.forget(bob)
    _search(stage, stage, alice, sax, peanuts)
    reader = stage.process()
    _search(reader, stage, alice, sax, peanuts)
    reader.search(bob, QUERIES[0])
    _ask(reader, stage, alice, sax)
    _ask(reader, stage, bob, "")


def _search(actor: Actor, stage: Stage, caller: Caller, *nearest: str) -> None:
    for query, word in zip(QUERIES, nearest, strict=True):
        actor.search(caller, query)
        stage.expect_read(FOUND, word, times="first", why="it is nearest to the query")


def _ask(actor: Actor, stage: Stage, caller: Caller, word: str) -> None:
    asked = actor.turn(caller, "What do I play?")
    if word:
        stage.expect(KEPT, asked, word, why="it is a durable fact")


def _searches(history: History) -> list[str]:
    fresh = [turn for turn in history.turns.values() if turn.process != "main" and turn.answers]
    asked = [turn for turn in history.turns.values() if turn.answers]
    place = asked.index(fresh[0]) if fresh else -1
    return [*showing.reads(history, "search"), "", "the prompt in the fresh process", *showing.prompt(history, place)]


PROOF = Proof(
    number=4,
    boundary="between processes",
    claim="Durable facts and search by meaning are there in a fresh process, and what was deleted is not.",
    method="Write, search, delete and search in one process; search and ask in another that was just started.",
    acts=(
        Act(
            title="a fresh process finds what the first wrote, and nothing of what it deleted",
            rules=(KEPT, FOUND, "processes.forget-fact"),
            script=writer_and_reader,
            show=_searches,
            against="memtrace.broken.processes:KeepsUntilClosed",
            needs=("search", "forget", "reopen"),
            options={"learn": False, "window": 0},
        ),
    ),
)
