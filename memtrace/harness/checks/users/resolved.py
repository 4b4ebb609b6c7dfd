"""Whether a turn belongs to whom its context names, and to nobody where it names nobody."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatch

from memtrace.harness.checks.users.controls import recalled, words_of
from memtrace.harness.findings import Judgement, check, held, outline, told, undecided, untested, violated
from memtrace.harness.record.events import Scanned
from memtrace.harness.record.history import NEVER, History, Source, Turn, canaries_in
from memtrace.harness.seen.leaks import accuse_leaks, blamed, leaks
from memtrace.harness.seen.resolving import changing
from memtrace.harness.seen.sightings import sightings
from memtrace.model import Evidence, Outcome


@check("users.unresolved-sees-only-agent-facts")
def unresolved_sees_only_agent_facts(history: History) -> Judgement:
    """The prompt for a caller who cannot be told holds nothing that belongs to a user."""
    if found := blamed(history, "users.unresolved-sees-only-agent-facts"):
        return accuse_leaks(found, "a caller who cannot be told was shown what belongs to a user")
    if not (turns := _unresolved(history)):
        return untested("every caller could be told")
    owners_first = min(recalled(history).values(), default=NEVER) < max(turn.ended for turn in turns)
    return held(when=owners_first, otherwise="before, no user was shown their own words again")


@check("users.unresolved-writes-nothing")
def unresolved_writes_nothing(history: History) -> Judgement:
    """What a caller who cannot be told said or was told is in no later prompt, no read and no file of the memory's."""
    if found := blamed(history, "users.unresolved-writes-nothing"):
        return accuse_leaks(found, "what a caller said who cannot be told was kept, and shown later")
    turns = _unresolved(history)
    if not any(words_of(turn) for turn in turns):
        return untested("no caller who cannot be told said anything")
    if on_disk := next(_on_disk(history), None):
        return on_disk
    return held(when=recalled(history), otherwise="nobody who could be told was shown their own words again either")


def _unresolved(history: History) -> list[Turn]:
    """The turns of callers who cannot be told that were served, or declined on purpose."""
    turns = (turn for turn in history.turns.values() if turn.caller.unresolved is not None)
    return [turn for turn in turns if turn.answers or turn.outcome is Outcome.REFUSED]


def _on_disk(history: History) -> Iterator[Judgement]:
    telemetry = history.declared("telemetry") or ()
    for scan in history.of(Scanned):
        for word, found in scan.found.items():
            files = [file for file in found if not any(fnmatch(file, pattern) for pattern in telemetry)]
            sources = history.sources(word)
            if files and sources and all(_kept_of_nobody(history, source) for source in sources):
                evidence = Evidence(f"{word} is in", ", ".join(files))
                yield violated("what a caller said who cannot be told is on disk", evidence)


def _kept_of_nobody(history: History, source: Source) -> bool:
    """Whether a caller who cannot be told said it, and no run that waits for an approval needs it to go on."""
    turn = history.turns.get(source.turn)
    return source.caller.unresolved is not None and (turn is None or turn.outcome is not Outcome.PAUSED)


@check("users.resolved-once-per-turn")
def resolved_once_per_turn(history: History) -> Judgement:
    """A turn whose context begins to name another user is read and written as one and the same."""
    judged = False
    for turn_id, users in changing(history).items():
        turn = history.turns[turn_id]
        read, kept = _read_as(history, turn, users), _kept_for(history, turn, users)
        if len(read | kept) > 1:
            return _of_two(turn, read, kept)
        judged = judged or bool(read and kept)
    if not changing(history):
        return untested("no context changed during a turn")
    return held(when=judged, otherwise="of no such turn it could be told whose memory was read and written")


def _read_as(history: History, turn: Turn, users: tuple[str, ...]) -> set[str]:
    """Whose memory was in the prompts of a turn."""
    return {
        source.caller.user
        for call in turn.calls
        if call.exact
        for word in canaries_in(call.prompt.text)
        for source in history.sources(word)
        if source.turn != turn.id and source.at < call.at and source.caller.user in users and not source.shared
    }


def _kept_for(history: History, turn: Turn, users: tuple[str, ...]) -> set[str]:
    """Who was shown later, in a turn or a read with a context that does not change, what was said in a turn."""
    words = words_of(turn)
    later = [(s.word, s.caller, s.call, s.at) for s in sightings(history)]
    later += [(leak.canary, leak.caller, leak.call, leak.at) for leak in leaks(history)]
    return {
        caller.user
        for word, caller, call, at in later
        if word in words and at > turn.ended and caller.user in users
        if call is None or (call.exact and call.turn is not None and call.turn.id not in changing(history))
    }


def _of_two(turn: Turn, read: set[str], kept: set[str]) -> Judgement:
    reason = "one turn was read and written as more than one user, because its context changed while it ran"
    evidence = [told(turn), *(outline(call) for call in turn.answers[:1])]
    if read:
        evidence.append(Evidence("whose memory it was shown", ", ".join(sorted(read))))
    if kept:
        evidence.append(Evidence("who was shown later what was said in it", ", ".join(sorted(kept))))
    exact = all(call.exact for call in turn.calls)
    return violated(reason, *evidence) if exact else undecided(f"{reason}; but whose calls they were is a guess")
