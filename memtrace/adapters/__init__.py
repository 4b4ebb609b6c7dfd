"""Published memory systems, and our own reference, as systems under test: one file each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

KNOWN: Final[Mapping[str, str]] = MappingProxyType(
    {
        "reference": "memtrace.adapters.reference:sync",
        "reference-async": "memtrace.adapters.reference:aio",
        "fastaiagent": "memtrace.adapters.fastaiagent:sync",
        "fastaiagent-async": "memtrace.adapters.fastaiagent:aio",
    }
)
"""What ``--memory`` accepts by name: the factory each name stands for."""
