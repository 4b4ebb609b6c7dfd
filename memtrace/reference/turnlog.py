"""What users said in past turns, kept for offline learning: users' words only, in a file beside the facts.

Each turn is mined once for each scope. What is forgotten is not mined again: forgetting a user's facts, or the user,
removes what they said from the log, and their support from every statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final

from memtrace.model import Scope
from memtrace.reference.database import Database, to_bytes, to_text
from memtrace.reference.text import folded


@dataclass(frozen=True, slots=True)
class PastTurn:
    """A user's words in one turn. ``at`` is in seconds since the epoch; ``id`` is 0 until it is logged."""

    project: str
    agent: str
    user: str
    text: str
    at: float
    trace_id: str = ""
    span_id: str = ""
    id: int = 0


@dataclass(frozen=True, slots=True)
class Statement:
    """Something said to an agent, without its words: a digest of them."""

    project: str
    agent: str
    digest: bytes


def statement(project: str, agent: str, text: str) -> Statement:
    """The statement that a text makes; spelling of case and space apart, the same text is the same statement."""
    return Statement(project, agent, blake2b(to_bytes(folded(text)), digest_size=16).digest())


class TurnLog:
    """Past turns, which of them were mined for which scope, and who made which statement."""

    _SCHEMA: Final = """
        CREATE TABLE IF NOT EXISTS turns (
            id INTEGER PRIMARY KEY AUTOINCREMENT, project BLOB NOT NULL, agent BLOB NOT NULL, user BLOB NOT NULL,
            text BLOB NOT NULL, at REAL NOT NULL, trace_id TEXT NOT NULL, span_id TEXT NOT NULL);
        CREATE INDEX IF NOT EXISTS turns_of ON turns (project, user);
        CREATE TABLE IF NOT EXISTS mined (
            turn INTEGER NOT NULL REFERENCES turns (id) ON DELETE CASCADE, level TEXT NOT NULL, id BLOB NOT NULL,
            PRIMARY KEY (turn, level, id)) WITHOUT ROWID;
        CREATE TABLE IF NOT EXISTS said (
            project BLOB NOT NULL, agent BLOB NOT NULL, digest BLOB NOT NULL, user BLOB NOT NULL,
            PRIMARY KEY (project, agent, digest, user)) WITHOUT ROWID
    """

    def __init__(self, path: str | Path) -> None:
        self._database = Database(path, self._SCHEMA)

    def add(self, turn: PastTurn) -> int:
        """Keep a turn; its number."""
        insert = "INSERT INTO turns (project, agent, user, text, at, trace_id, span_id) VALUES (?, ?, ?, ?, ?, ?, ?)"
        who = (to_bytes(turn.project), to_bytes(turn.agent), to_bytes(turn.user))
        with self._database.transaction() as connection:
            row = (*who, to_bytes(turn.text), turn.at, turn.trace_id, turn.span_id)
            return int(connection.execute(insert, row).lastrowid or 0)

    def remove(self, number: int) -> None:
        """Let go of one turn."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM turns WHERE id = ?", (number,))
        self._database.leave_nothing()

    def unmined(
        self, scope: Scope, *, agent: str, user: str | None = None, since: float = 0.0, limit: int = 100
    ) -> list[PastTurn]:
        """The oldest turns of an agent, or of one of its users, that were not yet mined for a scope."""
        select = (
            "SELECT id, user, text, at, trace_id, span_id FROM turns WHERE project = ? AND agent = ? AND at >= ? "
            "AND (? IS NULL OR user = ?) "
            "AND id NOT IN (SELECT turn FROM mined WHERE level = ? AND id = ?) ORDER BY id LIMIT ?"
        )
        who = None if user is None else to_bytes(user)
        values = (to_bytes(scope.project), to_bytes(agent), since, who, who, scope.level, to_bytes(scope.id), limit)
        with self._database.transaction() as connection:
            rows = connection.execute(select, values).fetchall()
        return [
            PastTurn(scope.project, agent, to_text(user), to_text(text), at, trace, span, number)
            for number, user, text, at, trace, span in rows
        ]

    def holds(self, turn: PastTurn) -> bool:
        """Whether a turn is still there: its user has forgotten nothing since."""
        with self._database.transaction() as connection:
            return connection.execute("SELECT 1 FROM turns WHERE id = ?", (turn.id,)).fetchone() is not None

    def claim(self, turn: PastTurn, scope: Scope) -> bool:
        """Take a turn for mining; ``False`` where it is taken or gone."""
        insert = "INSERT OR IGNORE INTO mined (turn, level, id) SELECT id, ?, ? FROM turns WHERE id = ?"
        with self._database.transaction() as connection:
            return connection.execute(insert, (scope.level, to_bytes(scope.id), turn.id)).rowcount == 1

    def release(self, turn: PastTurn, scope: Scope) -> None:
        """Give a turn back, for mining it failed."""
        with self._database.transaction() as connection:
            connection.execute(
                "DELETE FROM mined WHERE turn = ? AND level = ? AND id = ?", (turn.id, scope.level, to_bytes(scope.id))
            )

    def support(self, turn: PastTurn, statements: Iterable[Statement]) -> None:
        """Note that the user of a turn made these statements, unless the turn is gone."""
        insert = "INSERT OR IGNORE INTO said SELECT project, agent, ?, user FROM turns WHERE id = ?"
        with self._database.transaction() as connection:
            connection.executemany(insert, [(made.digest, turn.id) for made in statements])

    def supporters(self, made: Statement) -> set[str]:
        """The users who made a statement."""
        with self._database.transaction() as connection:
            return _supporters(connection.execute(_SAID_BY, _values(made)).fetchall())

    def withdraw(self, project: str, user: str, text: str | None = None) -> list[tuple[Statement, int]]:
        """Remove what a user said, and their support of one statement, or with ``None`` of all.

        Returns each statement that lost their support, with how many users still make it.
        """
        who = (to_bytes(project), to_bytes(user))
        one = None if text is None else statement(project, "", text).digest
        of = "FROM said WHERE project = ? AND user = ? AND (? IS NULL OR digest = ?)"
        with self._database.transaction() as connection:
            lost = connection.execute(f"SELECT agent, digest {of}", (*who, one, one)).fetchall()
            connection.execute(f"DELETE {of}", (*who, one, one))
            connection.execute("DELETE FROM turns WHERE project = ? AND user = ?", who)
            statements = [Statement(project, to_text(agent), digest) for agent, digest in lost]
            left = [(made, len(connection.execute(_SAID_BY, _values(made)).fetchall())) for made in statements]
        self._database.leave_nothing()
        return left

    def close(self, scope: Scope, text: str | None = None) -> None:
        """An agent's facts were forgotten: no turn so far is mined for it again, and what was said does not count."""
        agent = (to_bytes(scope.project), to_bytes(scope.id))
        one = None if text is None else statement(scope.project, scope.id, text).digest
        with self._database.transaction() as connection:
            connection.execute(
                "DELETE FROM said WHERE project = ? AND agent = ? AND (? IS NULL OR digest = ?)", (*agent, one, one)
            )
            connection.execute(
                "INSERT OR IGNORE INTO mined SELECT id, ?, ? FROM turns WHERE project = ? AND agent = ?",
                (scope.level, to_bytes(scope.id), *agent),
            )


_SAID_BY: Final = "SELECT user FROM said WHERE project = ? AND agent = ? AND digest = ?"


def _values(made: Statement) -> tuple[bytes, bytes, bytes]:
    return to_bytes(made.project), to_bytes(made.agent), made.digest


def _supporters(rows: Sequence[tuple[bytes]]) -> set[str]:
    return {to_text(user) for (user,) in rows}
