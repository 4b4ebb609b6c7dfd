"""Curated facts in the prompt: read from a plane, shown as data, and what happens where they are missing."""

from __future__ import annotations

from typing import Final, Literal

from memtrace.errors import PlaneError, UsageError
from memtrace.model import Level, Scope
from memtrace.plane import Curated, PlaneFacts, configured
from memtrace.reference.blocks import Reading, Rendered
from memtrace.reference.text import folded, quoted

OnMissing = Literal["nothing", "say", "raise"]
_ON_MISSING: Final = ("nothing", "say", "raise")


class CuratedFactsMissing(PlaneError):
    """Curated facts were never read, and this memory does not answer without them: hand the question to a person."""


class PlaneBlock:
    """The facts that people curated for an agent, each once in a prompt.

    While the plane cannot be read those that were last read are rendered, and the span says so.
    """

    name = "plane_facts"
    type = "plane"

    def __init__(self, plane: PlaneFacts, agent: str, *, project: str = "", on_missing: OnMissing = "nothing") -> None:
        if not agent:
            raise UsageError("plane_agent_id is empty, which names no agent")
        if on_missing not in _ON_MISSING:
            raise UsageError(f"on_missing_plane={on_missing!r}: give one of {', '.join(_ON_MISSING)}")
        self._plane = plane
        self._agent = agent
        self._scope = Scope(Level.AGENT, agent, project)
        self._on_missing = on_missing
        self._heading = f"Curated facts (agent:{quoted(agent)[1:-1]})"

    def scope(self, reading: Reading) -> Scope | None:  # noqa: ARG002  everyone's of the agent
        """The agent's."""
        return self._scope

    def render(self, reading: Reading) -> Rendered:
        """The facts under their heading; a refusal, where there are none and this memory was told to raise then."""
        curated = self._plane.read(self._agent, reading.query, outgoing=reading.outgoing)
        fresh = [fact for fact in curated.facts if folded(fact) not in reading.shown]
        reading.shown.update(map(folded, fresh))
        deduped = curated.deduped + len(curated.facts) - len(fresh)
        return Rendered(
            self._text(curated, fresh), fresh, deduped=deduped, curated=curated, refusal=self._refusal(curated)
        )

    def _refusal(self, curated: Curated) -> CuratedFactsMissing | None:
        if curated.freshness != "missing" or self._on_missing != "raise":
            return None
        return CuratedFactsMissing(f"no curated facts of {self._agent!r} could be read ({curated.status})")

    def _text(self, curated: Curated, facts: list[str]) -> str:
        if curated.freshness == "missing" and self._on_missing == "say":
            return f"{self._heading} cannot be read now. Where an answer would need them, say so and do not guess."
        return "\n".join([f"{self._heading}:", *(f"- {quoted(fact)}" for fact in facts)]) if facts else ""


def plane_block(
    plane: PlaneFacts | None, plane_agent: str | None, agent: str | None, *, project: str, on_missing: OnMissing
) -> PlaneBlock | None:
    """The block of a memory that was given a plane, an agent of it, or both; ``None`` of one that was given neither.

    Raises:
        UsageError: no plane is known, or no agent.
    """
    if plane is None and plane_agent is None:
        return None
    who = agent if plane_agent is None else plane_agent
    if who is None:
        raise UsageError("plane= needs plane_agent_id= or agent_id=: whose curated facts to read")
    return PlaneBlock(configured() if plane is None else plane, who, project=project, on_missing=on_missing)
