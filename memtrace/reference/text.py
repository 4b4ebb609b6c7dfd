"""How stored text is compared with other text, and how it is shown to a model: as data."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final, Protocol, TypeVar

_SPECIAL: Final = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ud800-\udfff]|<(?=\\|)")
"""What JSON leaves as it is, though a reader may end a line at it, fail to encode it, or take it for a template's."""
_SPACE: Final = re.compile(r"\s+")


class HasText(Protocol):
    """A record, a message, a hit."""

    @property
    def text(self) -> str:
        """Its words."""


_T = TypeVar("_T", bound=HasText)


def quoted(text: str) -> str:
    """The text as one JSON string on one line."""
    return _SPECIAL.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(text, ensure_ascii=False))


def folded(text: str) -> str:
    """The form in which two texts count as the same."""
    return _SPACE.sub(" ", text).strip().casefold()


def unseen(items: Iterable[_T], shown: set[str]) -> list[_T]:
    """The items whose folded text is not in ``shown`` yet, each text once; it is then."""
    new = []
    for item in items:
        if (text := folded(item.text)) not in shown:
            shown.add(text)
            new.append(item)
    return new
