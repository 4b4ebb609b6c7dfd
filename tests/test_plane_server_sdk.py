"""The published SDK reads from the plane as it is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from plane_serving import PET_SHOP, running

from memtrace.service.serve import create_key

pytest.importorskip("fastaiagent")

PROGRAM = """
import sys

import fastaiagent as fa
from fastaiagent import Agent, AgentMemory, ComposableMemory, Memory
from fastaiagent.agent.memory_blocks import PlaneFactBlock
from fastaiagent.testing import FunctionModel

url, key = sys.argv[1:]
prompts = []


def answer(messages):
    prompts.append("\\n".join(str(message.content) for message in messages))
    return "ok"


fa.connect(api_key=key, target=url, export_traces=False, auto_register=False)
block = ComposableMemory(primary=AgentMemory(), blocks=[PlaneFactBlock(agent_id="pet-shop")])
for memory in (block, Memory(user_id="alice", plane_agent_id="pet-shop")):
    Agent(name="a", llm=FunctionModel(answer), memory=memory).run("When do you close?")
print("\\n---\\n".join(prompts))
"""


def test_the_published_sdk_reads_approved_facts_unchanged(tmp_path: Path) -> None:
    location = str(tmp_path / "plane.db")
    curator = {"X-API-Key": create_key(location, "curator", "ann", [])}
    reader = create_key(location, "reader", "till", [PET_SHOP])
    with running(location) as plane:
        for content, action in (("We close at six.", "approve"), ("We never close.", "reject")):
            fact = {"agent_id": PET_SHOP, "content": content}
            fact_id = httpx.post(f"{plane.url}/v1/facts", json=fact, headers=curator).json()["id"]
            httpx.post(f"{plane.url}/v1/facts/{fact_id}/{action}", headers=curator)
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM, plane.url, reader], capture_output=True, text=True, cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin", "FASTAIAGENT_LOCAL_DB": str(tmp_path / "local.db")}, check=False,
        )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    prompts = ran.stdout.split("\n---\n")
    assert [prompt.count("We close at six.") for prompt in prompts] == [1, 1]
    assert "Curated facts (agent:pet-shop):\n- We close at six." in prompts[0]
    assert "We never close." not in ran.stdout
