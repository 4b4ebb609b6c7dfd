"""The policy as the environment has it. A value that is no good is one line in the log, and the safe side.

==================================  ====================================================================================
``MEMTRACE_TRACE_PAYLOADS``         ``1``: payloads leave. Anything else: they do not.
``MEMTRACE_EXPORT_NAMES``           comma-separated names that may leave: agents, models, tools, blocks, hosts, routes
``OTEL_SERVICE_NAME``               is a name that may leave, as are the ``service.*`` and ``deployment.*`` values of
                                    ``OTEL_RESOURCE_ATTRIBUTES``
``MEMTRACE_ID_KEY``, ``…_FILE``     what ids are digested with
``MEMTRACE_ID_TENANT``              whose ids they are: equal ids of two tenants do not look alike
==================================  ====================================================================================
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote

from memtrace.identity import id_key
from memtrace.redaction import Policy

PAYLOADS: Final = "MEMTRACE_TRACE_PAYLOADS"
NAMES: Final = "MEMTRACE_EXPORT_NAMES"

_LONGEST_NAME: Final = 128
_log = logging.getLogger("memtrace.export")


def default_policy(names: Iterable[str] = ()) -> Policy:
    """The allow-list, with these names and the environment's, its id key, and its word on payloads."""
    registered = {*names, *_listed(), *_service()}
    return Policy(names=frozenset(filter(_usable, registered)), key=id_key(), payloads=payloads_wanted())


def payloads_wanted() -> bool:
    """Whether ``MEMTRACE_TRACE_PAYLOADS`` is ``1``."""
    value = os.environ.get(PAYLOADS, "")
    if value not in ("", "0", "1"):
        _log.warning("%s is neither 0 nor 1: payloads do not leave", PAYLOADS)
    return value == "1"


def _listed() -> list[str]:
    return [name.strip() for name in os.environ.get(NAMES, "").split(",")]


def _service() -> list[str]:
    pairs = [pair.partition("=") for pair in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(",")]
    values = [unquote(value.strip()) for key, _, value in pairs if key.strip().startswith(("service.", "deployment."))]
    return [os.environ.get("OTEL_SERVICE_NAME", "").strip(), *values]


def _usable(name: str) -> bool:
    if len(name) > _LONGEST_NAME:
        _log.warning("a name to be exported is longer than %d characters and is left out", _LONGEST_NAME)
    return 0 < len(name) <= _LONGEST_NAME
