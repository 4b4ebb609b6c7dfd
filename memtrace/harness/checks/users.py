"""Checks of the *users* boundary: whose memory is it?"""

from __future__ import annotations

from memtrace.harness.findings import Judgement, check, held, untested
from memtrace.harness.history import History, canaries_in
from memtrace.harness.leaks import accuse_leak, blamed


@check("users.no-foreign-memory")
def no_foreign_memory(history: History) -> Judgement:
    """No prompt holds what only another user said or was told."""
    if found := blamed(history, "users.no-foreign-memory"):
        return accuse_leak(found[0], "a caller was shown what only another said or was told")
    people = {history.identity(turn.caller) for turn in history.turns.values()} - {None}
    if len(people) < 2:
        return untested("fewer than two callers")
    return held(when=owners_got_their_own(history), otherwise="no owner was shown their own words again")


def owners_got_their_own(history: History) -> bool:
    """Somebody was shown, in a later turn, what they had said in an earlier one: memory works at all."""
    return any(
        source.turn != call.turn.id and source.at < call.at and history.same(source.caller, call.turn.caller)
        for call in history.answers()
        if call.turn is not None
        for canary in canaries_in(call.prompt.text)
        for source in history.sources(canary)
        if source.way in ("turn", "reply", "fact")
    )
