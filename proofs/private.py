"""Files that hold what users said: readable by their owner alone."""

from __future__ import annotations

import os
from pathlib import Path

from memtrace.errors import UsageError


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all.

    Raises:
        UsageError: it cannot be written; the message names it.
    """
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
