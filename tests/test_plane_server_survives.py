"""What the plane acknowledged outlives the plane."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from plane_serving import PET_SHOP, running

from memtrace.service.serve import create_key

SLOW = os.environ.get("MEMTRACE_SLOW") == "1"
ROUNDS = 200 if SLOW else 20


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_no_approved_fact_is_lost_when_the_plane_is_killed(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    location = str(tmp_path / "plane.db") if kind == "sqlite" else request.getfixturevalue("postgres_url")
    headers = {"X-API-Key": create_key(location, "curator", "ann", [])}
    parameters: dict[str, str | int] = {"agent_id": PET_SHOP, "limit": 200}
    acknowledged: list[str] = []
    for number in range(ROUNDS if SLOW or kind == "sqlite" else 3):
        with running(location) as plane, httpx.Client(base_url=plane.url, headers=headers) as client:
            served = client.get("/public/v1/memory/facts", params=parameters).json()["facts"]
            assert {fact["content"] for fact in served} == set(acknowledged)
            fact = {"agent_id": PET_SHOP, "content": f"Shelf {number} holds hay."}
            fact_id = client.post("/v1/facts", json=fact).json()["id"]
            assert client.post(f"/v1/facts/{fact_id}/approve").status_code == 200
            plane.kill()
            acknowledged.append(fact["content"])


def test_serve_ends_in_order_when_it_is_asked_to(tmp_path: Path) -> None:
    with running(str(tmp_path / "plane.db")) as plane:
        assert httpx.get(f"{plane.url}/health").json() == {"status": "ok"}
        plane.process.terminate()
        assert plane.process.wait(timeout=30) in (0, -15)


def command(*words: str) -> subprocess.CompletedProcess[str]:
    run = [sys.executable, "-m", "memtrace.cli", "plane", *words]
    return subprocess.run(run, capture_output=True, text=True, check=False)


def test_keys_are_made_listed_and_revoked_on_the_command_line(tmp_path: Path) -> None:
    store = f"--store={tmp_path / 'plane.db'}"
    assert command("key", "list", store).stdout == "there are no keys yet\n"
    secret = command("key", "create", "--role=curator", "--name=ann", "--agent=pet-shop", store).stdout.strip()
    assert len(secret) > 40
    listed = command("key", "list", store).stdout
    assert secret not in listed
    key_id, *rest = listed.split()
    assert rest[:2] == ["curator", "ann"]
    assert rest[-1] == PET_SHOP
    assert command("key", "revoke", key_id, store).stdout == f"revoked {key_id}\n"
    assert "revoked" in command("key", "list", store).stdout
    again = command("key", "revoke", key_id, store)
    assert (again.returncode, again.stdout, again.stderr.count("\n")) == (4, "", 1)


def test_what_cannot_be_served_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        store = f"--store={tmp_path / 'plane.db'}"
        for words in (
            ("serve", f"--port={taken.getsockname()[1]}", store), ("serve", "--port=99999", store),
            ("serve", "--port=0", "--store=mysql://root:secret@host/x"),
            ("serve", "--port=0", "--store=postgresql://root:secret@127.0.0.1:1/x"),
            ("serve", "--port=0", f"--store={tmp_path}"), ("key", "create", "--role=curator", "--name=\n", store),
        ):  # fmt: skip
            refused = command(*words)
            assert (refused.returncode, refused.stdout) == (4, ""), words
            assert refused.stderr.count("\n") == 1, refused.stderr
            assert "secret" not in refused.stderr
