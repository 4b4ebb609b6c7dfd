"""What the tests of the stores on servers share: how stores are opened, and what a test waits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from memtrace.model import Level, Scope
from memtrace.stores.contract import FactStore

ALICE = Scope(Level.USER, "alice")
BOB = Scope(Level.USER, "bob")
PATIENCE = 0.5
"""Seconds a test waits for a server that does not answer."""
LONG = 60.0
"""Seconds until a test gives up what should happen at once."""


@contextmanager
def opening(store: Callable[..., FactStore], place: Any) -> Iterator[Callable[..., Any]]:
    """Opens stores, at one place if not told otherwise, and closes them in the end."""
    with ExitStack() as stack:
        yield lambda at=place, **settings: stack.enter_context(closing(store(at, **settings)))


def until(holds: Callable[[], object]) -> None:
    """Ask again until the answer is yes."""
    deadline = time.monotonic() + LONG
    while not holds():
        assert time.monotonic() < deadline, "it never came to be"
