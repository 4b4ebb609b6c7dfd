"""The scripts of the turns boundary catch each memory that is broken there, and let the lawful ones pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import playing
import pytest

from boundary_tests import test_turns, test_turns_tools, test_turns_ways
from memtrace.broken import Exhibit, gallery
from memtrace.model import Verdict

pytestmark = pytest.mark.usefixtures("serving")

BROKEN = [exhibit for exhibit in gallery() if exhibit.breaks.startswith("turns.")]
LAWFUL = [
    (exhibit, rule) for exhibit in gallery() if exhibit.lawful for rule in exhibit.rules if rule.startswith("turns.")
]
TINY = "memtrace.broken.tiny:TinyMemory"
RECALL = "memtrace.broken.tiny_recall:TinyRecall"
CHECKPOINTS = "memtrace.broken.tiny_checkpoints:TinyCheckpoints"
FINE = (Verdict.HELD, Verdict.ALLOWED, Verdict.NOT_EXERCISED)


def scripts(rule: str = "") -> list[tuple[str, playing.Test, Mapping[str, Any]]]:
    modules = (test_turns, test_turns_tools, test_turns_ways)
    return [script for module in modules for script in playing.scripts_of(module, rule)]


def name_of(exhibit: Exhibit) -> str:
    return exhibit.name.rpartition(":")[2]


@pytest.mark.parametrize("exhibit", BROKEN, ids=name_of)
def test_a_broken_memory_breaks_its_rule_and_no_other(exhibit: Exhibit) -> None:
    seen = set()
    for _, test, arguments in scripts(exhibit.breaks):
        seen |= playing.accused(playing.play(test, exhibit.name, **arguments))
    assert seen == {exhibit.breaks}


def test_every_rule_has_a_memory_that_breaks_it() -> None:
    rules = {rule for _, test, _ in scripts() for rule in playing.rules_of(test)}
    assert {exhibit.breaks for exhibit in BROKEN} == rules


@pytest.mark.parametrize(("exhibit", "rule"), LAWFUL, ids=lambda item: item if isinstance(item, str) else name_of(item))
def test_a_lawful_memory_keeps_the_rule_it_might_be_accused_of_breaking(exhibit: Exhibit, rule: str) -> None:
    played = [playing.play(test, exhibit.name, **arguments) for _, test, arguments in scripts(rule)]
    found = [playing.verdicts(entries)[rule] for entries in played]
    assert set(found) <= set(FINE)
    assert set(found) != {Verdict.NOT_EXERCISED}


@pytest.mark.parametrize(
    ("script", "test", "arguments"),
    [pytest.param(name, test, arguments, id=name) for name, test, arguments in scripts()],
)
def test_the_correct_memory_is_accused_of_nothing(
    script: str, test: playing.Test, arguments: Mapping[str, Any]
) -> None:
    entries = playing.play(test, CORRECT.get(script, TINY), **arguments)
    assert playing.accused(entries) == set()
    assert script in UNPLAYED or all(entry.finding.verdict is Verdict.HELD for entry in entries if entry.own)


CORRECT = {
    "test_a_handed_over_run_is_stored_once_without_hand_off_text": "memtrace.broken.tiny_swarm:TinySwarm",
    "test_what_the_model_remembers_or_forgets_is_done_after_its_turn": "memtrace.broken.tiny_tools:TinyTools",
    "test_recalled_messages_stand_where_the_declared_order_has_them": RECALL,
    "test_no_tool_call_or_result_becomes_a_recalled_message": RECALL,
    "test_the_embedder_is_sent_no_address": RECALL,
    "test_a_forked_run_stores_the_question_it_was_paused_with_once": CHECKPOINTS,
    "test_a_run_resumed_in_another_process_stores_its_question_there": CHECKPOINTS,
    "test_a_cancelled_turn_is_kept_whole_or_not_at_all_wherever_it_was": "memtrace.broken.tiny_cancel:TinyCancel",
}
"""The scripts that want more than the tiny memory has, and which one has it."""
UNPLAYED = {
    "test_the_summary_stands_where_the_declared_order_has_it",
    "test_the_summary_model_is_sent_no_address",
}
"""Scripts about summaries, which no tiny memory has; the reference plays them."""
