"""Runs that wait for an approval, in a SQLite file: any process that opens it can go on with them.

A run belongs to whom it was paused for. A token opens it for them alone; for anyone else there is no such run.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from memtrace.errors import MemtraceError
from memtrace.reference.database import Database, to_bytes
from memtrace.reference.progress import Progress, dumped, loaded

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS paused_runs (
    token BLOB PRIMARY KEY,
    plan BLOB NOT NULL,
    project BLOB NOT NULL,
    user BLOB,
    progress TEXT NOT NULL,
    resumed INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX IF NOT EXISTS paused_runs_of_user ON paused_runs (user, project)
"""


class ResumeRefused(MemtraceError):
    """There is no such paused run of this caller's, or it was resumed already. No memory was read for it."""


@dataclass(frozen=True, slots=True)
class Owner:
    """Whom a run was paused for. ``user`` is ``None`` where nobody could tell: the token alone then opens it."""

    user: str | None
    project: str = ""


class Checkpoints:
    """The paused runs in one file. Safe over threads, forks and processes.

    A resumed run stays, to be forked, until its owner is erased or it is discarded.
    """

    def __init__(self, path: str | Path) -> None:
        self._database = Database(path, _SCHEMA)

    def save(self, plan: str, owner: Owner, progress: Progress) -> str:
        """Keep a run; the token that resumes it."""
        token = secrets.token_urlsafe(24)
        row = (to_bytes(token), to_bytes(plan), *_key(owner), dumped(progress))
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT INTO paused_runs (token, plan, project, user, progress) VALUES (?, ?, ?, ?, ?)", row
            )
        return token

    def resume(self, token: str, plan: str, owner: Owner) -> Progress:
        """The run to go on with. Whoever asks first has it: no one is given it twice.

        Raises:
            ResumeRefused: it is not there for this owner, or was resumed.
        """
        return self._taken(token, plan, owner, again=False)

    def fork(self, token: str, plan: str, owner: Owner) -> Progress:
        """The run as it was paused, for one more run from there, whether it was resumed or not.

        Raises:
            ResumeRefused: it is not there for this owner.
        """
        return self._taken(token, plan, owner, again=True)

    def discard(self, token: str) -> bool:
        """Drop one run, whether it was resumed or not; whether there was one."""
        with self._database.transaction() as connection:
            gone = connection.execute("DELETE FROM paused_runs WHERE token = ?", (to_bytes(token),)).rowcount > 0
        self._database.leave_nothing()
        return gone

    def erase(self, user: str, project: str = "") -> int:
        """Drop all of a user's runs; how many there were."""
        with self._database.transaction() as connection:
            where = "DELETE FROM paused_runs WHERE project = ? AND user = ?"
            count = connection.execute(where, _key(Owner(user, project))).rowcount
        self._database.leave_nothing()
        return count

    def _taken(self, token: str, plan: str, owner: Owner, *, again: bool) -> Progress:
        with self._database.transaction() as connection:
            found = connection.execute(
                "SELECT resumed, progress FROM paused_runs WHERE token = ? AND plan = ? AND project = ? AND user IS ?",
                (to_bytes(token), to_bytes(plan), *_key(owner)),
            ).fetchone()
            if found is None:
                raise ResumeRefused("this caller has no paused run with this token")
            resumed, progress = found[0], loaded(found[1])
            if resumed and not again:
                raise ResumeRefused("the run was resumed already; fork() runs it again")
            if not again:
                connection.execute("UPDATE paused_runs SET resumed = 1 WHERE token = ?", (to_bytes(token),))
            return progress


def _key(owner: Owner) -> tuple[bytes, bytes | None]:
    return to_bytes(owner.project), None if owner.user is None else to_bytes(owner.user)
