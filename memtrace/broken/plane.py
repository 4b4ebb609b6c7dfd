"""Memories that read curated facts, each wrong in one place."""

from __future__ import annotations

import json
from os import environ
from typing import Any

import httpx

from memtrace.broken import broken, lawful
from memtrace.broken.tiny_plane import Down, Known, TinyPlane
from memtrace.model import Caller


@broken("plane.facts-reach-everyone")
class ServedTwice(TinyPlane):
    """Shows a fact as often as the plane serves it."""

    def curated(self, caller: Caller, text: str) -> list[str]:
        """Without looking for what is there twice."""
        super().curated(caller, text)
        return self.known[self.shelf(caller)].facts

    def parsed(self, body: bytes) -> list[str]:
        """As it comes."""
        return [fact["content"].strip() for fact in json.loads(body)["facts"]]


@broken("plane.facts-reach-everyone")
class OnlyForTheKnown(TinyPlane):
    """Leaves curated facts out for a caller it cannot tell."""

    def curated(self, caller: Caller, text: str) -> list[str]:
        """Read with the user's own memory, and so only where there is a user."""
        facts = super().curated(caller, text)
        return facts if caller.unresolved is None else []


@broken("plane.read-only")
class SendsWhatItLearned(TinyPlane):
    """Offers the plane each fact that an application persists."""

    def add(self, caller: Caller, text: str, scope: str = "user") -> str:
        """Here and there."""
        url, key = f"{self.env.plane_url}/public/v1/memory/facts", {"X-API-Key": self.env.plane_key}
        body = {"agent_id": caller.agent, "content": "a fact was persisted"}
        if self.env.plane_url:
            httpx.post(url, headers=key, json=body, timeout=self.timeout, trust_env=False)
        return super().add(caller, text, scope)


@broken("plane.question-stays-home")
class AlwaysAsks(TinyPlane):
    """Sends the question in a header, whatever the environment says of payloads."""

    def headers(self, text: str) -> dict[str, str]:
        """With the question."""
        return {**super().headers(text), "X-Memtrace-Query": self.redacted(text)}


@broken("plane.question-stays-home")
class AsksUnredacted(TinyPlane):
    """Sends the question as it was said, where redaction is on for the model."""

    def headers(self, text: str) -> dict[str, str]:
        """With the question, if payloads may leave."""
        payloads = environ.get("MEMTRACE_TRACE_PAYLOADS") == "1"
        return {**super().headers(text), **({"X-Memtrace-Query": text} if payloads else {})}


@broken("plane.outage-serves-last")
class RefusedMeansNone(TinyPlane):
    """Takes a 404 for an answer: no facts."""

    def refused(self, answer: httpx.Response) -> Down | list[str]:
        """Any other status is an outage."""
        return [] if answer.status_code == httpx.codes.NOT_FOUND else super().refused(answer)


@broken("plane.outage-serves-last")
class KeepsThemPerUser(TinyPlane):
    """Keeps the last facts for each user, so that a new user has none in an outage."""

    def shelf(self, caller: Caller) -> str:
        """The user's."""
        return f"{super().shelf(caller)}/{caller.user}"

    def told(self, known: Known) -> dict[str, Any]:
        """What it would be for all: somebody was served."""
        read = max((other.read_at or 0.0 for other in self.known.values()), default=0.0)
        if known.read_at is None and read:
            return {"memtrace.freshness": "stale", "memtrace.age": self.env.clock() - read}
        return super().told(known)

    def refresh(self, caller: Caller, known: Known, text: str) -> None:
        """One outage is everybody's all the same."""
        down = next((other for other in self.known.values() if other.down and other is not known), None)
        if down is not None and self.env.clock() < down.retry_at:
            known.down, known.retry_at = True, down.retry_at
            return
        super().refresh(caller, known, text)
        if not known.down:
            for other in self.known.values():
                other.down = False


@broken("plane.one-warning")
class AsksEachTime(TinyPlane):
    """Asks a plane that failed again in the next turn."""

    def left_alone(self, error: Down) -> float:
        """None."""
        return 0.0


@broken("plane.one-warning")
class IgnoresRetryAfter(TinyPlane):
    """Asks again after its own interval, whatever the plane said."""

    def left_alone(self, error: Down) -> float:
        """Always the same."""
        return 30.0


@broken("plane.one-warning")
class WarnsAtEachRetry(TinyPlane):
    """Warns as often as it tries."""

    def fails(self, known: Known, error: Down) -> None:
        """As if it were news."""
        known.down = False
        super().fails(known, error)


@broken("plane.turn-is-bounded")
class TimesEachRead(TinyPlane):
    """Takes the client's timeout, which is that of one read from the socket, for the whole."""

    def fetched(self, caller: Caller, text: str) -> list[str]:
        """In the turn's own thread."""
        answer = self.answered(caller, text)
        if isinstance(answer, Down):
            raise answer
        return answer

    def parsed(self, body: bytes) -> list[str]:
        """A dripped answer is late all the same."""
        if b"dripped" in body:
            raise ValueError("late")
        return super().parsed(body)


@broken("plane.recovers")
class NeverAsksAgain(TinyPlane):
    """Leaves a plane that refused its key alone for good."""

    def left_alone(self, error: Down) -> float:
        """A wrong key does not become right."""
        return 1e9 if error.args[0] == httpx.codes.UNAUTHORIZED else super().left_alone(error)


@broken("plane.retired-is-gone")
class AddsToWhatItHas(TinyPlane):
    """Adds what is served to what was served, and so never lets go."""

    def fetched(self, caller: Caller, text: str) -> list[str]:
        """All there ever was."""
        before = self.known[self.shelf(caller)].facts
        return [*before, *(fact for fact in super().fetched(caller, text) if fact not in before)]


@broken("plane.agents-apart")
class OneShelf(TinyPlane):
    """Keeps one list of last facts for all agents of the process."""

    def refresh(self, caller: Caller, known: Known, text: str) -> None:
        """In an outage the last ones are whoever's."""
        super().refresh(caller, known, text)
        latest = max(self.known.values(), key=lambda other: other.read_at or 0.0)
        if known.down:
            known.facts = [*known.facts, *(fact for fact in latest.facts if fact not in known.facts)]


@broken("plane.staleness-is-visible")
class AlwaysFresh(TinyPlane):
    """Calls the last facts fresh, however old they are."""

    def told(self, known: Known) -> dict[str, Any]:
        """There are facts, so they are fresh."""
        told = super().told(known)
        return {**told, "memtrace.freshness": "fresh"} if told["memtrace.freshness"] == "stale" else told


@broken("plane.staleness-is-visible")
class EmptyIsFresh(TinyPlane):
    """Takes a plane that was never read for one that has no facts."""

    def told(self, known: Known) -> dict[str, Any]:
        """None, as of now."""
        told = super().told(known)
        return {"memtrace.freshness": "fresh", "memtrace.age": 0.0} if known.read_at is None else told


@lawful(
    "each fact is there once, and nobody said that it needs a line of its own", rules=("plane.facts-reach-everyone",)
)
class OneLine(TinyPlane):
    """Puts all curated facts into one line of the prompt."""

    def block(self, heading: str, texts: list[str]) -> list[dict[str, Any]]:
        """One line."""
        if not heading.startswith("Curated") or not texts:
            return super().block(heading, texts)
        return [{"role": "system", "content": f"{heading} {'; '.join(map(self.line, texts))}"}]


@lawful(
    "payloads may leave, the question is redacted, and the plane takes it in a header",
    rules=("plane.question-stays-home",),
)
class AsksAsItMay(TinyPlane):
    """Sends the redacted question in a header where payloads are on."""

    def headers(self, text: str) -> dict[str, str]:
        """With the question, if payloads may leave."""
        payloads = environ.get("MEMTRACE_TRACE_PAYLOADS") == "1"
        return {**super().headers(text), **({"X-Memtrace-Query": self.redacted(text)} if payloads else {})}
