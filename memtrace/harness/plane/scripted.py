"""The plane of curated facts that a script may use: a real one, which nobody else has, and the curator's hand on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urlsplit

from memtrace.harness.plane.front import Asked
from memtrace.harness.plane.line import Line
from memtrace.harness.plane.server import PlaneServer, plane_server
from memtrace.harness.record.events import Curated, PlaneAsked, PlaneFaulty, PlaneHolds
from memtrace.harness.record.recorder import Recorder


def make_plane(recorder: Recorder, clock: Callable[[], float]) -> ScriptedPlane:
    """A plane for one script.

    Raises:
        NotHere: none can be served here.
    """
    return ScriptedPlane(plane_server(), recorder, clock)


class ScriptedPlane:
    """The plane as one script has it: by a line of its own, and with the facts of its own agents."""

    def __init__(self, server: PlaneServer, recorder: Recorder, clock: Callable[[], float]) -> None:
        self._server = server
        self._recorder = recorder
        self._clock = clock
        self._agents: set[str] = set()
        self._line = Line(server.answer, self._asked)
        self.url = self._line.url
        self.key = server.reader

    def curate(self, agent: str, text: str) -> str:
        """A fact is written and approved; its id."""
        return self._written(agent, text, "approve")

    def propose(self, agent: str, text: str, *, reject: bool = False) -> str:
        """A fact is written, and not approved; its id."""
        return self._written(agent, text, "reject" if reject else "propose")

    def retire(self, record: str) -> None:
        """An approved fact is taken back."""
        fact = self._server.curate(f"/v1/facts/{record}/retire")
        self._recorder.add(Curated, op="retire", agent=fact["agent_id"], text=fact["content"], record=record)

    def fault(self, name: str = "", **details: Any) -> None:
        """From now on the plane fails in this way (see `FAULTS`), or with ``""`` in none."""
        self._recorder.add(PlaneFaulty, fault=name, details=details, clock=self._clock())
        self._line.fault(name, **details)

    def look(self) -> None:
        """Record what it serves to the script's agents."""
        self._recorder.add(PlaneHolds, facts={agent: self._server.served(agent) for agent in sorted(self._agents)})

    def close(self) -> None:
        """Let go of the line; the plane stays for the next script."""
        self._line.close()

    def _written(self, agent: str, text: str, op: str) -> str:
        self._agents.add(agent)
        record = str(self._server.curate("/v1/facts", agent_id=agent, content=text)["id"])
        if op != "propose":
            self._server.curate(f"/v1/facts/{record}/{op}")
        self._recorder.add(Curated, op=op, agent=agent, text=text, record=record)
        return record

    def _asked(self, asked: Asked, status: int) -> None:
        target = urlsplit(asked.target)
        self._recorder.add(
            PlaneAsked, method=asked.method, path=target.path, query=unquote(target.query.replace("+", " ")),
            headers={name: unquote(value) for name, value in asked.shown.items()},
            body=asked.body.decode("utf-8", "replace"),
            fault=self._line.failing, status=status, clock=self._clock(),
        )  # fmt: skip
