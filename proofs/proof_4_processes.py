"""Proof 4: restart and delete."""

from __future__ import annotations

from memtrace.harness.history import History
from memtrace.harness.stage import Stage
from proofs import showing
from proofs.act import Act, Proof

MUSIC = "What music does she like?"


def writer_and_reader(stage: Stage) -> None:
    """One process writes, searches, deletes and searches again; a fresh one searches the same store."""
    alice, bob = stage.callers(2)
    sax = stage.canary()
    stage.add(alice, f"Alice likes the music of the {sax} quartet.")
    stage.add(alice, f"Alice is allergic to {stage.canary()}.")
    stage.add(bob, f"Bob likes the music of {stage.canary()}.")
    stage.search(alice, MUSIC)
    stage.forget(bob)
    stage.search(alice, MUSIC)
    reader = stage.process()
    reader.search(alice, MUSIC)
    reader.search(bob, MUSIC)
    asked = reader.turn(alice, MUSIC)
    stage.expect("processes.facts-survive", asked, sax, why="another process wrote it before this one started")


def _searches(history: History) -> list[str]:
    return [*showing.reads(history, "search"), "", "the prompt in the fresh process", *showing.prompt(history)]


PROOF = Proof(
    4,
    "between processes",
    "Durable facts and search by meaning are there in a fresh process, and what was deleted is not.",
    "Write, search, delete and search in one process; search and ask in another that was just started.",
    (
        Act(
            "a fresh process finds what the first wrote, and nothing of what it deleted",
            ("processes.facts-survive", "processes.search-survives-forget", "processes.forget-fact"),
            writer_and_reader,
            _searches,
            "PROCESSES",
            needs=("search", "forget", "reopen"),
        ),
    ),
)
