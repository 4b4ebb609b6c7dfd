"""A write that is interrupted at every moment that matters, and what the next process makes of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from memtrace.harness.processes import OtherProcess
from memtrace.harness.scenes.closing_in import closing_in
from memtrace.harness.scenes.crashing import Crashes, Moments, Verb
from memtrace.harness.stage import Stage
from memtrace.model import Caller


@dataclass(frozen=True, slots=True)
class Write:
    """A write that a process is about to make.

    Attributes:
        verb: makes it.
        look: what a process does after it, which is another where the first one died; whether the write was there.
    """

    verb: Verb
    look: Callable[[OtherProcess], bool]


Begin = Callable[[OtherProcess, Caller], Write]
"""Gives a caller something to lose, and returns the write that comes next."""


def interrupted(stage: Stage, crashes: Crashes, begin: Begin) -> None:
    """Make a write without a crash, and then with one at each moment that matters, each for a caller of its own.

    Each process that dies was the one to look at what the one before had left.
    """
    whole = stage.restart()
    write = begin(whole, stage.caller())
    moments = crashes.measure(whole, write.verb)
    write.look(whole)
    line = _Line(stage, crashes, begin, moments, whole)
    closing_in(moments.count, line.dies)
    line.process.host.close()


@dataclass(slots=True)
class _Line:
    """Processes one after the other; ``process`` is the one that lives."""

    stage: Stage
    crashes: Crashes
    begin: Begin
    moments: Moments
    process: OtherProcess

    def dies(self, after: int) -> bool:
        """The process dies in a write, and the next looks."""
        write = self.begin(self.process, self.stage.caller())
        self.crashes.crash(self.process, write.verb, moments=self.moments, after=after)
        self.process = self.stage.process()
        return write.look(self.process)
