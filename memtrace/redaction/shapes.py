"""The shapes that values may have. No shape lets a free string pass."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from memtrace.identity import IdKind

if TYPE_CHECKING:
    from memtrace.redaction.policy import Policy

OTHER: Final = "other"


class Reason(StrEnum):
    """Why something was withheld."""

    KEY = "unknown-key"
    SHAPE = "wrong-shape"
    NAME = "unregistered-name"
    TEXT = "free-text"
    ID = "id-without-key"


Shape = Callable[[Any, "Policy"], Any]
"""What may leave of a value under a policy: the value, `OTHER`, or ``None`` for nothing."""
Note = Callable[[str, Reason], None]
"""Is told a key, or one of `memtrace.redaction.PLACES`, and why something was withheld there."""

_MOST: Final = 2**40  # A count. Seven letters make a greater number.
_LONGEST_LIST: Final = 1024
_VERSION: Final = re.compile(r"\d{1,4}(\.\d{1,4}){1,3}((a|b|rc|\.dev|\.post)\d{1,3})?", re.ASCII)
_STATUS: Final = re.compile(r"\d{1,3}|\d\d[0-9A-Z]\d\d", re.ASCII)
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_IPV4: Final = re.compile(r"\d{1,3}(\.\d{1,3}){3}", re.ASCII)

IDENTIFIERS: Final[set[Shape]] = set()
"""The shapes of ids."""


def count(value: Any, _: Policy) -> Any:
    """A whole number that counts something."""
    return int(value) if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST else None


def number(value: Any, _: Policy) -> Any:
    """A finite number of ordinary size, in four digits."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= _MOST:
        return None
    return value if isinstance(value, int) else float(f"{value:.4g}")


def flag(value: Any, _: Policy) -> Any:
    """True or false, also as text."""
    return value if isinstance(value, bool) or value in ("True", "False") else None


def name(value: Any, policy: Policy) -> Any:
    """A registered name, else ``other``."""
    return policy.name(value) if isinstance(value, str) else None


def version(value: Any, policy: Policy) -> Any:
    """Digits and dots, or a registered name."""
    return value if isinstance(value, str) and _VERSION.fullmatch(value) else name(value, policy)


def host(value: Any, policy: Policy) -> Any:
    """An address of this machine or in IPv4 digits, or a registered name."""
    return value if isinstance(value, str) and (value in _LOCAL or _IPV4.fullmatch(value)) else name(value, policy)


def status(value: Any, policy: Policy) -> Any:
    """A status code: of HTTP, of gRPC, or an SQLSTATE."""
    return value if isinstance(value, str) and _STATUS.fullmatch(value) else count(value, policy)


def error_type(value: Any, policy: Policy) -> Any:
    """An exception class that is loaded, a status code, or a registered name."""
    if not isinstance(value, str):
        return None
    return value if _STATUS.fullmatch(value) or _is_exception(value) else name(value, policy)


def words(*vocabulary: str) -> Shape:
    """One of these words (several may be given as one text) or a registered name, else ``other``."""
    allowed = {word: word for several in vocabulary for word in several.split()}

    def shape(value: Any, policy: Policy) -> Any:
        return (allowed.get(value) or policy.name(value)) if isinstance(value, str) else None

    return shape


def many(one: Shape) -> Shape:
    """A list of such values."""

    def shape(value: Any, policy: Policy) -> Any:
        if not isinstance(value, (list, tuple)) or len(value) > _LONGEST_LIST:
            return None
        kept = [one(item, policy) for item in value]
        return None if None in kept else kept

    return shape


def identifier(kind: IdKind) -> Shape:
    """An id: its keyed digest leaves, under the same key."""

    def shape(value: Any, policy: Policy) -> Any:
        if value == "":
            return value
        if policy.key is None or not isinstance(value, (str, int)):
            return None
        return policy.key.digest(kind, str(value), policy.tenant)

    IDENTIFIERS.add(shape)
    return shape


def digest(value: Any, policy: Policy) -> Any:
    """A digest that this policy's key made."""
    return value if policy.key and isinstance(value, str) and policy.key.made(value) else None


def key_id(value: Any, policy: Policy) -> Any:
    """The name of this policy's key."""
    return policy.key.id if policy.key and value == policy.key.id else None


def _is_exception(text: str) -> bool:
    module, _, qualified = text.rpartition(".")
    found = getattr(sys.modules.get(module or "builtins"), "__dict__", {}).get(qualified)
    return isinstance(found, type) and issubclass(found, BaseException)
