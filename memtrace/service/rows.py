"""Rows of the plane's tables, as data, and what is asked of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from memtrace.service.database import Row
from memtrace.service.facts import Fact, State, Version
from memtrace.service.keys import Key, Role

VERSION: Final = (
    "{0}.number, {0}.state, {0}.content, {0}.category, {0}.written_by, {0}.written_at, {0}.decided_by, {0}.decided_at"
)
FACTS: Final = f"""
    SELECT f.id, f.agent_id, f.updated_by, f.updated_at, {VERSION.format("l")}, {VERSION.format("s")}
    FROM plane_facts f
    JOIN plane_versions l ON l.fact_id = f.id AND l.number = f.latest
    LEFT JOIN plane_versions s ON s.fact_id = f.id AND s.number = f.served
"""  # noqa: S608  constants alone
KEY: Final = "id, name, role, agents, created_at, revoked_at"
AUDIT: Final = "number, at, who, key_id, action, agent_id, fact_id, before, after"


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the audit trail: who did what when; ``before`` and ``after`` are JSON objects, or ``""``."""

    number: int
    at: float
    who: str
    key_id: str
    action: str
    agent_id: str
    fact_id: str
    before: str
    after: str

    @property
    def shown_before(self) -> str:
        """What there was, for a person to read."""
        return _in_words(self.before)

    @property
    def shown_after(self) -> str:
        """What there is since, for a person to read."""
        return _in_words(self.after)


@dataclass(frozen=True, slots=True)
class Agent:
    """How many facts of an agent are served, and how many wait for a decision."""

    agent_id: str
    served: int
    proposed: int


@dataclass(frozen=True, slots=True)
class Filter:
    """Which facts a curator wants to see: empty fields say nothing; ``agents`` is what the curator's key allows."""

    agent_id: str = ""
    state: State | None = None
    category: str = ""
    search: str = ""
    agents: frozenset[str] = frozenset()


def _in_words(audited: str) -> str:
    if not audited:
        return ""
    value = json.loads(audited)
    if "content" not in value:
        return f"{value['role']} {value['name']} ({value['id']})"
    category = f" [{value['category']}]" if value["category"] else ""
    return f"{value['state']}, version {value['version']}: {value['content']}{category}"


Conditions = list[tuple[str, tuple[object, ...]]]


def where(conditions: Conditions) -> tuple[str, tuple[object, ...]]:
    """The WHERE clause of those conditions that have a value to compare with."""
    kept = [(condition, values) for condition, values in conditions if any(value != "" for value in values)]
    clause = " AND ".join(condition for condition, _ in kept)
    return (f"WHERE {clause}" if clause else ""), tuple(value for _, values in kept for value in values)


def one_of(column: str, names: frozenset[str]) -> tuple[str, tuple[object, ...]]:
    """The condition that a column holds one of these names; with no names none is set."""
    return f"{column} IN ({', '.join('?' * len(names))})", tuple(sorted(names))


def conditions(wanted: Filter) -> Conditions:
    """What a curator's filter asks of the rows."""
    return [
        ("f.agent_id = ?", (wanted.agent_id,)),
        ("l.category = ?", (wanted.category,)),
        # A fact whose edit waits for approval is served all the same, and so is found as an approved one too.
        ("? IN (l.state, s.state)", (wanted.state or "",)),
        ("l.folded LIKE ? ESCAPE '!'", (_containing(wanted.search),)),
        one_of("f.agent_id", wanted.agents),
    ]


def _containing(text: str) -> str:
    literal = text.casefold().replace("!", "!!").replace("%", "!%").replace("_", "!_")
    return f"%{literal}%" if text else ""


def to_version(row: Row) -> Version:
    """A version from its columns."""
    number, state, *rest = row
    return Version(number, State(state), *rest)


def to_fact(row: Row) -> Fact:
    """A fact from its columns, its latest version's and its served one's."""
    fact_id, agent_id, updated_by, updated_at = row[:4]
    served = to_version(row[12:20]) if row[12] is not None else None
    return Fact(fact_id, agent_id, to_version(row[4:12]), served, updated_by, updated_at)


def to_key(row: Row) -> Key:
    """A key from its columns."""
    key_id, name, role, agents, created_at, revoked_at = row
    return Key(key_id, name, Role(role), frozenset(json.loads(agents)), created_at, revoked_at)
