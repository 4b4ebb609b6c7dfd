"""The local record: every span, whole, on this machine. A directory of OTLP/JSON-lines files, bounded in size and age.

It holds users' words and ids, so directory and files are the owner's alone. Several processes may write to one
directory. Old files go when the record grows past its size, or when it is written to and they are past their age.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any, Final

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from memtrace.errors import UsageError
from memtrace.export.record_files import file_opened, files_of, locked, make_directory, opened_millis, own_files
from memtrace.export.record_lines import encoder, line_of, parsed, spans_of
from memtrace.export.withheld import lost

MOST_BYTES: Final = 64 * 2**20
OLDEST_SECONDS: Final = 7 * 86_400.0
RECORDED: Final = "recorded spans"

_FILES: Final = 8
"""A record is cut into about so many files: it forgets by whole files."""
_log = logging.getLogger("memtrace.export")


class LocalRecord(SpanExporter):
    """Writes spans to a directory, made where there is none.

    Args:
        directory: where to.
        max_bytes: all its files together.
        max_age: in seconds.
        clock: seconds since the epoch.

    Raises:
        UsageError: the directory cannot be written to, a bound is not positive, or the extra is not installed.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        max_bytes: int = MOST_BYTES,
        max_age: float = OLDEST_SECONDS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        for name, bound in (("max_bytes", max_bytes), ("max_age", max_age)):
            if isinstance(bound, bool) or not isinstance(bound, (int, float)) or not 0 < bound < inf:
                raise UsageError(f"{name}={bound!r} is no bound of a record; give a number above 0")
        encoder()
        self.directory = Path(directory).expanduser()
        self._max_bytes, self._max_age, self._clock = max_bytes, max_age, clock
        try:
            make_directory(self.directory)
            self.directory.chmod(0o700)
            with locked(self.directory):
                self._prune()
        except OSError as error:
            raise UsageError(f"the record {self.directory} cannot be written to: {error.strerror}") from error

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Append one line for the batch; several where it is long."""
        try:
            lines, left_out = self._lines(spans)
            with locked(self.directory):
                for line in lines:
                    self._append(line)
                self._prune()
            lost(RECORDED, left_out)
        except Exception as error:  # noqa: BLE001  telemetry never breaks the application
            _log.warning("the local record could not be written (%s)", type(error).__name__)
            lost(RECORDED, len(spans))
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS

    def _lines(self, spans: Sequence[ReadableSpan]) -> tuple[list[bytes], int]:
        """The batch's lines, none longer than a file may be, and how many spans are left out for their length."""
        whole = line_of(spans)
        if len(whole) <= self._file_bytes:
            return [whole], 0
        each = [line_of([span]) for span in spans]
        fitting = [line for line in each if len(line) <= self._file_bytes]
        return fitting, len(each) - len(fitting)

    @property
    def _file_bytes(self) -> int:
        return max(1, self._max_bytes // _FILES)

    def _append(self, line: bytes) -> None:
        descriptor = os.open(self._file_for(len(line)), os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "rb+") as file:
            os.fchmod(descriptor, 0o600)  # Somebody may have copied it here.
            size = file.seek(0, os.SEEK_END)
            # A crash may have cut the last line short; what follows must not be read as part of it.
            whole = not size or os.pread(descriptor, 1, size - 1) == b"\n"
            file.write(line if whole else b"\n" + line)

    def _file_for(self, size: int) -> Path:
        files = own_files(self.directory)
        now = self._clock()
        if files:
            newest = files[-1]
            young = now - opened_millis(newest) / 1000 < self._max_age / _FILES
            if young and newest.stat().st_size + size <= self._file_bytes:
                return newest
        millis = max(int(now * 1000), opened_millis(files[-1]) + 1 if files else 0)
        return file_opened(self.directory, millis)

    def _prune(self) -> None:
        files = own_files(self.directory)
        sizes = {file: file.stat().st_size for file in files}
        # A file's last line is younger than the file by at most one file's age.
        oldest = (self._clock() - self._max_age - self._max_age / _FILES) * 1000
        while files and (sum(sizes.values()) > self._max_bytes or opened_millis(files[0]) < oldest):
            file = files.pop(0)
            del sizes[file]
            file.unlink()


def recorded(directory: str | Path) -> Iterator[dict[str, Any]]:
    """The spans of a record, oldest first, as OTLP/JSON objects; a line that a crash cut short is left out."""
    for file in files_of(Path(directory).expanduser()):
        with suppress(FileNotFoundError):  # Another process forgets it right now.
            for line in file.read_bytes().splitlines():
                yield from spans_of(parsed(line))
