"""Planes for tests: in this process, for one request after another, and in a process of their own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.testclient import TestClient

from memtrace.service.app import make_app
from memtrace.service.keys import Role
from memtrace.service.storage import PlaneStore

PET_SHOP = "pet-shop"


@dataclass
class Plane:
    """A plane that is asked in this process, by a curator and a reader."""

    store: PlaneStore
    curator: str
    reader: str
    client: TestClient = field(repr=False)

    def curate(self, method: str, path: str, **options: Any) -> Any:
        """A request of the curator's."""
        return self.client.request(method, path, headers={"X-API-Key": self.curator}, **options)

    def add(self, content: str, agent_id: str = PET_SHOP, **more: str) -> str:
        """A proposed fact's id."""
        answer = self.curate("POST", "/v1/facts", json={"agent_id": agent_id, "content": content, **more})
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    def act(self, fact_id: str, action: str, **body: int) -> Any:
        return self.curate("POST", f"/v1/facts/{fact_id}/{action}", json=body)

    def approved(self, content: str, agent_id: str = PET_SHOP, **more: str) -> str:
        """An approved fact's id."""
        fact_id = self.add(content, agent_id, **more)
        assert self.act(fact_id, "approve").status_code == 200
        return fact_id

    def read(self, agent_id: str = PET_SHOP, *, headers: dict[str, str] | None = None, **parameters: Any) -> Any:
        """What the reader is answered."""
        return self.client.get(
            "/public/v1/memory/facts",
            params={"agent_id": agent_id, **parameters},
            headers={"X-API-Key": self.reader, **(headers or {})},
        )

    def texts(self, agent_id: str = PET_SHOP, **parameters: Any) -> list[str]:
        """The facts that the reader is served."""
        return [fact["content"] for fact in self.read(agent_id, **parameters).json()["facts"]]


@contextmanager
def plane_of(store: PlaneStore) -> Iterator[Plane]:
    """A plane on a store, with a key of either role."""
    _, curator = store.create_key(Role.CURATOR, "ann")
    _, reader = store.create_key(Role.READER, "till")
    client = TestClient(make_app(store), raise_server_exceptions=False, follow_redirects=False)
    with client:
        yield Plane(store, curator, reader, client)


@dataclass
class Running:
    """A plane in a process of its own."""

    url: str
    process: subprocess.Popen[str] = field(repr=False)

    def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        self.process.wait()


@contextmanager
def running(location: str, *options: str) -> Iterator[Running]:
    """``memtrace plane serve`` on a free port."""
    command = [sys.executable, "-m", "memtrace.cli", "plane", "serve", "--port=0", f"--store={location}", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            assert "http://" in first, f"the plane did not start: {first!r}"
            yield Running(first.split()[-1], process)
        finally:
            process.kill()
