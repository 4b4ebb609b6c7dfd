"""What evidence shows of a text: what stands around a word, or all of it."""

from __future__ import annotations

from contextvars import ContextVar

FULL_EVIDENCE: ContextVar[bool] = ContextVar("full evidence", default=False)
"""Whether evidence shows whole prompts. Off by default: a live memory holds other people's facts."""


def excerpt(text: str, word: str, *, around: int = 80) -> str:
    """The text around a word, at most ``around`` characters on each side, line breaks shown as such."""
    if FULL_EVIDENCE.get():
        return text
    at = max(text.lower().find(word.lower()), 0)
    start, end = max(at - around, 0), at + len(word) + around
    piece = text[start:end].replace("\n", "⏎")
    return ("…" if start else "") + piece + ("…" if end < len(text) else "")
