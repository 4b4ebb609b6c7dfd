"""How many connections a process may have in use: places, each had by one thread at a time."""

from __future__ import annotations

import threading
import weakref

from memtrace.stores.rows import A_DAY


class Places:
    """So many places.

    Not a `queue.SimpleQueue`: whoever waits there, and loses what it was woken for as its time ends, waits for ever.
    """

    __slots__ = ("__weakref__", "_changed", "_free", "_lock", "_waiting", "count")

    def __init__(self, count: int) -> None:
        self.count = count
        # Taken without the condition's own methods, in which an interrupt could come before it is let go.
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._waiting = 0
        self._free: list[Place] = []
        for _ in range(count):
            self.free()

    def take(self, seconds: float) -> Place | None:
        """One that nobody has; ``None`` when all stayed taken for so long."""
        return self._pop() or self._wait(min(max(0.0, seconds), A_DAY))

    def give_back(self, place: Place) -> None:
        """End what `take` began."""
        self._free.append(place)
        if self._waiting:
            with self._lock:
                self._changed.notify()

    def free(self) -> None:
        """Make one more."""
        self.give_back(Place(weakref.ref(self)))

    def __len__(self) -> int:
        return len(self._free)

    def _pop(self) -> Place | None:
        try:
            return self._free.pop()
        except IndexError:
            return None

    def _wait(self, seconds: float) -> Place | None:
        with self._lock:
            self._waiting += 1
            try:
                return self._changed.wait_for(self._pop, seconds)
            finally:
                self._waiting -= 1
                if self._free:  # who was woken for it was interrupted
                    self._changed.notify()


class Place:
    """One place. Should its thread be interrupted before it can give it back, whoever last knew it frees it."""

    __slots__ = ("_all",)

    def __init__(self, places: weakref.ref[Places]) -> None:
        self._all = places

    def __del__(self) -> None:
        places = self._all()
        if places is not None:
            places.free()
