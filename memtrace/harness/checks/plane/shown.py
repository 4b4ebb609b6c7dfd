"""Whom curated facts are shown to, and until when."""

from __future__ import annotations

from typing import Final

from memtrace.harness.findings import Judgement, accuse, check, held, outline, shown, untested
from memtrace.harness.record.events import Curated
from memtrace.harness.record.history import History, canaries_in
from memtrace.harness.seen.expectations import met
from memtrace.harness.seen.leaks import accuse_leaks, blamed
from memtrace.harness.seen.plane import Approved, approved, first_prompts, up_to_date

_MOST: Final = 50
"""Facts of an agent that a system may be expected to show all at once."""


@check("plane.facts-reach-everyone")
def facts_reach_everyone(history: History) -> Judgement:
    """Each approved fact is in each later first prompt of its agent, once."""
    facts = approved(history)
    if not facts:
        return untested("nothing was curated")
    judged = False
    for turn, call in first_prompts(history):
        own = [fact for fact in facts if fact.agent == history.agent_of(turn.caller)]
        due = [fact for fact in own if fact.since < turn.started and call.at < fact.until]
        if not due or len(due) > _MOST or not up_to_date(history, turn, call):
            continue
        text = call.prompt.text.lower()
        for fact in due:
            times = text.count(fact.canary)
            if times != 1:
                reason = f"the approved fact with {fact.canary} is {times} times in the prompt of turn {turn}, not once"
                return accuse(call, reason, shown(call, fact.canary) if times else outline(call))
        judged = True
    return held(when=judged, otherwise="no prompt was made after a fact had been approved")


@check("plane.retired-is-gone")
def retired_is_gone(history: History) -> Judgement:
    """No later prompt holds a fact that was retired, and none one that was never approved."""
    if not any(event.op != "approve" for event in history.of(Curated)):
        return untested("no fact was retired, rejected or only proposed")
    if found := blamed(history, "plane.retired-is-gone"):
        return accuse_leaks(found, f"the prompt holds {found[0].canary}, of a fact that nobody approved")
    facts = approved(history)
    for turn, call in first_prompts(history):
        words = canaries_in(call.prompt.text)
        kept = [fact for fact in facts if fact.canary in words and fact.until < turn.started]
        if kept and up_to_date(history, turn, call):
            reason = f"the prompt of turn {turn} holds {kept[0].canary}, of a fact that was retired before"
            return accuse(call, reason, shown(call, kept[0].canary))
    return held(when=_some_shown(history, facts), otherwise="no curated fact was ever in a prompt")


@check("plane.agents-apart")
def agents_apart(history: History) -> Judgement:
    """No prompt holds a fact curated for another agent."""
    facts = approved(history)
    if not facts:
        return untested("nothing was curated")
    if found := blamed(history, "plane.agents-apart"):
        return accuse_leaks(found, f"the prompt holds {found[0].canary}, which was curated for another agent")
    agents = {history.agent_of(turn.caller) for turn, _ in first_prompts(history)}
    if not any(agent != fact.agent for fact in facts for agent in agents):
        return untested("only one agent was asked")
    return held(when=_some_shown(history, facts), otherwise="no curated fact was ever in a prompt")


@check("plane.recovers")
def recovers(history: History) -> Judgement:
    """Facts that were curated in an outage are in the prompts after it."""
    return met(history, "plane.recovers")


def _some_shown(history: History, facts: list[Approved]) -> bool:
    prompts = [(history.agent_of(turn.caller), call.prompt.text.lower()) for turn, call in first_prompts(history)]
    return any(fact.canary in text for fact in facts for agent, text in prompts if agent == fact.agent)
