"""While a store does not answer, the event loop of the turn that asked it runs everything else."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from contextlib import closing, contextmanager

import psycopg
import pytest
from remembering import MemoryModel
from scripted import ScriptedModel, recorded
from storing import ALICE, LONG, PATIENCE

from memtrace.harness.faults.proxy import FaultProxy
from memtrace.model import Level, Record, Scope
from memtrace.reference.agent import Agent
from memtrace.reference.memory import Memory
from memtrace.stores import open_store
from memtrace.stores.conformance.crowd import in_children

CROWD = 300
"""More turns than an event loop has threads of its own, on any machine, and than a pool that one would think large."""
ENDS = 20 * PATIENCE
"""Seconds in which a turn ends whose store never answers: it waits for the store twice, on a slow machine."""
CLOSING = "We close at noon."
FISH = "Alice likes fish."
AGENT = Scope(Level.AGENT, "shop")
LOCKED = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


class Announced:
    """A store that tells how often it was asked, as it is asked."""

    def __init__(self, store, *methods):
        self._store = store
        self._methods = methods
        self._asked = threading.Semaphore(0)

    def __getattr__(self, name):
        call = getattr(self._store, name)
        if name not in self._methods:
            return call

        def method(*args, **kwargs):
            self._asked.release()
            return call(*args, **kwargs)

        return method

    async def asked(self, times=1):
        for _ in range(times):
            assert await asyncio.to_thread(self._asked.acquire, timeout=LONG)


class Outage:
    """A store that works until `begin`, and again from `end` on."""

    def __init__(self, location, begin, end, *, waits="newest"):
        self.begin = begin
        self.end = end
        self.location = location
        self.waits = waits
        """The method that the outage keeps waiting."""

    def store(self, timeout):
        return Announced(open_store(self.location, timeout=timeout), self.waits)


@contextmanager
def cut(url, fault, *values):
    with FaultProxy(url) as proxy:
        yield Outage(proxy.url(url), lambda: getattr(proxy, fault)(*values), proxy.pass_through)


@contextmanager
def locked_table(url):
    with psycopg.connect(url) as other:
        lock = "LOCK TABLE learned_memory IN ACCESS EXCLUSIVE MODE"
        yield Outage(url, lambda: other.execute(lock), other.rollback)


@contextmanager
def locked_file(path):
    with subprocess.Popen([sys.executable, "-c", LOCKED, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        yield Outage(path, other.stdout.readline, other.stdin.close, waits="add")


OUTAGES = {
    "postgres, cut off": ("postgres", cut, "black_hole"),
    "postgres, slow": ("postgres", cut, "slow", 2 * LONG),
    "postgres, locked": ("postgres", locked_table),
    "redis, cut off": ("redis", cut, "black_hole"),
    "redis, slow": ("redis", cut, "slow", 2 * LONG),
    "sqlite, locked": ("sqlite", locked_file),
}
REFUSED = {f"{kind}, refused": (kind, cut, "refuse") for kind in ("postgres", "redis")}


@pytest.fixture
def outage(request, tmp_path):
    kind, make, *values = {**OUTAGES, **REFUSED}[request.param]
    location = str(tmp_path / "memory.db") if kind == "sqlite" else request.getfixturevalue(f"{kind}_url")
    with closing(open_store(location)) as store:
        store.add(Record(AGENT, CLOSING))
        store.add(Record(ALICE, FISH))
    with make(location, *values) as outage:
        yield outage


@pytest.fixture
def shop():
    """Makes an agent that remembers, and closes what it made."""
    with closing_all() as made:

        def make(store, timeout, *replies, tracing=None):
            made.append(store)
            settings = {"agent_id": "shop", "user_id": lambda context: context, "tracing": tracing}
            memory = Memory(location=store, learn=MemoryModel(), store_timeout=timeout, **settings)
            return Agent("shop", ScriptedModel(*replies), memory, tracing=tracing)

        yield make


@contextmanager
def closing_all():
    made = []
    yield made
    for each in made:
        each.close()


def prompts(agent):
    [role] = agent.plan.roles
    return ["\n".join(message.text for message in prompt) for prompt in role.model.prompts]


@pytest.mark.parametrize("outage", OUTAGES, indirect=True)
def test_another_turn_runs_while_one_waits_for_its_store(outage, shop, caplog):
    store = outage.store(LONG)
    agent, other = shop(store, LONG, "Noted."), Agent("other", ScriptedModel("Hello."))

    async def play():
        turn = asyncio.create_task(agent.arun("I play chess.", context="alice"))
        await store.asked()
        assert (await other.arun("Hello.")).text == "Hello."
        assert not turn.done()
        outage.end()
        await turn

    outage.begin()
    asyncio.run(play())
    assert FISH in prompts(agent)[0]
    assert "I play chess." in [record.text for record in store.newest(ALICE)]
    assert "the store fails" not in caplog.text


@pytest.mark.parametrize("outage", ["postgres, cut off", "redis, cut off"], indirect=True)
def test_another_turn_runs_while_many_wait_for_their_store(outage, shop):
    store = outage.store(LONG)
    agent, other = shop(store, LONG, *["Noted."] * CROWD), Agent("other", ScriptedModel("Hello."))

    async def play():
        turns = [asyncio.create_task(agent.arun("Hello.", context=f"user {n}")) for n in range(CROWD)]
        await store.asked(CROWD)
        await other.arun("Hello.")
        assert not any(turn.done() for turn in turns)
        outage.end()
        await asyncio.gather(*turns)

    outage.begin()
    asyncio.run(play())
    assert all(CLOSING in prompt for prompt in prompts(agent))


@pytest.mark.parametrize("outage", [*OUTAGES, *REFUSED], indirect=True)
def test_a_turn_whose_store_never_answers_ends_with_what_was_known(outage, shop, caplog):
    spans = recorded()
    agent = shop(outage.store(PATIENCE), PATIENCE, "Noted.", "Noted.", "Noted.", tracing=spans.tracing)

    async def play():
        await agent.arun("I play chess.", context="alice")
        outage.begin()
        spans.clear()
        for user in ("alice", "bob"):
            await asyncio.wait_for(agent.arun("I play go.", context=user), ENDS)

    asyncio.run(play())
    _, of_alice, of_bob = prompts(agent)
    assert CLOSING in of_alice
    assert FISH in of_alice
    assert CLOSING in of_bob
    assert caplog.text.count("the store fails") == 1
    failed = [span.name for span in spans.ended() if not span.status.is_ok and span.name.startswith("memory.")]
    assert failed
    outage.end()


def test_a_forked_child_has_turns_on_an_event_loop_too():
    def turn(_):
        asyncio.run(asyncio.wait_for(Agent("shop", ScriptedModel("Noted.")).arun("Hello."), LONG / 2))

    turn(0)
    assert in_children(1, turn) == [0]
