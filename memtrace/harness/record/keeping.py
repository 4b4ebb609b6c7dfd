"""What scripts recorded, kept as files: for their owner's eyes alone, and for no repository."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from memtrace.errors import UsageError
from memtrace.harness.record.history import History


def prepare(directory: Path) -> None:
    """Make a directory for histories.

    Raises:
        UsageError: it cannot be written to.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        (directory / ".gitignore").write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--history {directory}: {error.strerror}") from None


def keep(history: History, directory: Path, test: str) -> None:
    """Write a history as JSON lines, under the name of the test that made it; a file of that name is replaced."""
    module, _, name = test.rpartition("/")[2].partition(".py::")
    # Brackets and spaces of a parametrized test's name would be a shell's.
    plain = quote(name.replace("[", "-").replace("]", "").replace(" ", "-"), safe="")
    path = directory / f"{module}.{plain}.history.jsonl"
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:  # noqa: PTH123  a descriptor
        file.write(history.dump())
