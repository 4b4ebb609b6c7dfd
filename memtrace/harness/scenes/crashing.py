"""A process that dies at a chosen moment of a write, as a machine without power would end it.

On a server a moment is after so many of its requests, each answered by the server and the last answer lost; elsewhere
after so many of its own steps of input and output. What a crash can leave behind changes with these alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memtrace.harness.faults.proxy import FaultProxy
from memtrace.harness.system import SQLITE_URL

if TYPE_CHECKING:
    from memtrace.harness.processes import OtherProcess
    from memtrace.harness.stage import Stage

Verb = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Moments:
    """How many moments of a verb a process can die at, and whether they are its requests or its own steps."""

    count: int
    by_request: bool


class Crashes:
    """Ends processes in the middle of what they do to one store."""

    def __init__(self, proxy: FaultProxy | None) -> None:
        self._proxy = proxy

    def measure(self, process: OtherProcess, verb: Verb) -> Moments:
        """Let a process run a verb to its end; the moments of it."""
        before = self._requests()
        steps = process.steps_of(verb)
        asked = self._requests() - before
        return Moments(asked or steps, by_request=asked > 0)

    def crash(self, process: OtherProcess, verb: Verb, *, moments: Moments, after: int) -> None:
        """Run a verb and end the process by SIGKILL after so many of its moments, or where it takes fewer after it."""
        if self._proxy is None or not moments.by_request:
            process.kill_during(verb, last_step=after)
            return
        self._proxy.cut_after(after, process.kill)
        verb()
        process.kill()
        self._proxy.reset()  # what it has sent and nobody has read goes with it
        self._proxy.pass_through()

    def _requests(self) -> int:
        return self._proxy.requests if self._proxy is not None else 0


@contextmanager
def crashing(stage: Stage) -> Iterator[Crashes]:
    """A hand on the processes of a script, which reach a store that is a server by way of it."""
    stage.endangers_the_store()
    url = stage.environment().store_url
    with ExitStack() as stack:
        proxy = None
        if not url.startswith(SQLITE_URL):
            proxy = stack.enter_context(FaultProxy(url))
            stage.reopen_at(proxy.url(url))
            stack.callback(stage.reopen_at, url)
        yield Crashes(proxy)
