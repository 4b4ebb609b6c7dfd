"""How a read of the plane can end, and how long a plane that failed is left alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import StrEnum
from typing import Final

from memtrace.errors import PlaneError

LONGEST_PAUSE: Final = 600.0
"""Seconds: a plane that asks for more is tried again after so many all the same."""
_SHORTEST_PAUSE: Final = 1.0


class Status(StrEnum):
    """How the latest read of an agent's curated facts ended."""

    OK = "ok"
    BUSY = "busy"
    """Another turn is reading; nobody waits for it."""
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    UNAUTHORIZED = "unauthorized"
    """The plane refuses the API key (401), or what it asks for (403): somebody has to do something about it."""
    LIMITED = "limited"
    """The plane wants to be asked less (429)."""
    FAILED = "failed"
    """Any other status than 200."""
    MALFORMED = "malformed"
    """An answer that is no list of facts."""


class Failure(PlaneError):
    """A read failed. The message is one of ours, and holds nothing of the answer.

    ``pause`` are the seconds the plane asked to be left alone. ``of_agent``: the plane is up, and refuses this agent.
    """

    def __init__(self, status: Status, reason: str, *, pause: float | None = None, of_agent: bool = False) -> None:
        super().__init__(reason)
        self.status = status
        self.pause = pause
        self.of_agent = of_agent


@dataclass(slots=True)
class Outage:
    """A plane that cannot be read, or one agent's facts there: since when, why, and when it is tried again."""

    failure: Failure | None = None
    since: float = 0.0
    retry_at: float = 0.0

    def waits(self, now: float) -> bool:
        """Whether it is left alone at this moment. A clock that was set back does not make that longer."""
        return self.failure is not None and 0 < self.retry_at - now <= LONGEST_PAUSE

    def claim(self, now: float, pause: float) -> None:
        """Whoever claims it tries again, and nobody else does meanwhile."""
        if self.failure is not None:
            self.retry_at = now + pause

    def begins(self, failure: Failure, now: float, pause: float) -> bool:
        """It failed; whether that is news."""
        news = self.failure is None
        self.failure, self.retry_at = failure, now + pause
        if news:
            self.since = now
        return news

    def ends(self) -> bool:
        """It works; whether that is news."""
        news, self.failure = self.failure is not None, None
        return news


def pause_asked(headers: Mapping[str, str], clock: Callable[[], float]) -> float | None:
    """The seconds of a Retry-After, which is a number or a date, within bounds; ``None`` where there is none."""
    asked = headers.get("retry-after", "").strip()
    seconds = float(asked) if asked.isascii() and asked.isdigit() else _until(asked, headers.get("date", ""), clock)
    return None if seconds is None else min(max(seconds, _SHORTEST_PAUSE), LONGEST_PAUSE)


def _until(date: str, now: str, clock: Callable[[], float]) -> float | None:
    then = _seconds(date)
    if then is None:
        return None
    told = _seconds(now)
    return then - (clock() if told is None else told)


def _seconds(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None
