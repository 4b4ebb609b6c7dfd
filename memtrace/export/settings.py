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

import os
from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote

from memtrace.errors import UsageError
from memtrace.export.variables import warn_once
from memtrace.identity import id_key
from memtrace.redaction import Policy

PAYLOADS: Final = "MEMTRACE_TRACE_PAYLOADS"
NAMES: Final = "MEMTRACE_EXPORT_NAMES"

_LONGEST_NAME: Final = 128
_SERVICE: Final = "OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES"


def default_policy(names: Iterable[str] = ()) -> Policy:
    """The allow-list, with these names and the environment's, its id key, and its word on payloads.

    Raises:
        UsageError: the names are one text.
    """
    registered = usable(names) + usable(_listed(), NAMES) + usable(_service(), _SERVICE)
    return Policy(names=frozenset(registered), key=id_key(), payloads=payloads_wanted())


def usable(names: Iterable[str], where: str = "names") -> list[str]:
    """Those that may be registered: what is no name at all, or very long, may not."""
    if isinstance(names, str):
        raise UsageError(f"names={names!r} is one text, and each of its letters a name; give a list")
    given = [name for name in names if name]
    if any(len(name) > _LONGEST_NAME for name in given):
        warn_once(f"a name in {where}", f"longer than {_LONGEST_NAME} characters: it is left out")
    return [name for name in given if len(name) <= _LONGEST_NAME]


def payloads_wanted() -> bool:
    """Whether ``MEMTRACE_TRACE_PAYLOADS`` is ``1``."""
    value = os.environ.get(PAYLOADS, "")
    if value not in ("", "0", "1"):
        warn_once(PAYLOADS, "neither 0 nor 1: payloads do not leave")
    return value == "1"


def _listed() -> list[str]:
    return [name.strip() for name in os.environ.get(NAMES, "").split(",")]


def _service() -> list[str]:
    pairs = [pair.partition("=") for pair in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(",")]
    values = [unquote(value.strip()) for key, _, value in pairs if key.strip().startswith(("service.", "deployment."))]
    return [os.environ.get("OTEL_SERVICE_NAME", "").strip(), *values]
