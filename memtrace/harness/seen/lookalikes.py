"""Ids that a careless store takes for each other, or for a pattern: how to make them, and how to tell them.

Both directions are here so that every pair that is made is one that is told.
"""

from __future__ import annotations

import posixpath
import re
import unicodedata
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final
from urllib.parse import unquote_plus

_LOOK: Final = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u03bf\u03b1\u03bd\u03c1\u0131",
    "aeopcyxijsoavpi",
)
"""Cyrillic, Greek and Turkish letters by the Latin ones they look like."""
_PATTERN: Final = frozenset("*?%_.[]^$+()|{}")
_CONDITION: Final = re.compile(r"['\"].*\bor\b|[$]|\[.\]", re.IGNORECASE)
_SHORTEST: Final = 64
"""Columns that cut ids keep at least so many characters."""


def families(name: str) -> Mapping[str, list[str]]:
    """Ids made of a name that nobody else has, by what makes them look alike; within a family all are different."""
    number = number_of(name)
    return {
        "prefixes": [name, f"{name}-corp", f"x{name}", f"{name}1", f"user:{name}"],
        "case and accents": [
            f"{name}éé", f"{name}EE", f"{name}ee", f"{name}e\u0301e\u0301", f"{name.upper()}EE",
            f"{name}ss", f"{name}ß",
        ],
        "Unicode forms": [
            f"{name}é", f"{name}e\u0301", f"{name}\uff45\u0301", f"{name}a1", f"{name}\uff411", f"{name}\u04301",
            f"{name}a\u200b1", f"{name}a\u00ad1", f"{name}fi", f"{name}\ufb01", f"{name}a\u0661",
        ],
        "spaces": [
            f"{name}s", f"{name}s ", f" {name}s", f"{name}s\t", f"{name}s\n", f"{name}s\u00a0", f"{name} s",
            f"{name}+s", f"{name}%20s",
        ],
        "separators": [*(f"{name}{separator}x" for separator in ":/_.-|@#"), f"{name}x"],
        "paths": [
            f"{name}p", f"q/../{name}p", f"{name}p/", f"./{name}p", f"{name}p/.", f"../{name}p", f"/{name}p",
            f"\\{name}p",
        ],
        "quotes": [
            f"{name}q", f"{name}q'", f"{name}q''", f'{name}q"', f"{name}q`", f"{name}q\\", f"'{name}q'",
            f"{name}q;--",
        ],
        "numbers": [number, f"0{number}", f"{number}.0", f"+{number}"],
        "long": [f"{name}{'l' * 300}", f"{name}{'l' * 300}a", f"{name}{'l' * 300}b"],
        "any one character": [f"{name}_w", f"{name}?w", f"{name}yw"],
    }  # fmt: skip


def number_of(name: str) -> str:
    """A number made of a name, which nobody else has either."""
    return f"7{int.from_bytes(name.encode()) % 10**9}"


def patterns(user: str) -> list[str]:
    """Ids that mean, in some query language, everyone or this user too."""
    return [
        "*", "_" * len(user), "%", "?", f"{user[:3]}*", "^", f"{user[:3]}%", "_", ".*", "%%", "user:*",
        f"[{user[0]}]{user[1:]}", "' OR '1'='1", '{"$ne": ""}',
    ]  # fmt: skip


def awkward(name: str) -> list[str]:
    """Ids that need care on the way into a query, a key or a file name; each is one user like any other."""
    return [
        f"{name}-5f1c-4b1e-9d59", f"tenant:{name}/a.b@c", f"{name}{{a}}|b", f"o'{name} \"Smith\"", f"{name}é😀",
        f"{name}{'n' * 300}",
    ]  # fmt: skip


@lru_cache(maxsize=4096)
def is_pattern(user: str) -> bool:
    """Whether an id is, in some query language, a pattern or a condition."""
    bare = unquote_plus(user)
    return bool(user) and bool(set(bare) & set("*%") or set(user) <= _PATTERN or _CONDITION.search(bare))


@lru_cache(maxsize=4096)
def similar(one: str, other: str) -> bool:
    """Whether two different ids are ones that a careless store takes for each other."""
    if one == other or not one or not other:
        return False
    if one[:_SHORTEST] == other[:_SHORTEST] and min(len(one), len(other)) >= _SHORTEST:
        return True
    return any(_within(mine, theirs) for mine in _readings(one) for theirs in _readings(other)) or bool(
        _fits(one, other) or _fits(other, one)
    )


def _within(one: str, other: str) -> bool:
    return bool(one) and bool(other) and (one in other or other in one)


@lru_cache(maxsize=4096)
def _readings(user: str) -> frozenset[str]:
    """What is left of an id once it was decoded, taken for a path or a number, and folded."""
    return frozenset(map(_folded, (user, unquote_plus(user), posixpath.normpath(user))))


def _folded(user: str) -> str:
    letters = unicodedata.normalize("NFKD", user).casefold().translate(_LOOK)
    return "".join(_digit(c) for c in letters if c.isalnum()).lstrip("0")


def _digit(letter: str) -> str:
    value = unicodedata.decimal(letter, None)
    return letter if value is None else str(value)


def _fits(pattern: str, user: str) -> bool:
    """Whether an id fits another that is read as a pattern in which ``?`` or ``_`` is any one character."""
    return fnmatchcase(user, pattern.replace("_", "?")) if set("?_") & set(pattern) else False
