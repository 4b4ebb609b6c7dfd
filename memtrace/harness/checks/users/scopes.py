"""Whether what belongs to an agent or a project stays there, and whether memory gives away an id."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final
from urllib.parse import quote

from memtrace.harness.checks.users.controls import people, recalled
from memtrace.harness.findings import Judgement, accuse, check, held, untested
from memtrace.harness.record.events import FactsRead, FactWritten
from memtrace.harness.record.excerpts import excerpt
from memtrace.harness.record.history import Call, History, Source
from memtrace.harness.seen.leaks import accuse_leaks, blamed
from memtrace.harness.seen.losses import lost
from memtrace.harness.seen.sightings import sightings
from memtrace.model import Caller, Evidence

_SHORTEST_ID: Final = 6
"""A shorter id may stand in a prompt by chance."""


@check("users.agent-facts-stay-with-agent")
def agent_facts_stay_with_agent(history: History) -> Judgement:
    """An agent's facts reach every caller of that agent, and no other agent's prompts."""
    if found := blamed(history, "users.agent-facts-stay-with-agent"):
        return accuse_leaks(found, "an agent's facts were shown to a caller of another agent")
    told_agents = {history.agent_of(source.caller) for source in _shared_with_agent(history)}
    if not told_agents:
        return untested("no fact was stored for an agent")
    asked = {history.agent_of(caller) for caller in _askers(history)}
    if not asked - told_agents and len(told_agents) < 2:
        return untested("nobody asked another agent")
    shown = {history.agent_of(s.caller) for s in sightings(history) if any(x.shared == "agent" for x in s.sources)}
    missing = sorted((told_agents & asked) - shown)
    return held(when=shown and not missing, otherwise=f"agent {missing[:1]} did not show its own facts either")


def _shared_with_agent(history: History) -> Iterator[Source]:
    return (source for sources in history.canaries.values() for source in sources if source.shared == "agent")


def _askers(history: History) -> Iterator[Caller]:
    return (turn.caller for turn in history.turns.values() if turn.answers)


@check("users.project-partitions")
def project_partitions(history: History) -> Judgement:
    """Nothing that entered in one project is shown, replaced or deleted in another."""
    if found := blamed(history, "users.project-partitions"):
        return accuse_leaks(found, "what belongs to one project was shown in another")
    if gone := lost(history, "users.project-partitions"):
        return gone[0].accuse("what belongs to one project is gone after an act in another")
    partitions = {caller.project for caller in people(history).values()}
    if len(partitions) < 2:
        return untested("fewer than two projects")
    shown = {source.caller.project for sighting in sightings(history) for source in sighting.sources}
    missing = sorted(partitions - shown - _refused(history))
    return held(when=not missing, otherwise=f"in project {missing[:1]} nobody was shown anything again")


def _refused(history: History) -> set[str]:
    """Projects in which nothing was let through."""
    served = {event.caller.project for event in history.of(FactWritten) if not event.refused}
    served |= {turn.caller.project for turn in history.turns.values() if turn.answers}
    return {caller.project for caller in people(history).values()} - served


@check("users.id-not-in-prompt")
def id_not_in_prompt(history: History) -> Judgement:
    """No model is sent a user's id that nobody had said."""
    for call in history.calls:
        for user, form in _ids_in(history, call):
            of_turn = f" of turn {call.turn}" if call.turn else ""
            evidence = Evidence(f"the {call.purpose} prompt{of_turn}", excerpt(call.prompt.text, form))
            return accuse(call, f"a prompt holds the user id {user!r:.60}, which nobody had said", evidence)
    if not any(_unsaid(history)):
        return untested("no user has an id that could be told in a prompt")
    return held(when=recalled(history), otherwise="no prompt held anything of a user's memory")


def _ids_in(history: History, call: Call) -> Iterator[tuple[str, str]]:
    text = call.prompt.text.casefold()
    return ((user, form) for user, form in _unsaid(history) if form in text)


@lru_cache(maxsize=1)
def _unsaid(history: History) -> tuple[tuple[str, str], ...]:
    """The forms in which users' ids may stand in a prompt, with the id, but for those that somebody said."""
    said = "\n".join(_said(history)).casefold()
    users = dict.fromkeys(caller.user for caller in people(history).values())
    return tuple((user, form) for user in users for form in _forms(user) if form not in said)


def _forms(user: str) -> Iterator[str]:
    """As it is, quoted as in a URL, and of an address the part that names the person."""
    local = user.partition("@")[0]
    for form in dict.fromkeys((user, quote(user, safe=""), local)):
        if len(form.strip()) >= _SHORTEST_ID and any(c.isdigit() for c in form):
            yield form.casefold()


def _said(history: History) -> Iterator[str]:
    """All that may stand in a prompt for another reason: what was said, and the names of agents and projects."""
    yield from (text for _, text in history.spoken())
    for event in history.of(FactWritten, FactsRead):
        yield from (event.caller.agent, event.caller.project)
    for turn in history.turns.values():
        yield from (turn.caller.agent, turn.caller.project, turn.caller.session)
