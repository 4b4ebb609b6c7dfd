"""What a script does to the files of its directory."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path


def truncate(path: Path) -> None:
    """Cut a file to half its length, or each file of a folder."""
    for file in sorted(path.rglob("*") if path.is_dir() else [path]):
        if file.is_file():
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def read_elsewhere(directory: Path) -> Iterator[tuple[str, bytes]]:
    """The files of a directory, by name, as another process read them.

    Closing a database's file in this process would drop SQLite's locks on it.
    """
    with tempfile.TemporaryDirectory(prefix="memtrace-") as copy:
        subprocess.run(["cp", "-R", f"{directory}/.", copy], capture_output=True, check=False)  # noqa: S603, S607
        for path in Path(copy).rglob("*"):
            if path.is_file():
                yield str(path.relative_to(copy)), path.read_bytes()
