"""What a record is known to lack.

A reason opens with what happened: *truncated*, *evicted*, *redacted*, *by reference*, *partial* or *unreadable*. It
names the place, never the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from memtrace.prompts.trees import leaves, strings

# A whole text that is only a mark: __REDACTED__ (OpenInference), [REDACTED] (Strands), [Filtered] (Sentry),
# [Scrubbed due to …] (Logfire), **** (the Collector). A mark inside a longer text is the application's own: it may
# well have been sent like that.
_MARK: Final = re.compile(
    r"[\[<({_*]+\s*(?i:redacted|filtered|scrubbed|removed|masked|hidden|withheld|omitted)[^\[\]<>{}\n]{0,80}?[\])>}_*]+"
    r"|_*REDACTED_*|\*{3,}"
)
_UTF8_TAIL: Final = 3


@dataclass(frozen=True, slots=True)
class Lost:
    """Something that is missing from a record, and why."""

    reason: str


def flaws(value: Any, where: str, limit: int | None = None) -> Iterator[Lost]:
    """What the texts of a recorded value give away: one is as long as the limit, or only says that it was redacted."""
    texts = list(strings(value))
    if any(isinstance(leaf, bytes) and not _is_text(leaf) for leaf in leaves(value)):
        yield Lost(f"unreadable: {where} holds bytes that are no text")
    if limit is not None and any(_is_cut(text, limit) for text in texts):
        yield Lost(f"truncated: {where} holds a text of just the limit of {limit} characters")
    if any(is_mark(text) for text in texts):
        yield Lost(f"redacted: {where} holds a mark instead of a text")


def is_mark(text: str) -> bool:
    """Whether the text only says that a text was taken away."""
    return _MARK.fullmatch(text.strip()) is not None


def _is_text(value: bytes) -> bool:
    try:
        value.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _is_cut(text: str, limit: int) -> bool:
    """Whether the text is as long as the limit, in characters, in UTF-16 units or in bytes, as SDKs count.

    A limit in bytes that falls into a character leaves up to three bytes less.
    """
    in_bytes = len(text.encode("utf-8", "surrogatepass"))
    in_utf16 = len(text.encode("utf-16-le", "surrogatepass")) // 2
    return limit in (len(text), in_utf16) or limit - _UTF8_TAIL <= in_bytes <= limit
