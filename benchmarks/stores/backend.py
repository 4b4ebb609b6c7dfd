"""What is measured of a backend, whichever it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from memtrace.stores.contract import FactStore

from .facts import NEWEST, SCOPE, records, text

Call = Callable[[], Any]


class LeftOut(Exception):
    """Something is not measured; the message says why."""


@dataclass(frozen=True, slots=True)
class Filled:
    """A store with facts, and the read of its newest 50 as one would write it by hand on a bare connection."""

    store: FactStore
    bare: Call


class Backend(Protocol):
    """A server, or a folder for files, that makes filled stores in places of their own and closes them all at its end.

    Attributes:
        name: ``sqlite``, ``postgres`` or ``redis``.
        about: its version, its driver's, and how it was come by.
    """

    name: str
    about: Mapping[str, str]

    def round_trip(self) -> Call:
        """The least that can be asked of it."""

    def filled(self, count: int, size: int) -> Filled:
        """A store of ours with that many facts of that length."""

    def peer(self, count: int, size: int) -> Any:
        """The published SDK's store with the same facts.

        Raises:
            LeftOut: it is not installed, or does not take them.
        """


def check(filled: Filled, count: int, size: int) -> Filled:
    """The store, found to hold what was put in by other ways than its own."""
    newest = filled.store.newest(SCOPE)
    wanted = [text(number, size) for number in range(count - 1, max(-1, count - 1 - NEWEST), -1)]
    assert [record.text for record in newest] == wanted
    assert len(filled.bare()) == len(newest)
    for number in (0, count // 2, count - 1):
        [record] = records(number, number + 1, size)
        known = filled.store.add(record)  # adding it again finds it
        assert filled.store.get(SCOPE, known.id) == known
        assert (known.text, known.created_at) == (record.text, record.created_at)
    assert filled.store.newest(SCOPE) == newest
    return filled
