"""Servers for a person: started, named, held until they are no longer wanted."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from memtrace.harness.services.server import KINDS, Server, Unavailable, start


def up(kinds: Sequence[str] = KINDS, *, durable: bool = False, tell: Callable[[str], object] = print) -> None:
    """Start servers, tell their URLs as lines a shell can read, and hold them until Ctrl-C or SIGTERM.

    Raises:
        Unavailable: this machine has none of them.
        UsageError: a kind is unknown, or a server that was given cannot be reached.
    """
    # From here on, so that neither signal finds a server half started and leaves its directory behind.
    earlier = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with ExitStack() as stack:
            absent: dict[str, Sequence[str]] = {}
            for kind in dict.fromkeys(kinds):
                try:
                    tell(line(stack.enter_context(start(kind, durable=durable))))
                except Unavailable as unavailable:
                    absent[kind] = unavailable.reasons
            if absent and len(absent) == len(set(kinds)):
                raise Unavailable(" or ".join(absent), [f"{kind}, {why}" for kind in absent for why in absent[kind]])
            for kind, reasons in absent.items():
                tell(f"# no {kind} server can be had here: {'; '.join(reasons)}")
            tell("# until Ctrl-C")
            signal.pause()
    except KeyboardInterrupt:
        tell("# gone")
    finally:
        signal.signal(signal.SIGTERM, earlier)


def line(server: Server) -> str:
    """What tells a shell where a server is, and a person what it is."""
    return f"export MEMTRACE_{server.kind.upper()}_URL='{server.url}'  # {server.provider}"
