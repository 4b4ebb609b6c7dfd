"""Ports that nobody else is handed meanwhile."""

from __future__ import annotations

import contextlib
import socket
from random import SystemRandom
from typing import Final

_PORTS: Final = range(10_000, 32_000)
"""Below what systems hand out by themselves, so that a server that was killed finds its port free again."""


def free_port() -> int:
    """A port of the loopback address that is free now."""
    draw = SystemRandom()
    while True:
        port = draw.choice(_PORTS)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
