"""A first adapter and a CI file for somebody's own memory."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Final

from memtrace.errors import UsageError

_FILES: Final = {"memory_under_test.py": "memory_under_test.py", "memory.yml": ".github/workflows/memory.yml"}


def write_first_files(directory: Path) -> list[Path]:
    """Write `memory_under_test.py` and a GitHub workflow; neither may exist, and then nothing is written.

    Raises:
        UsageError: one of them is there already, or cannot be written; the message names it.
    """
    targets = {template: directory / place for template, place in _FILES.items()}
    if there := [path for path in targets.values() if path.exists()]:
        raise UsageError(f"{there[0]} is there already: move it away, or run memtrace init in another directory")
    for template, path in targets.items():
        text = files("memtrace.harness").joinpath("templates", template).read_text(encoding="utf-8")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from None
    return list(targets.values())
