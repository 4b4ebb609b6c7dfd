"""What the plane keeps: facts with their versions, keys, and the audit trail, in one SQL for both databases."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from memtrace.errors import UsageError
from memtrace.service.database import Database, Run, open_database
from memtrace.service.facts import OPEN, TRANSITIONS, Fact, Refused, Served, State, Version
from memtrace.service.keys import Key, Role, digest, new_secret
from memtrace.service.rows import (
    AUDIT,
    FACTS,
    KEY,
    VERSION,
    Agent,
    Entry,
    Filter,
    conditions,
    one_of,
    to_fact,
    to_key,
    to_version,
    where,
)
from memtrace.service.schema import prepare

_SERVED: Final = """
    SELECT f.id, v.content, v.category FROM plane_facts f
    JOIN plane_versions v ON v.fact_id = f.id AND v.number = f.served
    WHERE f.agent_id = ? {category}
    ORDER BY v.decided_at DESC, f.id LIMIT ?
"""
_ADMIT: Final = f"""
    SELECT {KEY}, (SELECT revision FROM plane_agents WHERE agent_id = ?)
    FROM plane_keys WHERE digest = ? AND revoked_at IS NULL
"""  # noqa: S608  constants alone


def open_plane(location: str, *, clock: Callable[[], float] = time.time) -> PlaneStore:
    """The plane kept in a file, or in the database of a ``postgresql://`` URL.

    Raises:
        UsageError: the location is neither.
        StoreError: it cannot be opened.
    """
    database = open_database(location)
    try:
        return PlaneStore(database, clock=clock)
    except BaseException:  # an interrupt too may not leave it open
        database.close()
        raise


class PlaneStore:
    """Everything that the plane keeps. Methods block; they may be called from any thread."""

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock
        self.secret = prepare(database)
        self.local = database.local

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    # what agents read

    def admit(self, secret: str, agent_id: str = "") -> tuple[Key, int] | None:
        """Whose key this is, and how often the agent's served facts have changed; one round trip. No such key: none."""
        rows = self._database.read(_ADMIT, (agent_id, digest(secret)))
        return (to_key(rows[0][:6]), rows[0][6] or 0) if rows else None

    def served(self, agent_id: str, *, category: str = "", limit: int = 50) -> list[Served]:
        """The agent's approved facts, the last approved first."""
        statement = _SERVED.format(category="AND v.category = ?" if category else "")
        values = (agent_id, category, limit) if category else (agent_id, limit)
        return [Served(*row) for row in self._database.read(statement, values)]

    # what curators do

    def add(self, key: Key, agent_id: str, content: str, *, category: str = "", draft: bool = False) -> Fact:
        """A new fact, proposed for approval or kept as a draft."""
        fact_id, now = f"f_{secrets.token_urlsafe(16)}", self._clock()
        version = Version(1, State.DRAFT if draft else State.PROPOSED, content, category, key.name, now)
        fact = Fact(fact_id, agent_id, version, None, key.name, now)
        with self._database.transaction() as run:
            run(
                "INSERT INTO plane_facts (id, agent_id, latest, served, updated_by, updated_at)"
                " VALUES (?, ?, 1, NULL, ?, ?)",
                (fact_id, agent_id, key.name, now),
            )
            _write_version(run, fact_id, version)
            _record(run, now, key, "add", fact, before=None, after=version)
        return fact

    def edit(self, key: Key, fact_id: str, *, content: str, category: str, seen: int | None = None) -> Fact:
        """A new version of a fact, which needs approval; until then the version approved before is served."""
        with self._database.transaction() as run:
            fact, now = self._begin(run, key, fact_id, "edit", seen), self._clock()
            old = fact.latest
            if (content, category) == (old.content, old.category):
                raise Refused(400, "nothing would change: give another content or category")
            state = State.DRAFT if old.state is State.DRAFT else State.PROPOSED
            new = Version(old.number + 1, state, content, category, key.name, now)
            if old.state in OPEN:
                _decide(run, fact_id, replace(old, state=State.REPLACED))
            _write_version(run, fact_id, new)
            return _conclude(run, key, "edit", replace(fact, latest=new, updated_by=key.name, updated_at=now), old)

    def act(self, key: Key, fact_id: str, action: str, *, seen: int | None = None) -> Fact:
        """Propose, approve, reject or retire the latest version of a fact; ``seen`` is the one the curator looked at.

        Raises:
            Refused: 404: there is no such fact; 409: the action is not lawful now, or the fact has changed since.
        """
        with self._database.transaction() as run:
            fact, now = self._begin(run, key, fact_id, action, seen), self._clock()
            old = fact.latest
            new = replace(old, state=TRANSITIONS[action].target, decided_by=key.name, decided_at=now)
            if action == "propose":
                new = replace(old, state=State.PROPOSED)
            _decide(run, fact_id, new)
            served = _now_served(fact, action, new)
            if served is not fact.served:
                _serve(run, fact, served, new)
            return _conclude(
                run, key, action, replace(fact, latest=new, served=served, updated_by=key.name, updated_at=now), old
            )

    def _begin(self, run: Run, key: Key, fact_id: str, action: str, seen: int | None) -> Fact:
        # The first statement locks the fact, on either database, until the transaction's end.
        run("UPDATE plane_facts SET latest = latest WHERE id = ?", (fact_id,))
        rows = run(f"{FACTS} WHERE f.id = ?", (fact_id,))
        fact = to_fact(rows[0]) if rows else None
        if fact is None or not key.reads(fact.agent_id):
            raise Refused(404, "there is no such fact")
        if seen is not None and seen != fact.latest.number:
            raise Refused(409, f"the fact has a newer version {fact.latest.number}: look at that one first")
        fact.require(action)
        return fact

    # what curators look at

    def fact(self, fact_id: str) -> Fact | None:
        """The fact of this id."""
        rows = self._database.read(f"{FACTS} WHERE f.id = ?", (fact_id,))
        return to_fact(rows[0]) if rows else None

    def versions(self, fact_id: str) -> list[Version]:
        """All versions of a fact, the latest first."""
        statement = f"SELECT {VERSION.format('v')} FROM plane_versions v WHERE v.fact_id = ? ORDER BY v.number DESC"  # noqa: S608  constants alone
        return [to_version(row) for row in self._database.read(statement, (fact_id,))]

    def facts(self, wanted: Filter, *, limit: int = 50, offset: int = 0) -> list[Fact]:
        """Facts as curators filter them, the last changed first."""
        kept, values = where(conditions(wanted))
        statement = f"{FACTS} {kept} ORDER BY f.updated_at DESC, f.id LIMIT ? OFFSET ?"
        return [to_fact(row) for row in self._database.read(statement, (*values, limit, offset))]

    def agents(self, allowed: frozenset[str] = frozenset()) -> list[Agent]:
        """Agents that have facts."""
        rows = self._database.read(
            "SELECT f.agent_id, COUNT(f.served), SUM(CASE l.state WHEN 'proposed' THEN 1 ELSE 0 END)"
            " FROM plane_facts f JOIN plane_versions l ON l.fact_id = f.id AND l.number = f.latest"
            " GROUP BY f.agent_id ORDER BY f.agent_id"
        )
        return [Agent(*row) for row in rows if not allowed or row[0] in allowed]

    def audit(
        self, *, fact_id: str = "", agents: frozenset[str] = frozenset(), before: int | None = None, limit: int = 100
    ) -> list[Entry]:
        """The audit trail, the newest first."""
        kept, values = where(
            [("number < ?", (before or 2**62,)), ("fact_id = ?", (fact_id,)), one_of("agent_id", agents)]
        )
        statement = f"SELECT {AUDIT} FROM plane_audit {kept} ORDER BY number DESC LIMIT ?"  # noqa: S608  constants alone
        return [Entry(*row) for row in self._database.read(statement, (*values, limit))]

    # keys

    def create_key(self, role: Role, name: str, *, agents: Sequence[str] = ()) -> tuple[Key, str]:
        """A new key, and its secret, which is not kept and cannot be shown again."""
        secret, now = new_secret(), self._clock()
        key = Key(f"k_{secrets.token_urlsafe(8)}", name, role, frozenset(agents), now)
        with self._database.transaction() as run:
            run(
                "INSERT INTO plane_keys (id, name, role, agents, digest, created_at) VALUES (?, ?, ?, ?, ?, ?)",
                (key.id, name, role.value, json.dumps(sorted(agents)), digest(secret), now),
            )
            _record_key(run, now, "create key", key)
        return key, secret

    def revoke_key(self, key_id: str) -> None:
        """End a key, at once.

        Raises:
            UsageError: no working key has this id.
        """
        with self._database.transaction() as run:
            rows = run(
                f"UPDATE plane_keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL RETURNING {KEY}",  # noqa: S608  constants alone
                (self._clock(), key_id),
            )
            if not rows:
                raise UsageError(f"{key_id!r} is no working key's id: memtrace plane key list shows them")
            _record_key(run, self._clock(), "revoke key", to_key(rows[0]))

    def all_keys(self) -> list[Key]:
        """All keys there ever were, the newest first."""
        rows = self._database.read(f"SELECT {KEY} FROM plane_keys ORDER BY created_at DESC, id")  # noqa: S608  constants alone
        return [to_key(row) for row in rows]

    def key(self, key_id: str) -> Key | None:
        """The working key of this id."""
        rows = self._database.read(f"SELECT {KEY} FROM plane_keys WHERE id = ? AND revoked_at IS NULL", (key_id,))  # noqa: S608  constants alone
        return to_key(rows[0]) if rows else None


def _now_served(fact: Fact, action: str, decided: Version) -> Version | None:
    if action == "approve":
        return decided
    return None if action == "retire" else fact.served


def _serve(run: Run, fact: Fact, served: Version | None, decided: Version) -> None:
    """Serve this version, or none; the one before ends, and what an agent gets has changed."""
    before = fact.served
    if before and before.number != decided.number:
        # Who approved a version that a newer one replaces stays written beside it.
        retired = replace(before, state=State.RETIRED, decided_by=decided.decided_by, decided_at=decided.decided_at)
        _decide(run, fact.id, replace(before, state=State.REPLACED) if served else retired)
    run("UPDATE plane_facts SET served = ? WHERE id = ?", (served.number if served else None, fact.id))
    run(
        "INSERT INTO plane_agents (agent_id, revision) VALUES (?, 1)"
        " ON CONFLICT (agent_id) DO UPDATE SET revision = plane_agents.revision + 1",
        (fact.agent_id,),
    )


def _conclude(run: Run, key: Key, action: str, fact: Fact, old: Version) -> Fact:
    run(
        "UPDATE plane_facts SET latest = ?, updated_by = ?, updated_at = ? WHERE id = ?",
        (fact.latest.number, fact.updated_by, fact.updated_at, fact.id),
    )
    _record(run, fact.updated_at, key, action, fact, before=old, after=fact.latest)
    return fact


def _write_version(run: Run, fact_id: str, version: Version) -> None:
    run(
        "INSERT INTO plane_versions"
        " (fact_id, number, state, content, folded, category, written_by, written_at, decided_by, decided_at)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            fact_id, version.number, version.state.value, version.content, version.content.casefold(),
            version.category, version.written_by, version.written_at, version.decided_by, version.decided_at,
        ),
    )  # fmt: skip


def _decide(run: Run, fact_id: str, version: Version) -> None:
    run(
        "UPDATE plane_versions SET state = ?, decided_by = ?, decided_at = ? WHERE fact_id = ? AND number = ?",
        (version.state.value, version.decided_by, version.decided_at, fact_id, version.number),
    )


def _record(run: Run, at: float, key: Key, action: str, fact: Fact, *, before: Version | None, after: Version) -> None:
    shown = [json.dumps(_audited(version)) if version else "" for version in (before, after)]
    _append(run, at, (key.name, key.id, action, fact.agent_id, fact.id, *shown))


def _record_key(run: Run, at: float, action: str, key: Key) -> None:
    after = {"id": key.id, "name": key.name, "role": key.role.value, "agents": sorted(key.agents)}
    _append(run, at, ("command line", "", action, "", "", "", json.dumps(after)))


def _append(run: Run, at: float, values: tuple[str, ...]) -> None:
    run(
        "INSERT INTO plane_audit (at, who, key_id, action, agent_id, fact_id, before, after)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (at, *values),
    )


def _audited(version: Version) -> dict[str, object]:
    return {
        "version": version.number, "state": version.state.value, "content": version.content,
        "category": version.category,
    }  # fmt: skip
