"""A small memory that is shown curated facts, with a client of its own for the plane."""

from __future__ import annotations

import json
import logging
import threading
import time
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import urlencode, urlsplit

import httpx

from memtrace.broken.tiny import Key, TinyMemory
from memtrace.model import Caller

_log = logging.getLogger("tiny.plane")


class Down(Exception):
    """The plane has no answer, or none that is good."""


@dataclass(slots=True)
class Known:
    """What was last read of an agent, and until when the plane is left alone."""

    facts: list[str] = field(default_factory=list)
    read_at: float | None = None
    down: bool = False
    retry_at: float = 0.0
    busy: bool = False


@dataclass(eq=False)
class TinyPlane(TinyMemory):
    """The correct one, of a memory that reads a plane."""

    known: dict[str, Known] = field(default_factory=dict)

    capabilities: ClassVar[frozenset[str]] = TinyMemory.capabilities | {"plane", "advance"}

    @property
    def declares(self) -> dict[str, Any]:
        """What declared rules compare it with."""
        order = ["system", "agent-facts", "plane-facts", "user-facts", "window", "input"]
        return {**super().declares, "plane_timeout": self.timeout, "plane_retry": 30.0, "prompt_order": order}

    @property
    def timeout(self) -> float:
        """Seconds for a whole read."""
        return float(self.option("plane_timeout", 2.0))

    def prompt(self, caller: Caller, key: Key | None, text: str) -> list[dict[str, Any]]:
        """The curated facts come after the agent's own."""
        messages = super().prompt(caller, key, text)
        if not self.env.plane_url:
            return messages
        known = self.curated(caller, text)
        at = 1 + (len(messages) > 1 and str(messages[1]["content"]).startswith("Facts of the agent"))
        return [*messages[:at], *self.block("Curated facts:", known), *messages[at:]]

    def curated(self, caller: Caller, text: str) -> list[str]:
        """An agent's curated facts, fresh or as they were last read."""
        with self.tracer.start_as_current_span("memory.read.plane") as span:
            known = self.known.setdefault(self.shelf(caller), Known())
            self.refresh(caller, known, text)
            for name, value in self.told(known).items():
                span.set_attribute(name, value)
            return list(dict.fromkeys(fact.strip() for fact in known.facts))

    def shelf(self, caller: Caller) -> str:
        """What tells one agent's curated facts from another's."""
        return caller.agent or self.env.agent

    def told(self, known: Known) -> dict[str, Any]:
        """What the span says of them."""
        if known.read_at is None:
            return {"memtrace.freshness": "missing"}
        age = self.env.clock() - known.read_at
        return {"memtrace.freshness": "stale" if known.down else "fresh", "memtrace.age": age}

    def refresh(self, caller: Caller, known: Known, text: str) -> None:
        """Read the plane, unless it is to be left alone or somebody is reading it."""
        with self.lock:
            if known.busy or (known.down and self.env.clock() < known.retry_at):
                return
            known.busy = True
        try:
            known.facts = self.fetched(caller, text)
            known.read_at, known.down = self.env.clock(), False
        except Down as error:
            self.fails(known, error)
        finally:
            known.busy = False

    def fails(self, known: Known, error: Down) -> None:
        """Keep what there is, and say so once."""
        if not known.down:
            _log.warning("the plane failed: %s", error)
        known.down, known.retry_at = True, self.env.clock() + self.left_alone(error)

    def left_alone(self, error: Down) -> float:
        """Seconds to leave the plane alone."""
        return float(error.args[1]) if len(error.args) > 1 else 30.0

    def fetched(self, caller: Caller, text: str) -> list[str]:
        """The facts that the plane serves now; the whole of it in time."""
        found: list[list[str] | Down] = []
        work = threading.Thread(target=lambda: found.append(self.answered(caller, text)), daemon=True)
        work.start()
        work.join(self.timeout)
        answer = found[0] if found else Down("too slow")
        if isinstance(answer, Down):
            raise answer
        return answer

    def answered(self, caller: Caller, text: str) -> list[str] | Down:
        """One GET."""
        url = f"{self.env.plane_url}/public/v1/memory/facts?{urlencode(self.asked(caller, text))}"
        try:
            with httpx.stream("GET", url, headers=self.headers(text), timeout=self.timeout, trust_env=False) as answer:
                if answer.status_code != httpx.codes.OK:
                    return self.refused(answer)
                return self.parsed(_bounded(answer))
        except (httpx.HTTPError, ValueError, TypeError, KeyError, AttributeError) as error:
            return Down(type(error).__name__)

    def asked(self, caller: Caller, text: str) -> dict[str, str]:
        """The parameters."""
        return {"agent_id": caller.agent or self.env.agent}

    def headers(self, text: str) -> dict[str, str]:
        """The headers."""
        return {"X-API-Key": self.env.plane_key}

    def refused(self, answer: httpx.Response) -> Down | list[str]:
        """What any status but 200 means."""
        pause = answer.headers.get("Retry-After", "")
        return Down(answer.status_code, float(pause)) if pause.isdigit() else Down(answer.status_code)

    def parsed(self, body: bytes) -> list[str]:
        """The facts of an answer."""
        facts = [fact["content"].strip() for fact in json.loads(body)["facts"]]
        return list(dict.fromkeys(facts))


def _bounded(answer: httpx.Response) -> bytes:
    body, until = b"", time.monotonic() + 60
    for part in answer.iter_bytes():
        body += part
        if len(body) > 1_000_000 or time.monotonic() > until:
            raise ValueError(urlsplit(str(answer.url)).path)
    return body


__all__ = ["Down", "Known", "TinyPlane"]
