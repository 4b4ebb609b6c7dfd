"""Blocking steps of turns on an event loop: none waits for a thread, and one that has not begun can be cancelled."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from scripted import ScriptedModel, calls
from storing import LONG

from memtrace.reference import drivers
from memtrace.reference.agent import Agent
from memtrace.reference.threads import Threads
from memtrace.reference.tools import Tool

MANY = 300
"""Turns at once: more than the threads of any pool one would think large enough."""

EXITS_WHILE_A_STEP_RUNS = """
import threading
from memtrace.reference import drivers
begun, go = threading.Event(), threading.Event()

def step():
    begun.set()
    go.wait()
    print("whole", flush=True)

drivers._THREADS.start(int).result()
drivers._THREADS.start(step)
begun.wait()
threading.Timer(0, go.set).start()
"""


def test_turns_that_run_turns_in_their_tools_all_end():
    everyone = threading.Barrier(MANY, timeout=LONG)

    def ask():
        everyone.wait()
        helper = Agent("helper", ScriptedModel(calls("look"), "Fish."), tools=[Tool("look", lambda: "fish")])
        return asyncio.run(helper.arun("What does she like?")).text

    async def play():
        bosses = [Agent("boss", ScriptedModel(calls("ask"), "Noted."), tools=[Tool("ask", ask)]) for _ in range(MANY)]
        turns = [asyncio.create_task(boss.arun("Hello.")) for boss in bosses]
        return await asyncio.wait_for(asyncio.gather(*turns), LONG)

    assert [result.text for result in asyncio.run(play())] == ["Noted."] * MANY


def test_an_idle_thread_is_used_again():
    threads = Threads()
    assert len({threads.start(threading.get_ident).result() for _ in range(20)}) == 1


def test_of_a_crowd_of_threads_a_few_stay(monkeypatch):
    monkeypatch.setattr("memtrace.reference.threads._MOST_IDLE", 3)
    threads = Threads()
    crowd = in_a_crowd(threads, 12)
    later = in_a_crowd(threads, 12)
    assert len(crowd) == len(later) == 12
    assert len(crowd & later) == 3
    for thread in crowd - later:
        thread.join(LONG)
        assert not thread.is_alive()


def in_a_crowd(threads, count):
    """The threads of works none of which ends before all have begun."""
    everyone = threading.Barrier(count, timeout=LONG)

    def work():
        everyone.wait()
        return threading.current_thread()

    begun = [threads.start(work) for _ in range(count)]
    return {future.result(LONG) for future in begun}


class Occupied(Threads):
    """Has one thread, and that does something else until it is let go."""

    def __init__(self):
        super().__init__()
        self.free = threading.Event()
        self.asked = asyncio.Event()
        self.pool = ThreadPoolExecutor(1)
        self.pool.submit(self.free.wait)

    def _take(self):
        self.asked.set()
        return self.pool


def test_a_step_that_has_not_begun_when_its_turn_is_cancelled_is_never_done(monkeypatch):
    done = []

    async def play():
        threads = Occupied()
        monkeypatch.setattr(drivers, "_THREADS", threads)
        agent = Agent("shop", ScriptedModel(calls("buy"), "Bought."), tools=[Tool("buy", lambda: done.append(1))])
        turn = asyncio.create_task(agent.arun("Buy fish."))
        await threads.asked.wait()
        turn.cancel()
        ended, _ = await asyncio.wait({turn}, timeout=LONG)
        threads.free.set()
        await asyncio.to_thread(threads.pool.shutdown)
        assert ended == {turn}
        assert turn.cancelled()

    asyncio.run(play())
    assert done == []


def test_a_step_that_cannot_have_a_thread_fails_and_is_never_done(monkeypatch):
    done = []
    threads = Threads()

    def refuse(_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as full:
        full.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            threads.start(lambda: done.append(1))
    threads.start(int).result(LONG)
    assert done == []


def test_the_interpreter_exits_after_the_step_that_runs_and_leaves_no_idle_thread_waiting():
    script = [sys.executable, "-c", EXITS_WHILE_A_STEP_RUNS]
    ended = subprocess.run(script, capture_output=True, text=True, timeout=LONG, check=True)
    assert (ended.stdout, ended.stderr) == ("whole\n", "")
