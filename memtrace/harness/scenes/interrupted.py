"""A write that is interrupted at every moment that matters, and what the processes after it make of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from memtrace.harness.processes import OtherProcess
from memtrace.harness.scenes.closing_in import closing_in
from memtrace.harness.scenes.crashing import Crashes, Moments, Verb
from memtrace.harness.scenes.lifecycle import ASKS
from memtrace.harness.stage import Stage
from memtrace.model import Caller


@dataclass(frozen=True, slots=True)
class Found:
    """What a process found and made of a write: whether it was there, and the id its fact has now."""

    there: bool
    record: str


@dataclass(frozen=True, slots=True)
class Write:
    """A write that a process is about to make.

    Attributes:
        verb: makes it.
        look: what a process does after it, which is another where the first one died.
    """

    verb: Verb
    look: Callable[[OtherProcess], Found]


Begin = Callable[[OtherProcess, Caller], Write]
"""Gives a caller something to lose, and returns the write that comes next."""


def interrupted(stage: Stage, crashes: Crashes, begin: Begin) -> None:
    """Make a write without a crash, and then with one at each moment that matters, each for a caller of its own.

    What a process says of what it wrote itself may be what it remembers. So the next one looks again, and forgets, and
    the one after that looks last. Each of them was there anyway, to look at another crash and to die in one.
    """
    line = _Line(stage, crashes, begin, stage.restart())
    moments = line.goes_on()
    closing_in(moments.count, lambda after: line.dies(moments, after))
    line.ends()


@dataclass(slots=True)
class _Line:
    """Processes one after the other.

    Attributes:
        process: the one that lives.
        stored: whose fact a process before has stored, and its id.
        forgotten: who has forgotten one in a process before.
    """

    stage: Stage
    crashes: Crashes
    begin: Begin
    process: OtherProcess
    stored: tuple[Caller, str] | None = None
    forgotten: Caller | None = None

    def goes_on(self) -> Moments:
        """The process makes the write, which has these moments, and looks."""
        caller = self.stage.caller()
        write = self.begin(self.process, caller)
        moments = self.crashes.measure(self.process, write.verb)
        self.stored = caller, write.look(self.process).record
        return moments

    def dies(self, moments: Moments, after: int) -> bool:
        """The process dies in a write, and the next looks: whether the write was there."""
        caller = self.stage.caller()
        write = self.begin(self.process, caller)
        self.crashes.crash(self.process, write.verb, moments=moments, after=after)
        self.process = self.stage.process()
        found = write.look(self.process)
        self.takes_over()
        self.stored = caller, found.record
        return found.there

    def ends(self) -> None:
        """As many processes as it takes until all was looked at, each of which ends by itself."""
        while self.stored or self.forgotten:
            self.process.host.close()
            self.process = self.stage.process()
            self.takes_over()
        self.process.host.close()

    def takes_over(self) -> None:
        """The process looks at what those before it have stored and forgotten."""
        if self.forgotten is not None:
            self.process.facts(self.forgotten)
        stored, self.stored, self.forgotten = self.stored, None, None
        if stored is not None:
            self.uses(*stored)

    def uses(self, caller: Caller, record: str) -> None:
        """What a turn makes of a fact, and whether it can be forgotten."""
        self.process.facts(caller)
        if "turns" in self.stage.claims:
            self.process.turn(caller, ASKS)
        if "forget" in self.stage.claims:
            self.process.forget(caller, record)
            self.process.facts(caller)
            self.forgotten = caller
