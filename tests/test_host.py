"""A turn that is cancelled from outside has ended before the script goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from memtrace.harness.running.host import LocalHost, StreamPlan, result_of
from memtrace.model import Caller, Outcome, Reply

CALLER = Caller("alice")


class Patient:
    """Waits for ever in a turn, and takes a while to let go of it."""

    capabilities = frozenset({"turns", "stream", "cancel"})

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.let_go = False

    async def turn(self, caller: Caller, text: str) -> Reply:
        async for _ in self.stream(caller, text):
            pass
        return Reply(Outcome.OK)

    async def stream(self, caller: Caller, text: str) -> AsyncIterator[str]:
        self.begun.set()
        try:
            yield "One moment."
            await asyncio.Event().wait()
        finally:
            for _ in range(100):
                await asyncio.sleep(0)
            self.let_go = True

    def close(self) -> None:
        pass


@pytest.mark.parametrize("method", ["turn", "stream"])
def test_a_cancelled_task_has_let_go_when_its_end_is_told(method: str) -> None:
    system = Patient()
    host = LocalHost(system)
    try:
        plan = StreamPlan() if method == "stream" else None
        running = host.submit(method, (CALLER, "Hello."), turn="t1", overlap=True, stream=plan)
        assert system.begun.wait(10)
        host.cancel(running, CALLER)
        assert result_of(running, 10).outcome is Outcome.CANCELLED
        assert system.let_go
    finally:
        host.close()
