"""What becomes of a turn that was streamed, left half-way or cancelled."""

from __future__ import annotations

from collections.abc import Iterator

from memtrace.harness.findings import Judgement, accuse, check, held, outline, untested, violated
from memtrace.harness.record.events import CalledBack, SpanEnded
from memtrace.harness.record.history import History, Turn
from memtrace.harness.seen.conversation import (
    Conversation,
    Exchange,
    View,
    conversations,
    exchange,
    marked,
    marks,
    own_input,
)
from memtrace.harness.seen.leaks import accuse_leak, blamed
from memtrace.harness.seen.twins import compared
from memtrace.model import Author, Outcome

_STOPPED = frozenset({Outcome.CANCELLED, Outcome.ABANDONED})


@check("turns.cancelled-whole-or-nothing")
def cancelled_whole_or_nothing(history: History) -> Judgement:
    """The next look at a conversation shows of a turn that was cancelled or left nothing, or all."""
    stopped = control = False
    for conversation in conversations(history):
        for broken_off, view in _stopped(history, conversation):
            stopped = True
            if fault := _half(history, conversation, broken_off, view):
                return view.accuse(f"turn {broken_off.turn} was {broken_off.turn.outcome}, and {fault}")
            control = control or _others_whole(history, conversation, view)
    if not stopped:
        return untested("no turn was cancelled or left, or nothing was asked after it")
    return held(when=control, otherwise="afterwards no other turn was shown either")


def _stopped(history: History, conversation: Conversation) -> Iterator[tuple[Exchange, View]]:
    """Each turn that was stopped, with the next look at its conversation."""
    for turn in conversation.turns:
        found = exchange(history, turn)
        if turn.outcome in _STOPPED and conversation.alone(turn) and marked(history, found):
            view = next((view for view in conversation.views if view.at > turn.ended), None)
            if view is not None:
                yield found, view


def _half(history: History, conversation: Conversation, broken_off: Exchange, view: View) -> str:
    kept = view.kept(broken_off)
    if kept.whole:
        return ""
    if kept.asked:
        return "its question is kept without its answer"
    if kept.answered:
        return "its answer is kept without its question"
    said = [message.text.strip() for message in view.messages if message.author is Author.ASSISTANT]
    if any(text and broken_off.answer.startswith(text) and marks(text) for text in said):
        return "a part of its answer is kept"
    words = marks(broken_off.question)
    blocks = "\n".join(message.text for message in view.rest).lower()
    if any(word in blocks for word in words) and _others_whole(history, conversation, view):
        return "what was learned from it is kept, though its messages are not"
    return ""


def _others_whole(history: History, conversation: Conversation, view: View) -> bool:
    """Whether some turn that ended well is shown."""
    return any(view.kept(exchange(history, turn)).whole for turn in conversation.before(view) if turn.ok)


@check("turns.abandoned-leaves-no-context")
def abandoned_leaves_no_context(history: History) -> Judgement:
    """The turn after a stream that was left has a caller, a trace and a prompt of its own."""
    if found := blamed(history, "turns.abandoned-leaves-no-context"):
        return accuse_leak(found[0], "the turn after a stream that was left holds what was said in that stream")
    pairs = list(_after_abandoned(history))
    for left, following in pairs:
        if following.answers and own_input(history, following.answers[0]) is None:
            call = following.answers[0]
            reason = f"turn {following}, after a stream that was left, was not sent its input"
            return accuse(call, reason, outline(call))
        if fault := _shared_trace(history, left, following) or _foreign_resolve(history, following):
            return violated(f"turn {following}, after a stream that was left, {fault}")
    if not pairs:
        return untested("no stream was left before its end, or no turn followed")
    control = any(following.answers and all(call.exact for call in following.answers) for _, following in pairs)
    return held(when=control, otherwise="no later turn called the model")


def _after_abandoned(history: History) -> Iterator[tuple[Turn, Turn]]:
    for left in history.turns.values():
        if left.outcome is Outcome.ABANDONED:
            later = (turn for turn in history.turns.values() if turn.started > left.ended)
            following = next((turn for turn in later if turn.process == left.process), None)
            if following is not None:
                yield left, following


def _shared_trace(history: History, left: Turn, following: Turn) -> str:
    traces = {span.trace for span in _spans(history, left)}
    shared = next((span for span in _spans(history, following) if span.trace in traces), None)
    return f"was recorded in the trace of that stream (span {shared.name!r})" if shared else ""


def _spans(history: History, turn: Turn) -> Iterator[SpanEnded]:
    return (span for span in history.spans if span.turn == turn.id)


def _foreign_resolve(history: History, turn: Turn) -> str:
    resolved = (event for event in history.of(CalledBack) if event.point == "resolve" and event.turn == turn.id)
    surely = (event.given for event in resolved if event.attribution == "exact")
    other = next((user for user in surely if user != turn.caller.user), None)
    return f"was resolved as another caller, {other!r}" if other is not None else ""


@check("turns.stream-equals-run")
def stream_equals_run(history: History) -> Judgement:
    """A turn streamed and the same turn run send the same prompts, and the turns after them do."""
    return compared(history, "turns.stream-equals-run", "streamed", "run")
