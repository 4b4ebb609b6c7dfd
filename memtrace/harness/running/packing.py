"""Values on their way to another process and back: JSON, with the vocabulary's dataclasses by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from memtrace.model import Caller, Fact, Message, Reply

_TYPES: Final[Mapping[str, Any]] = MappingProxyType(
    {"Caller": Caller, "Fact": Fact, "Message": Message, "Reply": Reply}
)
_TYPE: Final = "memtrace.type"


def pack(value: Any) -> Any:
    """A value as JSON has it; what JSON has no form for travels as its text."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list() | tuple() | set() | frozenset():
            return [pack(item) for item in value]
        case Mapping():
            return {str(key): pack(item) for key, item in value.items()}
    name = type(value).__name__
    return {_TYPE: name, "fields": msgspec.to_builtins(value)} if name in _TYPES else str(value)


def unpack(value: Any) -> Any:
    """The value that was packed; its sequences are lists."""
    match value:
        case list():
            return [unpack(item) for item in value]
        case {"memtrace.type": str(name), "fields": fields}:
            return msgspec.convert(fields, _TYPES[name])
        case dict():
            return {key: unpack(item) for key, item in value.items()}
    return value
