"""A server that runs, and the ladder of ways to come by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, Self

from memtrace.errors import MemtraceError, UsageError

Kind = Literal["postgres", "redis"]
KINDS: Final[tuple[Kind, ...]] = ("postgres", "redis")


class Unavailable(MemtraceError):
    """No such server can be had on this machine.

    Attributes:
        reasons: why not, a line for each way that was tried, in their order.
    """

    def __init__(self, kind: str, reasons: Sequence[str]) -> None:
        super().__init__("\n".join([f"no {kind} server can be had here:", *(f"  {reason}" for reason in reasons)]))
        self.reasons = tuple(reasons)


class NotHere(Exception):
    """One way to come by a server leads nowhere; the message says why."""


class Running(Protocol):
    """What runs a server: a process, or a container."""

    def start(self) -> None:
        """Run it, on the data and the address it had; returns once it answers."""

    def kill(self) -> None:
        """End it at once, as SIGKILL does."""

    def stop(self) -> None:
        """End it, and remove what it wrote."""


@dataclass(slots=True)
class Server:
    """A server that runs. Use as a context manager; at its end nothing of it is left.

    Attributes:
        kind: ``postgres`` or ``redis``.
        url: where it listens; the same after `kill` and `start`.
        provider: how it was come by.
        given: it is somebody else's, named by an environment variable: never killed, never stopped.
        taken: the places `fresh` has handed out, by URL, with what gives each back.
        handed_out: how many there have been.
    """

    kind: Kind
    url: str
    provider: str
    running: Running | None
    taken: dict[str, Callable[[], None]] = field(default_factory=dict)
    handed_out: int = 0

    @property
    def given(self) -> bool:
        """Whether it is somebody else's."""
        return self.running is None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def kill(self) -> None:
        """Kill it, as SIGKILL does; what it kept on disk stays.

        Raises:
            UsageError: it is somebody else's.
        """
        self._own("killed").kill()

    def start(self) -> None:
        """Run it again after `kill`, on the same data and at the same address."""
        self._own("started").start()

    def stop(self) -> None:
        """End it and remove its data; of a server that was given, only the places that `fresh` made."""
        if self.running is not None:
            self.running.stop()
            self.taken.clear()
        while self.taken:
            self.taken.popitem()[1]()

    def _own(self, verb: str) -> Running:
        if self.running is None:
            raise UsageError(f"a server that was given by {self.provider} is not {verb}: unset that variable")
        return self.running


Rung = tuple[str, Callable[[bool], Server]]
"""A way to come by a server: its name, and what tries it, durable or not."""


def climb(kind: Kind, rungs: Sequence[Rung], *, durable: bool) -> Server:
    """The server that the first way which leads somewhere gives.

    Raises:
        Unavailable: none does.
        UsageError: a server was given, and cannot be reached.
    """
    reasons = []
    for name, attempt in rungs:
        try:
            return attempt(durable)
        except NotHere as reason:
            reasons.append(f"{name}: {reason}")
    raise Unavailable(kind, reasons)


def start(kind: str, *, durable: bool = False) -> Server:
    """A server of a kind by its name."""
    # Imported here: both import this module.
    from memtrace.harness.services.postgres import start_postgres
    from memtrace.harness.services.redis import start_redis

    starters = {"postgres": start_postgres, "redis": start_redis}
    if kind not in starters:
        raise UsageError(f"{kind!r} names no server; known are {', '.join(starters)}")
    return starters[kind](durable=durable)
