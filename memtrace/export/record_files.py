"""The directory of a record: its files in order, whose they are, and one writer at a time.

A file is named by the time it was opened: ``spans-<milliseconds since the epoch>.jsonl``.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG
from typing import Final

BEGUN: Final = ".erasing"
"""Holds the ids of the traces that an erasure is about to remove."""

_PATTERN: Final = "spans-*.jsonl"
_NEW: Final = ".new"


def make_directory(directory: Path) -> None:
    """Make it, and those above it that do not exist: their owner's alone."""
    for place in [*reversed(directory.parents), directory]:
        place.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Alone with the record, among threads and processes. What an interrupted erasure left behind is gone."""
    descriptor = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        _give(descriptor, directory.stat())
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        for left in directory.glob(f"*{_NEW}"):
            left.unlink()
        yield
    finally:
        os.close(descriptor)


def files_of(directory: Path) -> list[Path]:
    """Oldest first; what only has the name of one, such as a link, is none."""
    return sorted(file for file in directory.glob(_PATTERN) if _is_regular(file))


def own_files(directory: Path) -> list[Path]:
    """Those that nobody else put there, oldest first."""
    return [file for file in files_of(directory) if file.stat().st_uid == os.geteuid()]


def file_opened(directory: Path, millis: int) -> Path:
    """The name of a file that is opened so many milliseconds after the epoch."""
    return directory / f"spans-{millis:013d}.jsonl"


def opened_millis(file: Path) -> int:
    """When a file was opened, in milliseconds since the epoch; 0 where its name does not tell."""
    digits = file.stem.removeprefix("spans-")
    return int(digits) if digits.isdecimal() else 0


def read(file: Path) -> bytes:
    """What a file holds; nothing where there is none, or only what has its name."""
    return file.read_bytes() if _is_regular(file) else b""


def replace(file: Path, lines: Sequence[bytes]) -> None:
    """Put these lines in place of a file, which stays its owner's, whoever does it; with none, it goes."""
    if lines:
        written(file, lines, owner=file.stat())
    else:
        file.unlink()


def written(file: Path, lines: Sequence[bytes], *, owner: os.stat_result) -> None:
    """Write a file, whole and on the disk or not at all."""
    new = file.with_name(file.name + _NEW)
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            _give(descriptor, owner)
            stream.writelines(lines)
            stream.flush()
            os.fsync(stream.fileno())
        new.replace(file)
        synced(file.parent)
    finally:
        new.unlink(missing_ok=True)


def synced(directory: Path) -> None:
    """Which files it has, and lacks, is on the disk."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # Some file systems do not do this for a directory.
            raise
    finally:
        os.close(descriptor)


def _give(descriptor: int, owner: os.stat_result) -> None:
    """Root's work on somebody's record stays theirs."""
    if os.geteuid() == 0 and os.fstat(descriptor).st_uid != owner.st_uid:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def _is_regular(file: Path) -> bool:
    try:
        return S_ISREG(file.lstat().st_mode)
    except FileNotFoundError:  # Another process forgets it right now.
        return False
