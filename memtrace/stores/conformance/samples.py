"""Texts and ids that stores have been seen to lose, fold or confuse: input for tests of any store."""

from __future__ import annotations

import random
from typing import Final

TEXTS: Final = {
    "empty": "",
    "blank": "  \t\n ",
    "quotes": """it's "so" `here`; DROP TABLE learned_memory; -- %s ? :a $1 {0}""",
    "patterns": "100% of _ and * and ? and [a-z]",
    "lines": "a\nb\r\nc\u2028d\u0085e",
    "controls": "\x01\x02\x1f\x7f\x80\ufeff\ufffe\uffff",
    "every plane": "".join(chr(plane << 16 | 0xF600) for plane in range(17)) + "\U0010ffff",
    "joined": "\U0001f469\u200d\U0001f467 e\u0301 \ufdfa \u05e9\u05dc\u05d5\u05dd \u202eabc",
    "long": "ab\U0001d11e " * 250_000,
    "long and incompressible": random.Random(0).randbytes(500_000).hex(),  # noqa: S311  not a secret
}
"""What every store keeps as it is."""

UNSTORABLE: Final = {"NUL": "a\0b", "high surrogate": "a\ud800b", "low surrogate": "\udc00"}
"""What no store keeps, since one of the backends could not."""

IDS: Final = (
    # prefixes, case, spaces
    "alice", "Alice", "ALICE", "alic", "alice1", "alice ", " alice", "alice\t", "alice\n", "\u200balice",
    # accents and Unicode forms, look-alikes, case folding that changes the length
    "alic\u00e9", "alice\u0301", "\u0430lice", "\uff41lice", "ss", "\u00df", "\u1e9e", "i", "\u0131", "\u0130", "K",
    "\u212a", "\U0001f600",
    # separators
    "a:b", "a/b", "a.b", "a_b", "a-b", "a|b", "a,b", "a b", "a\\b", "a{b}", "a[b]", "..", "../alice", ".", "\\",
    # patterns and quotes
    "*", "%", "_", "?", ".*", "a*", "a%b", "a*b", "a?b", "%alice%", "a'b", 'a"b', "' OR '1'='1", "'; --", "\\*",
    # what another type would read as the same
    "0", "00", "1", "1.0", "1e0", "None", "null", "NULL", "nan", "true",
    # length
    "x" * 10_000, "x" * 10_001, random.Random(1).randbytes(10_000).hex(),  # noqa: S311  not a secret
)  # fmt: skip
"""Ids that are all different."""

PAIRS: Final = (("a", "b:c"), ("a:b", "c"), ("a", "bc"), ("ab", "c"), ("", "abc"), ("a/b", "c"), ("a", "b/c"))
"""A project and an id each, some of which are the same when they are put together."""
