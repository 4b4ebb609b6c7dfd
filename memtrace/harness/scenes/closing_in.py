"""Which moments of a write are worth a crash: a search that leaves nothing out where it matters."""

from __future__ import annotations

from collections.abc import Callable


def closing_in(moments: int, left_the_new: Callable[[int], bool]) -> None:
    """Try the last moment of a write, and then those on both sides of the one from which on it left the new state.

    Between the two that are neighbours in the end, nothing is left out: what is neither old nor new lies there.
    """
    old, new = 0, moments
    if moments and not left_the_new(moments):
        old = moments
    while new - old > 1:
        middle = (old + new) // 2
        if left_the_new(middle):
            new = middle
        else:
            old = middle
