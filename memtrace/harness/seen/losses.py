"""What its owner had been shown and then no longer was, though only others had done anything in between.

Two looks of the same kind are compared: two listings of facts, two of stored messages, two reads of one record, two
prompts for the same question. Between them the owner did nothing, and the system went on running. What belongs to an
agent is compared in the prompts of its callers, who are none of them its owner.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final

from memtrace.harness.findings import Judgement, violated
from memtrace.harness.record.events import Closed, FactsRead, FactWritten, Opened, TurnEnded, TurnStarted
from memtrace.harness.record.history import CANARY, History, canaries_in
from memtrace.harness.seen.forgotten import FORGETTING
from memtrace.harness.seen.lookalikes import is_pattern, similar
from memtrace.model import Caller, Evidence

GENERAL: Final = "users.forget-one-leaves-others"
"""The rule that takes what no other claims."""
_TURN: Final = "a turn"
_CONVERSATION: Final = "messages"
_OVER_ANOTHER: Final = frozenset({"forget", "erase", "update"})
"""What may name another's record."""


@dataclass(frozen=True, slots=True, eq=False)
class Act:
    """Something a caller did that may change what is kept: a turn that ended, or a write of the application's."""

    at: int
    caller: Caller
    what: str
    record: str = ""

    def __str__(self) -> str:
        named = f" of record {self.record}" if self.record else ""
        return f"{self.what}{named} by {self.caller.user or self.caller.session or 'an empty id'!s:.60}"


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """What a caller was shown of their own, or of their ``agent``'s, at a moment; what led to it began at ``since``."""

    at: int
    since: int
    caller: Caller
    where: str
    words: frozenset[str]
    agent: bool = False

    @property
    def owner(self) -> str:
        """Whose words these are, for a person to read."""
        return f"the agent of {self.caller.user:.60}" if self.agent else f"{self.caller.user:.60}"


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Two looks of one kind, the later after acts of others than the owner alone."""

    before: Look
    after: Look
    acts: tuple[Act, ...]

    @property
    def lost(self) -> frozenset[str]:
        """The words that are gone."""
        return self.before.words - self.after.words


@dataclass(frozen=True, slots=True)
class Loss:
    """What was lost between two looks, and the act of another that it is blamed on."""

    comparison: Comparison
    act: Act

    def accuse(self, reason: str) -> Judgement:
        """The violation, with what was lost and what happened in between."""
        after, words = self.comparison.after, ", ".join(sorted(self.comparison.lost))
        lost = Evidence(f"no longer in {after.where}", f"{words} of {after.owner}")
        return violated(reason, lost, Evidence("what happened in between", str(self.act)))


def lost(history: History, rule: str) -> list[Loss]:
    """The losses that one rule answers for."""
    return [loss for blamed, loss in _losses(history) if blamed == rule]


@lru_cache(maxsize=1)
def _losses(history: History) -> list[tuple[str, Loss]]:
    """Every loss that some rule answers for, with the rule."""
    found = [comparison for comparison in comparisons(history) if comparison.lost]
    blame = [(rule, condition) for rule, condition in _BLAME if rule not in _ACCIDENTAL]
    claims = [_culprit(history, comparison, _BLAME) for comparison in found]
    if any(claim is not None and claim[0] == GENERAL for claim in claims):
        claims = [
            _culprit(history, comparison, blame) or claim for comparison, claim in zip(found, claims, strict=True)
        ]
    return [
        (claim[0], Loss(comparison, claim[1]))
        for comparison, claim in zip(found, claims, strict=True)
        if claim is not None
    ]


def _culprit(
    history: History, comparison: Comparison, blame: Sequence[tuple[str, Condition]]
) -> tuple[str, Act] | None:
    """The first rule, from the most specific on, that blames one of the acts; and that act."""
    if comparison.after.agent:
        return _culprit_of_agent(history, comparison)
    owner = comparison.after.caller
    return next(
        ((rule, act) for rule, condition in blame for act in comparison.acts if condition(history, owner, act)), None
    )


def _culprit_of_agent(history: History, comparison: Comparison) -> tuple[str, Act] | None:
    """Likewise for an agent's facts; what is erased of whoever stored them may be taken for theirs."""
    stored = [source for word in comparison.lost for source in history.sources(word)]
    for act in comparison.acts:
        if act.record and any(source.record == act.record for source in stored):
            return "users.foreign-record-untouchable", act
        if act.what in FORGETTING and not any(history.same(source.caller, act.caller) for source in stored):
            return GENERAL, act
    return None


@lru_cache(maxsize=1)
def comparisons(history: History) -> tuple[Comparison, ...]:
    """Every two looks that can be compared and have acts of others between them, in order."""
    acts = list(_acts(history))
    series: dict[tuple[Any, ...], list[Look]] = defaultdict(list)
    for key, look in _looks(history):
        series[key].append(look)
    found = [
        Comparison(before, after, between)
        for key, looks in series.items()
        for before, after in pairwise(looks)
        if (between := _only_others(history, acts, before, after))
        if not (_CONVERSATION in key and _evicted(history, after, between))
    ]
    return tuple(sorted(found, key=lambda comparison: comparison.after.at))


def _only_others(history: History, acts: list[Act], before: Look, after: Look) -> tuple[Act, ...]:
    """The acts between two looks; none where the owner acted too, who is no caller where they are of an agent's."""
    between = tuple(act for act in acts if before.at < act.at < after.since)
    own = not after.agent and any(history.same(act.caller, after.caller) and act.at > before.at for act in between)
    return () if own else between


def _evicted(history: History, after: Look, between: tuple[Act, ...]) -> bool:
    """Whether so many others have had turns since that the owner's window may be one too many."""
    most = history.declared("max_users", after.at)
    active = {history.identity(act.caller) for act in between if act.what == _TURN}
    return most is not None and len(active) >= most


def _acts(history: History) -> Iterator[Act]:
    for event in history.events:
        if isinstance(event, TurnEnded):
            yield Act(event.at, history.turns[event.turn].caller, _TURN)
        elif isinstance(event, FactWritten) and not event.refused:
            record = event.record if event.op in _OVER_ANOTHER else ""
            yield Act(event.at, event.caller, event.op, record)


def _looks(history: History) -> Iterator[tuple[tuple[Any, ...], Look]]:
    sitting = 0
    for event in history.events:
        if isinstance(event, (Opened, Closed)):
            sitting += 1
        elif isinstance(event, (FactsRead, TurnStarted)) and event.caller.unresolved is None:
            where = event.process, sitting, history.identity(event.caller), event.caller.session, event.caller.agent
            looks = _read(history, event) if isinstance(event, FactsRead) else _prompt(history, event)
            for kind, look in looks:
                yield (*where, *kind), look


def _read(history: History, event: FactsRead) -> Iterator[tuple[tuple[str, ...], Look]]:
    if event.error or event.limit is not None or event.op == "search":
        return
    texts = [fact.text for fact in event.facts if not fact.superseded] if event.facts else event.texts
    words = _own(history, event.caller, "\n".join(texts), event.at)
    yield (event.op, event.record), Look(event.at, event.at, event.caller, f"what {event.op} gives", words)


def _prompt(history: History, event: TurnStarted) -> Iterator[tuple[tuple[str, ...], Look]]:
    """Facts written by hand, in the prompt for a question that is asked again word for word."""
    turn = history.turns[event.turn]
    if not turn.ok or not turn.answers or canaries_in(turn.text):
        return
    call = turn.answers[0]
    words = frozenset(
        word
        for word in _own(history, turn.caller, call.prompt.text, call.at)
        if any(source.way == "fact" for source in history.sources(word))
    )
    # The turn's own end is no act of its owner's: its words are none of those that are compared.
    look = Look(turn.ended, turn.started, turn.caller, f"the prompt of {turn}", words)
    yield ("prompt", turn.via, turn.text), look
    of_agent = replace(look, words=_agents(history, call.prompt.text, call.at), agent=True)
    yield ("prompt", turn.via, turn.text, "agent"), of_agent


def _own(history: History, caller: Caller, text: str, at: int) -> frozenset[str]:
    return frozenset(
        word
        for word in CANARY.findall(text.lower())
        if any(s.at < at and not s.shared and history.same(s.caller, caller) for s in history.sources(word))
    )


def _agents(history: History, text: str, at: int) -> frozenset[str]:
    """The words that are an agent's alone, and were stored by hand."""
    return frozenset(
        word
        for word in CANARY.findall(text.lower())
        if (sources := history.sources(word))
        and all(s.at < at and s.shared == "agent" and s.way == "fact" for s in sources)
    )


# Whose fault, from the most specific rule on

Condition = Callable[[History, Caller, Act], bool]


def _record_named(history: History, owner: Caller, act: Act) -> bool:
    named = history.record_owner(act.record, act.at)
    return named is not None and history.same(named, owner)


def _nobody(history: History, _owner: Caller, act: Act) -> bool:
    return act.what in FORGETTING and history.nameless(act.caller)


def _other_project(history: History, owner: Caller, act: Act) -> bool:
    return history.can("project") and act.caller.project != owner.project


def _pattern(history: History, _owner: Caller, act: Act) -> bool:
    return is_pattern(history.name_of(act.caller))


def _similar(history: History, owner: Caller, act: Act) -> bool:
    return similar(history.name_of(act.caller), history.name_of(owner))


def _forgotten(_history: History, _owner: Caller, act: Act) -> bool:
    return act.what in FORGETTING


_BLAME: Final[tuple[tuple[str, Condition], ...]] = (
    ("users.foreign-record-untouchable", _record_named),
    ("users.empty-id-reads-nothing", _nobody),
    ("users.project-partitions", _other_project),
    ("users.wildcard-is-not-a-user", _pattern),
    ("users.similar-ids-apart", _similar),
    (GENERAL, _forgotten),
)
_ACCIDENTAL: Final = frozenset({"users.wildcard-is-not-a-user", "users.similar-ids-apart"})
"""Rules about what two callers have in common, which may be no more than that: others lost something too."""
