"""What is kept of a turn that took another way than one run of one agent."""

from __future__ import annotations

from collections.abc import Iterator

from memtrace.harness.findings import Judgement, check, held, untested
from memtrace.harness.record.history import History, Turn, canaries_in
from memtrace.harness.seen.conversation import Conversation, Exchange, View, conversations, exchange, marked, overlap
from memtrace.harness.seen.sightings import sightings
from memtrace.harness.seen.twins import compared


@check("turns.handoff-recorded-once")
def handoff_recorded_once(history: History) -> Judgement:
    """A hand-off run is kept as one turn: what the user asked and what was answered in the end."""
    seen = False
    for conversation, handed in _handed_over(history):
        words = _handoff_words(handed.turn)
        for sighting in sightings(history):
            if sighting.word in words:
                return sighting.accuse(f"{sighting.word} is hand-off text of turn {handed.turn}, and yet it was kept")
        for view in conversation.views:
            if view.at > handed.turn.ended:
                if fault := _not_once(view, handed):
                    return view.accuse(fault)
                seen = True
    if not any(turn.via == "handoff" for turn in history.turns.values()):
        return untested("no turn was handed over")
    return held(when=seen, otherwise="nothing was asked after the hand-off")


def _handoff_words(turn: Turn) -> set[str]:
    arguments = (tool_call.arguments for call in turn.answers for tool_call in call.tool_calls)
    return {word for text in arguments for word in canaries_in(text)}


def _handed_over(history: History) -> Iterator[tuple[Conversation, Exchange]]:
    for conversation in conversations(history):
        for turn in conversation.turns:
            if turn.via == "handoff" and turn.ok:
                yield conversation, exchange(history, turn)


def _not_once(view: View, handed: Exchange) -> str:
    kept = view.kept(handed)
    if kept.whole:
        return ""
    if len(kept.asked) > 1 or len(kept.answered) > 1:
        return f"the hand-off run {handed.turn} is kept more than once"
    return f"the hand-off run {handed.turn} is not kept as its question and its final answer"


@check("turns.retry-stores-once")
def retry_stores_once(history: History) -> Judgement:
    """After a retried turn the next prompt is the one after a turn that went well at once."""
    return compared(history, "turns.retry-stores-once", "after a retry", "after none")


@check("turns.overlapping-turns-both-kept")
def overlapping_turns_both_kept(history: History) -> Judgement:
    """Of turns of one caller that overlapped, each that ended well is kept whole."""
    found = seen = False
    for conversation in conversations(history):
        for turn in _overlapping(conversation):
            found, kept_turn = True, exchange(history, turn)
            view = next((view for view in conversation.views if _shows_all(conversation, turn, view)), None)
            if view is None or not turn.ok or not marked(history, kept_turn):
                continue
            seen = True
            if not view.kept(kept_turn).whole:
                return view.accuse(f"turn {turn} overlapped with another of its caller's, and is not kept whole, once")
    if not found:
        return untested("no two turns of one caller overlapped")
    return held(when=seen, otherwise="nothing was asked after they ended")


def _overlapping(conversation: Conversation) -> list[Turn]:
    return [turn for turn in conversation.turns if not conversation.alone(turn)]


def _shows_all(conversation: Conversation, turn: Turn, view: View) -> bool:
    """Whether a look came after the turn and all that overlapped with it."""
    return all(view.at > other.ended for other in conversation.turns if overlap(turn, other))
