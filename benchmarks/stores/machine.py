"""On what a run was made, so that its figures can be told from another machine's."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .peer import NAME, sdk_version


def machine(backends: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """The facts of this machine and these backends."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load average at the start": round(os.getloadavg()[0], 2),
        "system": platform.platform(),
        "python": platform.python_version(),
        "memtrace": _memtrace_version(),
        NAME: sdk_version() or "not installed",
        "backends": {name: dict(about) for name, about in backends.items()},
    }


def _memtrace_version() -> str:
    try:
        return version("memtrace-otel")
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())
