"""What is kept of a turn that ended well, and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from memtrace.harness.findings import Judgement, check, held, undecided, untested, violated
from memtrace.harness.record.events import Noted
from memtrace.harness.record.history import History, canaries_in
from memtrace.harness.seen.conversation import (
    Conversation,
    Exchange,
    Kept,
    View,
    conversations,
    exchange,
    marked,
    marks,
    plain,
    replays,
)
from memtrace.harness.seen.expectations import met
from memtrace.model import Author, Evidence


@check("turns.input-and-answer")
def input_and_answer(history: History) -> Judgement:
    """Where a plain turn is kept, it is its question and then its final answer, each once, and nothing besides."""
    seen = False
    for conversation in conversations(history):
        exchanges = _plain_exchanges(history, conversation)
        for view in conversation.views:
            for kept_turn in _before(view, exchanges):
                kept = view.kept(kept_turn)
                if fault := _fault(view, kept_turn, kept):
                    return view.accuse(fault)
                seen = seen or kept.whole
    if not any(len(conversation.turns) > 1 for conversation in conversations(history)):
        return untested("no caller had two turns")
    return held(when=seen, otherwise="no prompt or read showed an earlier turn's question and answer")


def _plain_exchanges(history: History, conversation: Conversation) -> list[Exchange]:
    """The turns that are nothing but a question and an answer, and can be told from all others."""
    found = [exchange(history, turn) for turn in conversation.turns if plain(conversation, turn)]
    return [one for one in found if one.answer.strip() and marked(history, one)]


def _before(view: View, exchanges: Sequence[Exchange]) -> list[Exchange]:
    return [one for one in exchanges if one.turn.ended < view.at]


def _fault(view: View, kept_turn: Exchange, kept: Kept) -> str:
    """What is wrong with how an exchange is kept; where it is the oldest one shown it may have been trimmed."""
    turn, trimmed = kept_turn.turn, kept.answered[:1] == (0,) and not kept.asked
    if aside := _aside(view, kept_turn):
        return f"besides the final answer of turn {turn}, what the model said on the way to it is kept: {aside}"
    if len(kept.asked) > 1 or len(kept.answered) > 1:
        return f"turn {turn} is kept more than once"
    if kept.asked and not kept.answered:
        return f"the question of turn {turn} is kept without its answer"
    if kept.answered and not kept.asked and not trimmed:
        return f"the answer of turn {turn} is kept without its question"
    if kept.asked > kept.answered and not trimmed:
        return f"the answer of turn {turn} is kept in front of its question"
    return ""


def _aside(view: View, kept_turn: Exchange) -> str:
    words = {word for aside in kept_turn.asides for word in canaries_in(aside)} - set(canaries_in(kept_turn.answer))
    said = (m for m in view.messages if m.author is Author.ASSISTANT and not m.tool_calls)
    return next((word for message in said for word in canaries_in(message.text) if word in words), "")


@check("turns.recalled-next-turn")
def recalled_next_turn(history: History) -> Judgement:
    """What the script expects of the next prompt is in it."""
    return met(history, "turns.recalled-next-turn")


@check("turns.window-is-bounded")
def window_is_bounded(history: History) -> Judgement:
    """A prompt replays no more messages than the window holds: the newest turns, each of them whole."""
    declared = seen = False
    for conversation in conversations(history):
        exchanges = _plain_exchanges(history, conversation)
        for view in conversation.views:
            size = history.declared("window", view.at)
            if size is None or view.call is None or _recalls(history, view.at):
                continue
            declared = True
            if fault := _overflow(history, conversation, view, size, _before(view, exchanges)):
                return view.accuse(fault)
            ended = [turn for turn in conversation.before(view) if turn.ok]
            seen = seen or (2 * len(ended) > size and _replays(conversation, history, view) > 0)
    if not declared:
        return untested("the system declares no window, or nothing was asked of it")
    return held(when=seen, otherwise="no window was full")


def _recalls(history: History, at: int) -> bool:
    """Whether recalled messages may stand among those of the window."""
    opening = history.opening(at)
    return opening is not None and bool(opening.options.get("recall"))


def _replays(conversation: Conversation, history: History, view: View) -> int:
    """How many messages are an earlier turn's question or answer; tool traffic does not count."""
    said = [exchange(history, turn) for turn in conversation.before(view)]
    texts = {text for one in said for text in (one.question, one.answer) if text.strip()}
    spoken = [m for m in view.messages if m.author is not Author.TOOL and not m.tool_calls]
    return sum(1 for message in spoken if _repeats(message.text, texts))


def _repeats(text: str, said: set[str]) -> bool:
    """Whether a message says one of these texts again."""
    words = set(canaries_in(text))
    return text in said or any(replays(text, one) for one in said if words.intersection(marks(one)))


def _overflow(
    history: History, conversation: Conversation, view: View, size: int, exchanges: Sequence[Exchange]
) -> str:
    count = _replays(conversation, history, view)
    if count > size:
        return f"the window holds {size} messages, {count} were replayed"
    known = [(found.turn, view.kept(found)) for found in exchanges]
    for turn, kept in known:
        if kept.answered[:1] == (0,) and not kept.asked:
            return f"the window of {size} messages begins in the middle of turn {turn}"
    full = 2 * sum(1 for turn in conversation.before(view) if turn.ok) > size
    for (older, older_kept), (newer, newer_kept) in pairwise(known):
        if full and not older_kept.nothing and newer_kept.nothing:
            return f"the window of {size} messages holds turn {older} but not the newer turn {newer}"
    return ""


@check("turns.growth-is-linear")
def growth_is_linear(history: History) -> Judgement:
    """Twice the turns make no more than 2.2 times the bytes, and a prompt with a full window does not grow."""
    noted = [event.value for event in history.of(Noted) if event.name == "stored"]
    if not noted:
        return untested("the script measured nothing")
    start, half, full = noted
    once, twice = half["bytes"] - start["bytes"], full["bytes"] - start["bytes"]
    if twice > 2.2 * once + _PAGES:
        turns = half["turns"]
        reason = f"{turns} turns took {once:,} bytes, {2 * turns} turns {twice:,}: more than 2.2 times as many"
        return violated(reason, Evidence("bytes in the files of the script", f"{start} {half} {full}"))
    sizes = [_prompt_size(history, point["turn"]) for point in (half, full)]
    if None in sizes:
        return undecided("a measured turn called no model")
    if history.can("window") and sizes[1] > 1.05 * sizes[0] + 64:  # type: ignore[operator]
        reason = f"the window was full, and yet the prompt grew from {sizes[0]:,} to {sizes[1]:,} characters"
        return violated(reason)
    return held(when=_remembered(history, full["turn"]), otherwise="the last prompt held nothing of earlier turns")


_PAGES = 64 * 1024
"""What a database may take on top, in whole pages and logs, without anything having been stored twice."""


def _prompt_size(history: History, turn: str) -> int | None:
    answers = history.turns[turn].answers
    return len(answers[0].prompt.text) if answers else None


def _remembered(history: History, turn: str) -> bool:
    last = history.turns[turn]
    earlier = {word for other in history.turns.values() if other.ended < last.started for word in marks(other.text)}
    return bool(earlier.intersection(canaries_in(last.answers[0].prompt.text)))
