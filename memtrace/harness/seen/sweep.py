"""Looking for planted words in bytes that left the process: as they are, and in the disguises that data travels in."""

from __future__ import annotations

import base64
from functools import lru_cache
from typing import Final
from urllib.parse import quote

_SHORTEST: Final = 6
"""Half a word is looked for too (it may have been cut, or split over two values) if the half is at least so long."""


def found_in(body: bytes, word: str) -> str:
    """How a word is in there: plain, hex, URL-escaped, JSON-escaped, cut, base64; ``""`` where it is not."""
    lowered = body.lower()
    for how, forms in _caseless(word.lower()):
        if any(form in lowered for form in forms):
            return how
    return "base64" if any(form in body for form in _base64(word)) else ""


@lru_cache(maxsize=4096)
def _caseless(word: str) -> tuple[tuple[str, tuple[bytes, ...]], ...]:
    data = word.encode()
    half = len(word) // 2
    halves = (word[:half].encode(), word[half:].encode()) if half >= _SHORTEST else ()
    return (
        ("plain", (data, word.encode("utf-16-le"), word.encode("utf-16-be"))),
        ("hex", (data.hex().encode(),)),
        ("URL-escaped", ("".join(f"%{byte:02x}" for byte in data).encode(), quote(word).lower().encode())),
        ("JSON-escaped", ("".join(f"\\u{ord(letter):04x}" for letter in word).encode(),)),
        ("cut", halves),
    )


@lru_cache(maxsize=4096)
def _base64(word: str) -> tuple[bytes, ...]:
    """The characters of its base64 that do not depend on its neighbours, at each of the three places it may start."""
    forms = []
    for text in {word, word.lower(), word.upper()}:
        for offset in range(3):
            data = b"\0" * offset + text.encode()
            whole = len(data) // 3 * 3
            start = 4 if offset else 0
            forms.append(base64.b64encode(data[:whole])[start:])
            forms.append(base64.urlsafe_b64encode(data[:whole])[start:])
    return tuple(dict.fromkeys(form for form in forms if len(form) >= _SHORTEST))
