"""Whether what belongs to one caller stays away from another, whatever the two have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from memtrace.harness.checks.users.controls import (
    pairs,
    people,
    shown_again,
    somebody_looked_after_an_owner,
    unproven,
)
from memtrace.harness.findings import Judgement, check, held, told, undecided, untested, violated
from memtrace.harness.record.events import Opened
from memtrace.harness.record.excerpts import excerpt
from memtrace.harness.record.history import Call, History, Turn, canaries_in
from memtrace.harness.seen.conversation import led_to
from memtrace.harness.seen.expectations import met
from memtrace.harness.seen.leaks import accuse_leaks, beside_another, blamed
from memtrace.harness.seen.lookalikes import is_pattern, similar
from memtrace.harness.seen.losses import lost
from memtrace.model import Caller, Evidence, Verdict


@check("users.own-memory-recalled")
def own_memory_recalled(history: History) -> Judgement:
    """What the script expects its owner to be shown again, they are."""
    return met(history, "users.own-memory-recalled")


@check("users.no-foreign-memory")
def no_foreign_memory(history: History) -> Judgement:
    """No prompt and no read holds what only another user said or was told."""
    if found := blamed(history, "users.no-foreign-memory"):
        return accuse_leaks(found, "a caller was shown what only another said or was told")
    if len(people(history)) < 2:
        return untested("fewer than two callers")
    return held(when=somebody_looked_after_an_owner(history), otherwise="no owner was shown their own words again")


@check("users.concurrent-turns-apart")
def concurrent_turns_apart(history: History) -> Judgement:
    """What is said while turns of several callers overlap reaches none but who said it, then and later."""
    rule = "users.concurrent-turns-apart"
    if found := blamed(history, rule):
        return accuse_leaks(found, "while turns overlapped, one caller's memory reached another's")
    overlapping = [turn.caller for turn in history.turns.values() if beside_another(history, turn)]
    if not overlapping:
        return untested("no two callers' turns overlapped")
    kept = met(history, rule)
    if kept.verdict in (Verdict.VIOLATED, Verdict.INCONCLUSIVE):
        return kept
    return _held_for(history, overlapping)


@check("users.similar-ids-apart")
def similar_ids_apart(history: History) -> Judgement:
    """Callers whose ids look alike neither read, nor overwrite, nor delete what is each other's."""
    return _kept_apart(history, "users.similar-ids-apart", similar, "no two ids look alike")


@check("users.wildcard-is-not-a-user")
def wildcard_is_not_a_user(history: History) -> Judgement:
    """A caller whose id is a pattern is that caller, and nobody whom it matches."""
    return _kept_apart(history, "users.wildcard-is-not-a-user", _one_is_a_pattern, "no id is a pattern")


def _one_is_a_pattern(one: str, other: str) -> bool:
    return is_pattern(one) != is_pattern(other)


def _kept_apart(history: History, rule: str, alike: Callable[[str, str], bool], otherwise: str) -> Judgement:
    if found := blamed(history, rule):
        who = f"{history.name_of(found[0].caller)!r:.60}"
        whose = f"{history.name_of(found[0].source.caller)!r:.60}" if found[0].source else "nobody here"
        return accuse_leaks(found, f"the caller with the id {who} was shown what belongs to {whose}")
    if gone := lost(history, rule):
        return gone[0].accuse(f"what belongs to {gone[0].comparison.after.owner} is gone after {gone[0].act}")
    concerned = [pair for pair in pairs(history) if alike(*map(history.name_of, pair))]
    if not concerned:
        return untested(otherwise)
    return _held_for(history, (caller for pair in concerned for caller in pair))


@check("users.same-session-id-apart")
def same_session_id_apart(history: History) -> Judgement:
    """Two users with the same session id are shown nothing of each other's."""
    if found := blamed(history, "users.same-session-id-apart"):
        return accuse_leaks(found, "a caller was shown what another said in a session of the same id")
    concerned = [(one, other) for one, other in pairs(history) if one.session and one.session == other.session]
    if not concerned:
        return untested("no two callers have the same session id")
    return _held_for(history, (caller for pair in concerned for caller in pair))


@check("users.recall-namespaced")
def recall_namespaced(history: History) -> Judgement:
    """Recall gives a caller their own messages, all that are near enough, and nobody else's."""
    if found := blamed(history, "users.recall-namespaced"):
        return accuse_leaks(found, "recall gave a caller what another had said")
    if not any(opening.options.get("recall") for opening in history.of(Opened)):
        return untested("recall is off")
    crowded = shown_again(history, "users.recall-namespaced")
    if crowded.verdict in (Verdict.VIOLATED, Verdict.INCONCLUSIVE):
        return crowded
    if len(people(history)) < 2:
        return untested("fewer than two callers")
    return _held_for(history, people(history).values()) if crowded.verdict is Verdict.NOT_EXERCISED else crowded


def _held_for(history: History, callers: Iterable[Caller]) -> Judgement:
    """Held, where each of them was seen to have a memory."""
    why_not = unproven(history, callers)
    return held(when=not why_not, otherwise=why_not)


@check("users.reply-goes-to-its-caller")
def reply_goes_to_its_caller(history: History) -> Judgement:
    """What a caller got was said by the model in that caller's turn."""
    own = False
    for turn in history.turns.values():
        for word in canaries_in(turn.reply):
            saying = [call for call in history.answers() if word in call.reply.lower() and call.at < turn.ended]
            if _said_in(history, turn, saying):
                own = True
            elif saying and not _in_own_prompt(turn, word):
                return _misdirected(turn, word, saying)
    if len({history.identity(turn.caller) for turn in history.turns.values()}) < 2:
        return untested("fewer than two callers")
    return held(when=own, otherwise="no reply held a word by which it could be told whose it is")


def _said_in(history: History, turn: Turn, saying: list[Call]) -> bool:
    """In the turn itself, or in the one whose paused run it goes on with."""
    own = set(led_to(history, turn))
    return any(call.turn is not None and call.turn.id in own for call in saying)


def _in_own_prompt(turn: Turn, word: str) -> bool:
    """The model may repeat what it was sent."""
    return any(word in call.prompt.text.lower() for call in turn.answers)


def _misdirected(turn: Turn, word: str, saying: list[Call]) -> Judgement:
    evidence = [Evidence(f"what turn {turn} gave its caller", excerpt(turn.reply, word))]
    evidence += [told(call.turn) for call in saying[:1] if call.turn is not None]
    reason = "a caller got what the model said in another turn"
    exact = all(call.exact for call in [*saying, *turn.answers])
    return (
        violated(reason, *evidence) if exact else undecided(f"{reason}; but whose turn that was is a guess", *evidence)
    )
