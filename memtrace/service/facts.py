"""Curated facts: their versions, the states a version goes through, and what a curator may write."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

LONGEST_FACT: Final = 4_000
LONGEST_NAME: Final = 200
"""Characters of an agent's id, a category or a key's name."""

_UNFIT: Final = re.compile("[\x00-\x1f\x7f\u2028\u2029\ud800-\udfff]")
"""What no name holds: it would break a line, or no database would take it."""


class Refused(Exception):
    """A request that cannot be done; ``status`` is the HTTP status, the message one line for whoever asked."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class State(StrEnum):
    """Where a version of a fact stands. Only an approved one is served."""

    DRAFT = "draft"
    PROPOSED = "proposed"
    APPROVED = "approved"
    REJECTED = "rejected"
    RETIRED = "retired"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class Transition:
    """What an action leads from, and to."""

    sources: frozenset[State]
    target: State


TRANSITIONS: Final = {
    "propose": Transition(frozenset({State.DRAFT}), State.PROPOSED),
    "approve": Transition(frozenset({State.PROPOSED}), State.APPROVED),
    "reject": Transition(frozenset({State.PROPOSED}), State.REJECTED),
    "retire": Transition(frozenset({State.APPROVED, State.REJECTED}), State.RETIRED),
}
"""The only ways from state to state, beside an edit, which begins a new version."""

OPEN: Final = frozenset({State.DRAFT, State.PROPOSED})
"""States of a version that nobody has decided on."""


@dataclass(frozen=True, slots=True)
class Version:
    """One wording of a fact: who wrote it and when, who decided on it and when (``""`` and ``0``: nobody yet)."""

    number: int
    state: State
    content: str
    category: str
    written_by: str
    written_at: float
    decided_by: str = ""
    decided_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact as its curators see it: its latest version, and the one that agents are served, if any."""

    id: str
    agent_id: str
    latest: Version
    served: Version | None
    updated_by: str
    updated_at: float

    def may(self, action: str) -> bool:
        """Whether the action is lawful now. A fact that is served may always be retired."""
        if action == "edit":
            return self.latest.state is not State.RETIRED
        if action == "retire" and self.served is not None:
            return True
        return self.latest.state in TRANSITIONS[action].sources

    def require(self, action: str) -> None:
        """Refuse what is not lawful.

        Raises:
            Refused: with status 409.
        """
        if not self.may(action):
            past = {"propose": "proposed", "edit": "edited", "retire": "retired"}.get(action, f"{action}d")
            past = "rejected" if action == "reject" else past
            raise Refused(409, f"a fact that is {self.latest.state} cannot be {past}")


@dataclass(frozen=True, slots=True)
class Served:
    """A fact as an agent gets it."""

    id: str
    content: str
    category: str


def fact_text(value: object) -> str:
    """A fact's text as it is kept: one paragraph, so that no client can be made to render a line of its own from it.

    Raises:
        Refused: with status 400.
    """
    if not isinstance(value, str):
        raise Refused(400, "content: give the fact as a string")
    text = " ".join(value.split())
    if not text:
        raise Refused(400, "content: the fact is empty")
    if len(text) > LONGEST_FACT:
        raise Refused(400, f"content: {len(text)} characters; at most {LONGEST_FACT} fit")
    if _UNFIT.search(text):
        raise Refused(400, "content: it holds a control character or half a surrogate pair")
    return text


def name(value: object, what: str, *, empty: bool = False) -> str:
    """An agent's id, a category or a key's name, as given.

    Raises:
        Refused: with status 400.
    """
    if not isinstance(value, str):
        raise Refused(400, f"{what}: give a string")
    if not value.strip() and not empty:
        raise Refused(400, f"{what}: give one")
    if len(value) > LONGEST_NAME:
        raise Refused(400, f"{what}: at most {LONGEST_NAME} characters fit")
    if _UNFIT.search(value):
        raise Refused(400, f"{what}: it holds a control character or half a surrogate pair")
    return value


def fact_id(text: str) -> str:
    """An id that a database can be asked about.

    Raises:
        Refused: 404: no fact has such an id.
    """
    if not text.isascii() or "\0" in text or len(text) > LONGEST_NAME:
        raise Refused(404, "there is no such fact")
    return text
