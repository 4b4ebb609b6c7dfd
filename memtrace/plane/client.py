"""Reading curated facts: the plane is an enhancement, so whatever it does, a turn gets what was last read, in time.

One turn at a time reads; the others get the last facts at once. After a failure the plane is left alone for a while,
and then exactly one turn tries again. An outage is one warning in the log when it begins and one line when it ends.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, Literal
from urllib.parse import quote, urlencode, urlsplit

from memtrace.errors import UsageError
from memtrace.plane.answers import facts_of, unique
from memtrace.plane.fetching import Answer, Fetching
from memtrace.plane.states import LONGEST_PAUSE, Failure, Outage, Status

Freshness = Literal["fresh", "stale", "missing"]

PATH: Final = "/public/v1/memory/facts"
QUESTION_HEADER: Final = "X-Memtrace-Query"
"""Holds the question, percent-encoded, for a plane that says in `TAKES_QUESTION` that it takes it there."""
TAKES_QUESTION: Final = "x-memtrace-plane"
LONGEST_QUESTION: Final = 1000
URL, KEY = "MEMTRACE_PLANE_URL", "MEMTRACE_PLANE_KEY"
_PAYLOADS: Final = "MEMTRACE_TRACE_PAYLOADS"

_log = logging.getLogger("memtrace.plane")
_all: weakref.WeakSet[PlaneFacts] = weakref.WeakSet()


def _unchanged(text: str) -> str:
    return text


@dataclass(frozen=True, slots=True)
class Curated:
    """An agent's curated facts as they were last read.

    Attributes:
        facts: each once, in the plane's order.
        freshness: ``fresh``; ``stale``, where the plane could not be read since; ``missing``, where it never was.
        status: how the latest read ended.
        age: seconds since the facts were read or confirmed; ``None`` where they never were.
        deduped: how many were served that were there already.
    """

    facts: tuple[str, ...]
    freshness: Freshness
    status: Status
    age: float | None
    deduped: int = 0

    @property
    def failed(self) -> bool:
        """Whether the latest read failed."""
        return self.status not in (Status.OK, Status.BUSY)


@dataclass(slots=True)
class _Last:
    """What is known of one agent."""

    facts: tuple[str, ...] = ()
    deduped: int = 0
    read_at: float | None = None
    etag: str = ""
    question: str = ""
    reading: bool = False
    outage: Outage = field(default_factory=Outage)


class PlaneFacts:
    """A plane, read only. Make one a process: all who are given it share what it last read. Safe over threads, forks.

    Args:
        url: where the plane is, ``https://host[:port][/path]``.
        api_key: sent as ``X-API-Key``; shown and logged nowhere.
        timeout: seconds for a whole read, from looking up the name to the last byte.
        retry_after: seconds that a plane which failed is left alone, unless it asks for others.
        max_facts: facts taken of each agent at most.
        category: only facts of this category.
        score_threshold: only facts this near to the question, where it is sent.
        max_body: bytes of an answer at most.
        payloads: whether the question may be sent; by default where ``MEMTRACE_TRACE_PAYLOADS`` is ``1``.
        takes_question: whether the plane takes the question in a header; by default as its answers say.
        query_in_url: send the question as ``query=`` in the URL, for a plane that wants it there. Access logs hold it.
        clock: seconds, for ages and retries.

    Raises:
        UsageError: an argument is off.
    """

    def __init__(
        self,
        url: str,
        api_key: str,
        *,
        timeout: float = 2.0,
        retry_after: float = 30.0,
        max_facts: int = 50,
        category: str | None = None,
        score_threshold: float = 0.0,
        max_body: int = 1_000_000,
        payloads: bool | None = None,
        takes_question: bool | None = None,
        query_in_url: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._url = _checked_url(url)
        self._key = _checked_key(api_key)
        if not 0 < timeout <= LONGEST_PAUSE or not 0 < retry_after <= LONGEST_PAUSE:
            raise UsageError(
                f"timeout={timeout:g}, retry_after={retry_after:g}: give seconds, more than 0, at most 600"
            )
        if max_facts < 1:
            raise UsageError(f"max_facts={max_facts}: give at least 1")
        self.timeout = timeout
        self._pause = retry_after
        self._limit = max_facts
        self._category = category
        self._threshold = score_threshold
        self._payloads = payloads
        self._takes_question = takes_question
        self._learns = takes_question is None
        self._query_in_url = query_in_url
        self._clock = clock
        self._fetching = Fetching(timeout=timeout, max_body=max_body, tls=self._url.startswith("https:"))
        self._agents: dict[str, _Last] = {}
        self._outage = Outage()
        self._lock = threading.Lock()
        _all.add(self)

    def __repr__(self) -> str:
        return f"PlaneFacts({self._url!r})"

    def read(self, agent_id: str, question: str = "", *, outgoing: Callable[[str], str] = _unchanged) -> Curated:
        """An agent's facts: from the plane, or as they were last read. Never raises for what the plane does.

        ``question`` is what the user asks; where it may be sent at all, it goes through ``outgoing`` first.
        """
        with self._lock:
            last = self._agents.setdefault(agent_id, _Last())
            now = self._clock()
            if last.reading:
                return self._shown(last, now, busy=True)
            if self._outage.waits(now) or last.outage.waits(now):
                return self._shown(last, now)
            for outage in (self._outage, last.outage):
                outage.claim(now, self._pause)
            last.reading = True
        try:
            self._refresh(agent_id, last, self._question(question, outgoing))
        finally:
            with self._lock:
                last.reading = False
        with self._lock:
            return self._shown(last, self._clock())

    def close(self) -> None:
        """Let go of the connections; what was read is kept, and the next read makes new ones."""
        self._fetching.close()

    def _refresh(self, agent: str, last: _Last, question: str) -> None:
        conditional = bool(last.etag) and last.question == question
        try:
            answer = self._fetching.get(self._target(agent, question), self._headers(last, question, conditional))
            facts = facts_of(answer, limit=self._limit, asked_if_changed=conditional, clock=self._clock)
        except Failure as failure:
            self._failed(agent, last, failure)
            return
        self._succeeded(agent, last, answer, facts, question)

    def _failed(self, agent: str, last: _Last, failure: Failure) -> None:
        pause = self._pause if failure.pause is None else failure.pause
        with self._lock:
            over = failure.of_agent and self._outage.ends()
            news = (last.outage if failure.of_agent else self._outage).begins(failure, self._clock(), pause)
            served = "there are no facts to serve" if last.read_at is None else "the last facts are served"
        if over:
            _log.info("the plane at %s can be read again", self._url)
        if news:
            what = "refuses the API key or what it may read" if failure.status is Status.UNAUTHORIZED else "failed"
            _log.warning(
                "the plane at %s %s (%s), for agent %.80r: %s, next try in %g s",
                self._url, what, failure, agent, served, pause,
            )  # fmt: skip

    def _succeeded(self, agent: str, last: _Last, answer: Answer, facts: list[str] | None, question: str) -> None:
        with self._lock:
            if facts is not None:
                last.facts, last.deduped = unique(facts)
                last.etag, last.question = answer.headers.get("etag", ""), question
            last.read_at = self._clock()
            if self._learns:
                self._takes_question = answer.headers.get(TAKES_QUESTION) == "1"
            over = [self._outage.ends(), last.outage.ends()]
        if any(over):
            _log.info("the plane at %s can be read again, for agent %.80r", self._url, agent)

    def _shown(self, last: _Last, now: float, *, busy: bool = False) -> Curated:
        failure = self._outage.failure or last.outage.failure
        idle = Status.BUSY if busy else Status.OK
        status = idle if failure is None else failure.status
        if last.read_at is None:
            return Curated((), "missing", status, None)
        age = max(now - last.read_at, 0.0)
        fresh = failure is None and (not busy or age <= self.timeout)
        return Curated(last.facts, "fresh" if fresh else "stale", status, age, last.deduped)

    # What is sent

    def _target(self, agent: str, question: str) -> str:
        asked = {"agent_id": agent, "limit": self._limit, "score_threshold": self._threshold}
        if self._category:
            asked["category"] = self._category
        if question and self._query_in_url:
            asked["query"] = question
        return f"{self._url}{PATH}?{urlencode(asked, errors='surrogatepass')}"

    def _headers(self, last: _Last, question: str, conditional: bool) -> dict[str, str]:
        headers = {"X-API-Key": self._key, "Accept": "application/json", "User-Agent": "memtrace"}
        if conditional:
            headers["If-None-Match"] = last.etag
        if question and not self._query_in_url:
            headers[QUESTION_HEADER] = quote(question, safe="", errors="replace")
        return headers

    def _question(self, question: str, outgoing: Callable[[str], str]) -> str:
        """What of the question leaves; nothing where payloads are off or the plane does not take it."""
        wanted = os.environ.get(_PAYLOADS) == "1" if self._payloads is None else self._payloads
        if not wanted or not question or not (self._query_in_url or self._takes_question):
            return ""
        try:
            return str(outgoing(question))[:LONGEST_QUESTION]
        except Exception as error:  # noqa: BLE001  the application's own code; without it nothing may leave
            _log.warning("the question is not sent to the plane: its redaction raised %s", type(error).__name__)
            return ""

    def _forked(self) -> None:
        self._lock = threading.Lock()
        self._fetching.forked()
        for last in self._agents.values():
            last.reading = False


@lru_cache(maxsize=1)
def configured() -> PlaneFacts:
    """The plane of this process, as ``MEMTRACE_PLANE_URL`` and ``MEMTRACE_PLANE_KEY`` name it.

    Raises:
        UsageError: they do not.
    """
    url, key = os.environ.get(URL, ""), os.environ.get(KEY, "")
    if not url or not key:
        raise UsageError(f"no plane is known: set {URL} and {KEY}, or give plane=PlaneFacts(url, api_key)")
    return PlaneFacts(url, key)


def _checked_url(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise UsageError("the plane's URL is off: give https://host[:port][/path], and no query")
    if parts.username is not None:
        raise UsageError("the plane's URL holds a user name: give the key as api_key instead")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _checked_key(key: str) -> str:
    if not key or not key.isascii() or not key.isprintable() or key != key.strip():
        raise UsageError("the plane's API key is empty, or holds what no header can hold")
    return key


def _after_fork() -> None:
    for plane in list(_all):
        plane._forked()  # noqa: SLF001  one module


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
