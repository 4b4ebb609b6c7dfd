"""The plane of curated facts that a script may use: a real one, which nobody else has, and the curator's hand on it."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx

from memtrace.harness.events import Curated, PlaneAsked, PlaneFaulty, PlaneHolds
from memtrace.harness.plane_faults import FAULTS, REFUSED
from memtrace.harness.plane_front import Answer, Asked, Front
from memtrace.harness.recorder import Recorder


def make_plane(recorder: Recorder, clock: Callable[[], float]) -> ScriptedPlane:
    """A plane of one script's own; the script is not exercised where what serves it is not installed."""
    try:
        return ScriptedPlane(recorder, clock)
    except ModuleNotFoundError as missing:
        from memtrace.harness.stage import NotExercised

        raise NotExercised(f"no plane can be served here: {missing} (pip install 'memtrace-otel[plane]')") from missing


class ScriptedPlane:
    """A plane of one script's own."""

    def __init__(self, recorder: Recorder, clock: Callable[[], float]) -> None:
        from memtrace.service.app import make_app
        from memtrace.service.keys import Role
        from memtrace.service.storage import open_plane

        self._recorder = recorder
        self._clock = clock
        self._fault = ""
        self._directory = tempfile.TemporaryDirectory(prefix="memtrace-plane-", ignore_cleanup_errors=True)
        self._store = open_plane(str(Path(self._directory.name) / "plane.db"))
        self._curator, _ = self._store.create_key(Role.CURATOR, "the script")
        _, self.key = self._store.create_key(Role.READER, "the system under test")
        self._app = make_app(self._store)
        self._front = Front(self._ask, self._asked)
        self.url = self._front.url

    def curate(self, agent: str, text: str) -> str:
        """A fact is written and approved; its id."""
        record = self._store.add(self._curator, agent, text).id
        self._store.act(self._curator, record, "approve")
        self._recorder.add(Curated, op="approve", agent=agent, text=text, record=record)
        return record

    def propose(self, agent: str, text: str, *, reject: bool = False) -> str:
        """A fact is written, and not approved; its id."""
        record = self._store.add(self._curator, agent, text).id
        if reject:
            self._store.act(self._curator, record, "reject")
        self._recorder.add(Curated, op="reject" if reject else "propose", agent=agent, text=text, record=record)
        return record

    def retire(self, record: str) -> None:
        """An approved fact is taken back."""
        fact = self._store.act(self._curator, record, "retire")
        self._recorder.add(Curated, op="retire", agent=fact.agent_id, text=fact.latest.content, record=record)

    def fault(self, name: str = "", **details: Any) -> None:
        """From now on the plane fails in this way (see `FAULTS`), or with ``""`` in none."""
        self._fault = name
        self._recorder.add(PlaneFaulty, fault=name, details=details, clock=self._clock())
        self._front.fault(FAULTS[name](**details) if name in FAULTS else None, refuse=name == REFUSED)

    def look(self) -> None:
        """Record what it serves."""
        facts = {
            agent.agent_id: tuple(served.content for served in self._store.served(agent.agent_id, limit=1000))
            for agent in self._store.agents()
        }
        self._recorder.add(PlaneHolds, facts=facts)

    def close(self) -> None:
        """Let it go."""
        self._front.close()
        self._store.close()
        self._directory.cleanup()

    def _asked(self, asked: Asked, status: int) -> None:
        target = urlsplit(asked.target)
        self._recorder.add(
            PlaneAsked, method=asked.method, path=target.path, query=unquote(target.query.replace("+", " ")),
            headers={name: unquote(value) for name, value in asked.shown.items()},
            body=asked.body.decode("utf-8", "replace"),
            fault=self._fault, status=status, clock=self._clock(),
        )  # fmt: skip

    def _ask(self, asked: Asked) -> Answer:
        return asyncio.run(self._in_process(asked))

    async def _in_process(self, asked: Asked) -> Answer:
        transport = httpx.ASGITransport(self._app)
        async with httpx.AsyncClient(transport=transport, base_url=self.url, trust_env=False) as client:
            kept = {name: value for name, value in asked.headers.items() if name not in ("host", "content-length")}
            answer = await client.request(asked.method, asked.target, headers=kept, content=asked.body)
        return Answer(answer.status_code, dict(answer.headers), answer.content)
