"""What scripts leave in a store of the adopter's own, in one line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Left:
    """Callers of a script, or whatever else ``what`` says, that could not be removed; ``names`` are their ids."""

    what: str
    names: tuple[str, ...]
    why: str


def told(left: Iterable[Left]) -> str:
    """How many could not be removed of what, what their ids look like, and why; ``""`` where nothing is left."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for one in left:
        found.setdefault((one.what, one.why), {}).update(dict.fromkeys(one.names))
    parts = [f"{len(names)} {what} ({_some(list(names))}): {why}" for (what, why), names in found.items()]
    return f"left in the store: {'; '.join(parts)}" if parts else ""


def _some(names: Sequence[str]) -> str:
    return ", ".join([*names[:_SHOWN], *["…"] * (len(names) > _SHOWN)])


def dump_left(left: Iterable[Left]) -> str:
    """As JSON, to travel with a test's report from an xdist worker."""
    return msgspec.json.encode(list(left)).decode()


def load_left(text: str) -> list[Left]:
    """And back."""
    return msgspec.json.decode(text, type=list[Left])
