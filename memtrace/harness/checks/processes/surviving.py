"""What a fresh process finds of what the one before had stored."""

from __future__ import annotations

from collections.abc import Iterator

from memtrace.harness.findings import Judgement, check
from memtrace.harness.record.events import FactWritten
from memtrace.harness.record.history import History, canaries_in
from memtrace.harness.seen.expectations import met_again
from memtrace.harness.seen.facts import seen_facts
from memtrace.model import Evidence, Outcome


@check("processes.facts-survive")
def facts_survive(history: History) -> Judgement:
    """Facts are in the prompt of a fresh process; of a write that was cut short all is there or nothing."""
    for text in _cut_short(history):
        words = canaries_in(text)
        for seen in seen_facts(history):
            if seen.word in words and not all(word in seen.text.lower() for word in words):
                return seen.accuse("half of a fact was stored", Evidence("the whole of it", text))
    return met_again(history, "processes.facts-survive")


def _cut_short(history: History) -> Iterator[str]:
    """What was being stored, or said, as its process was killed."""
    for event in history.of(FactWritten):
        if event.op in ("add", "update") and event.error and event.process in history.killed:
            yield event.text
    for turn in history.turns.values():
        if turn.outcome is Outcome.KILLED:
            yield turn.text


@check("processes.search-after-restart")
def search_after_restart(history: History) -> Judgement:
    """The first search of a fresh process finds what the process before had found."""
    return met_again(history, "processes.search-after-restart")


@check("processes.search-survives-forget")
def search_survives_forget(history: History) -> Judgement:
    """What was found first before something else was forgotten is found first afterwards."""
    return met_again(history, "processes.search-survives-forget")


@check("processes.recall-survives-own-store")
def recall_survives_own_store(history: History) -> Judgement:
    """What was recalled from the user's own store before a restart is recalled after it."""
    return met_again(history, "processes.recall-survives-own-store")
