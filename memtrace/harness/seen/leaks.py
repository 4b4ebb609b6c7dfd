"""Where a caller was shown words that are not theirs, and which rule each such leak is blamed on.

One leak is blamed on one rule: the most specific whose condition holds. The general rule, ``users.no-foreign-memory``,
takes what no other claims. Where callers have something in common, such as similar ids, that is to blame only if in the
same history nothing leaked between callers who have not: else it is not what opened the door.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from memtrace.harness.findings import Judgement, accuse, shown, violated
from memtrace.harness.record.events import FactsRead, FactWritten
from memtrace.harness.record.excerpts import excerpt
from memtrace.harness.record.history import Call, History, Source, Turn, canaries_in
from memtrace.harness.rules import RULES
from memtrace.harness.seen.lookalikes import is_pattern, similar
from memtrace.harness.seen.resolving import changing
from memtrace.model import Author, Caller, Evidence, Outcome, Verdict

GENERAL: Final = "users.no-foreign-memory"
"""The rule that takes the leaks that no other claims."""


@dataclass(frozen=True, slots=True)
class Leak:
    """A canary in a prompt, or in what a read returned, of a caller whom it does not belong to.

    ``source`` is where it entered last before; ``None`` where it never entered this script: another test's words.
    """

    canary: str
    caller: Caller
    source: Source | None
    call: Call | None = None
    read: FactsRead | None = None

    @property
    def at(self) -> int:
        """Its place in the order."""
        return self.call.at if self.call is not None else self.read.at if self.read is not None else 0


@lru_cache(maxsize=1)
def leaks(history: History) -> tuple[Leak, ...]:
    """Every leak of a history, in order."""
    return tuple(sorted([*_in_prompts(history), *_in_reads(history)], key=lambda leak: leak.at))


def blamed(history: History, rule: str) -> list[Leak]:
    """The leaks that one rule answers for."""
    return [leak for leak, answering in _blame(history) if answering == rule]


@lru_cache(maxsize=1)
def _blame(history: History) -> list[tuple[Leak, str]]:
    """Every leak with the rule it is blamed on."""
    claimed = [(leak, _claim(history, leak)) for leak in leaks(history)]
    widest = max((_ACCIDENTAL.index(rule) for _, rule in claimed if rule in _ACCIDENTAL), default=0)
    return [(leak, _ACCIDENTAL[widest] if rule in _ACCIDENTAL else rule) for leak, rule in claimed]


def _claim(history: History, leak: Leak) -> str:
    """The most specific rule that the leak fits; never one that does not apply to the system."""
    claims = history.opened.capabilities if history.opened else ()
    rules = (rule for rule, holds in _BLAME if holds(history, leak) and not RULES[rule].unmet(claims))
    return next(rules, GENERAL)


def accuse_leaks(found: Sequence[Leak], reason: str) -> Judgement:
    """A judgement that shows the first leak whose turn is known; undecided where of each it is a guess."""
    judgements = [accuse_leak(leak, reason) for leak in found]
    return next((known for known in judgements if known.verdict is Verdict.VIOLATED), judgements[0])


def accuse_leak(leak: Leak, reason: str) -> Judgement:
    """A judgement that shows a leak and where its words came from."""
    evidence = [where(leak), origin(leak)]
    return accuse(leak.call, reason, *evidence) if leak.call is not None else violated(reason, *evidence)


def where(leak: Leak) -> Evidence:
    """Where the leak was seen."""
    if leak.call is not None:
        return shown(leak.call, leak.canary)
    text = next((t for t in leak.read.texts if leak.canary in t.lower()), "") if leak.read else ""
    return Evidence(f"what {leak.read.op if leak.read else 'a read'} returned", excerpt(text, leak.canary))


def origin(leak: Leak) -> Evidence:
    """Where its words came from."""
    source = leak.source
    if source is None:
        return Evidence("where it came from", "it was planted in another script or run: the store is shared with it")
    who = source.caller.user or source.caller.session or "an unresolved caller"
    turn = f", turn {source.turn}" if source.turn else ""
    return Evidence("where it came from", f"{source.author} words ({source.way}) of {who:.60}{turn}")


def _in_prompts(history: History) -> Iterator[Leak]:
    for call in history.calls:
        if call.turn is None:
            continue
        caller, turn = call.turn.caller, call.turn.id
        for canary in canaries_in(call.prompt.text):
            if not history.visible(canary, caller, before=call.at, turn=turn):
                yield Leak(canary, caller, _last_source(history, canary, call.at), call=call)


def _in_reads(history: History) -> Iterator[Leak]:
    for read in history.of(FactsRead):
        for canary in canaries_in("\n".join(read.texts)):
            if not history.visible(canary, read.caller, before=read.at):
                yield Leak(canary, read.caller, _last_source(history, canary, read.at), read=read)


def _last_source(history: History, canary: str, before: int) -> Source | None:
    earlier = [source for source in history.sources(canary) if source.at < before]
    return earlier[-1] if earlier else None


# Conditions, from the most specific rule on

Condition = Callable[[History, Leak], bool]


def _resumed_by_another(history: History, leak: Leak) -> bool:
    """In a run that another caller resumed, or later, of what either of the two had said in it."""
    turn = leak.call.turn if leak.call else None
    said = leak.source.turn if leak.source else ""
    return any(
        resumed is turn or (said in (resumed.id, resumed.of) and leak.caller in (began.caller, resumed.caller))
        for resumed in history.turns.values()
        if (began := history.turns.get(resumed.of)) is not None and not history.same(began.caller, resumed.caller)
    )


def _loaded(history: History, leak: Leak) -> bool:
    """Out of a window that its owner had saved before, and whom it was shown to had loaded."""
    files = list(history.of(FactWritten))
    return any(
        load.op == "load" and not load.error and load.at < leak.at and history.same(load.caller, leak.caller)
        and any(_saved(history, save, leak.source) and save.at < load.at for save in files if save.file == load.file)
        for load in files
    )  # fmt: skip


def _saved(history: History, save: FactWritten, source: Source | None) -> bool:
    own = source is not None and history.same(source.caller, save.caller) and source.at < save.at
    return save.op == "save" and bool(save.file) and own


def _after_abandoned(history: History, leak: Leak) -> bool:
    """In the turn after a stream that was left before its end, of what was said in that stream."""
    turn = leak.call.turn if leak.call else None
    left = history.turns.get(leak.source.turn) if leak.source else None
    if turn is None or left is None or left.outcome is not Outcome.ABANDONED:
        return False
    later = (other for other in history.turns.values() if other.started > left.ended)
    return next((other for other in later if other.process == left.process), None) is turn


def _context_changed(history: History, leak: Leak) -> bool:
    turn = leak.call.turn.id if leak.call and leak.call.turn else ""
    return turn in changing(history) or (leak.source is not None and leak.source.turn in changing(history))


def _other_agent(history: History, leak: Leak) -> bool:
    """An agent's facts at another; or an agent's for a user of that name, or the other way round."""
    source = leak.source
    if source is None:
        return False
    if source.shared == "agent":
        return history.agent_of(source.caller) != history.agent_of(leak.caller)
    return bool(leak.caller.agent) and leak.caller.agent == source.caller.user


def _other_project(_history: History, leak: Leak) -> bool:
    return leak.source is not None and leak.source.caller.project != leak.caller.project


def _unresolved_writer(_history: History, leak: Leak) -> bool:
    return leak.source is not None and leak.source.caller.unresolved is not None


def _learned_offline(history: History, leak: Leak) -> bool:
    """Offline learning read what was said, and only then was it shown to another."""
    runs = (event for event in history.of(FactWritten) if event.op == "learn_offline" and not event.error)
    first = next((run.at for run in runs if leak.source is not None and leak.source.at < run.at), leak.at)
    return first < leak.at and not any(other.canary == leak.canary and other.at < first for other in leaks(history))


def _unresolved_reader(_history: History, leak: Leak) -> bool:
    return leak.caller.unresolved is not None


def _empty_id(history: History, leak: Leak) -> bool:
    return history.nameless(leak.caller) or (leak.source is not None and history.nameless(leak.source.caller))


def _record_named(history: History, leak: Leak) -> bool:
    """Read by the id of a record; or written over another's."""
    if leak.read is not None and leak.read.op == "get":
        return True
    owner = history.record_owner(leak.source.record, leak.source.at) if leak.source else None
    return owner is not None and leak.source is not None and not history.same(owner, leak.source.caller)


def _wildcard(history: History, leak: Leak) -> bool:
    callers = (leak.caller, leak.source.caller) if leak.source else (leak.caller,)
    return any(is_pattern(history.name_of(caller)) for caller in callers)


def _similar(history: History, leak: Leak) -> bool:
    return leak.source is not None and similar(history.name_of(leak.caller), history.name_of(leak.source.caller))


def _same_session(_history: History, leak: Leak) -> bool:
    source = leak.source
    return source is not None and bool(leak.caller.session) and source.caller.session == leak.caller.session


def _overlapping(history: History, leak: Leak) -> bool:
    """The turn that was shown it, or the one that said it, ran beside another caller's."""
    shown_in = leak.call.turn if leak.call else None
    said_in = history.turns.get(leak.source.turn) if leak.source else None
    return any(turn is not None and beside_another(history, turn) for turn in (shown_in, said_in))


def beside_another(history: History, turn: Turn) -> bool:
    """Whether a turn was open at the same time as another caller's."""
    return any(
        turn.started < other.ended and other.started < turn.ended and not history.same(turn.caller, other.caller)
        for other in history.turns.values()
        if other is not turn
    )


def _recalled(history: History, leak: Leak) -> bool:
    """Recall is on, and the words came back as memory, not as messages of a conversation."""
    opening = history.opening(leak.at)
    if leak.call is None or opening is None or not opening.options.get("recall"):
        return False
    return all(m.author is Author.SYSTEM for m in leak.call.prompt.messages if leak.canary in m.text.lower())


def _not_approved(_history: History, leak: Leak) -> bool:
    return leak.source is not None and leak.source.shared == "nobody"


def _other_agents_plane(_history: History, leak: Leak) -> bool:
    return leak.source is not None and leak.source.shared == "plane"


_BLAME: Final[tuple[tuple[str, Condition], ...]] = (
    ("plane.retired-is-gone", _not_approved),
    ("plane.agents-apart", _other_agents_plane),
    ("turns.resume-belongs-to-its-caller", _resumed_by_another),
    ("processes.window-round-trip", _loaded),
    ("turns.abandoned-leaves-no-context", _after_abandoned),
    ("users.resolved-once-per-turn", _context_changed),
    ("users.agent-facts-stay-with-agent", _other_agent),
    ("users.project-partitions", _other_project),
    ("users.unresolved-writes-nothing", _unresolved_writer),
    ("authors.offline-mines-users-only", _learned_offline),
    ("users.unresolved-sees-only-agent-facts", _unresolved_reader),
    ("users.empty-id-reads-nothing", _empty_id),
    ("users.foreign-record-untouchable", _record_named),
    ("users.wildcard-is-not-a-user", _wildcard),
    ("users.similar-ids-apart", _similar),
    ("users.same-session-id-apart", _same_session),
    ("users.concurrent-turns-apart", _overlapping),
    ("users.recall-namespaced", _recalled),
)
_ACCIDENTAL: Final = (
    "users.project-partitions", "users.wildcard-is-not-a-user", "users.similar-ids-apart",
    "users.same-session-id-apart", "users.concurrent-turns-apart", "users.recall-namespaced", GENERAL,
)  # fmt: skip
"""Rules about what lies between two callers, which may have nothing to do with it; the widest come last."""
