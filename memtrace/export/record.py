"""The local record: every span, whole, on this machine. A directory of OTLP/JSON-lines files, bounded in size and age.

It holds users' words and ids, so directory and files are the owner's alone. Several processes may write to one
directory. Old files go when the record grows past its size, or when it is written to and they are past their age.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path
from stat import S_ISREG
from typing import Any, Final

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from memtrace.errors import UsageError
from memtrace.export.withheld import lost
from memtrace.identity import IdKind, id_key

MOST_BYTES: Final = 64 * 2**20
OLDEST_SECONDS: Final = 7 * 86_400.0
RECORDED: Final = "recorded spans"

_FILES: Final = 8
"""A record is cut into about so many files: it forgets by whole files."""
_PATTERN: Final = "spans-*.jsonl"
_NEW: Final = ".new"
_KINDS: Final[tuple[IdKind, ...]] = ("user", "scope", "session", "conversation")
_log = logging.getLogger("memtrace.export")


class RecentSpans(SpanExporter):
    """The newest spans, whole, in memory."""

    def __init__(self, most: int = 2048) -> None:
        self._spans: deque[ReadableSpan] = deque(maxlen=most)

    @property
    def spans(self) -> tuple[ReadableSpan, ...]:
        """In the order they ended."""
        return tuple(self._spans)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Keep them."""
        self._spans.extend(spans)
        return SpanExportResult.SUCCESS


class LocalRecord(SpanExporter):
    """Writes spans to a directory, made where there is none.

    Args:
        directory: where to.
        max_bytes: all its files together.
        max_age: in seconds.
        clock: seconds since the epoch.

    Raises:
        UsageError: the directory cannot be written to, or a bound is not positive.
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
        self.directory = Path(directory).expanduser()
        self._max_bytes, self._max_age, self._clock = max_bytes, max_age, clock
        try:
            _made(self.directory)
            self.directory.chmod(0o700)
            with _locked(self.directory):
                self._prune()
        except OSError as error:
            raise UsageError(f"the record {self.directory} cannot be written to: {error.strerror}") from error

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Append one line for the batch; several where it is long."""
        try:
            lines, dropped = self._lines(spans)
            lost(RECORDED, dropped)
            with _locked(self.directory):
                for line in lines:
                    self._append(line)
                self._prune()
        except Exception as error:  # noqa: BLE001  telemetry never breaks the application
            _log.warning("the local record could not be written (%s)", type(error).__name__)
            lost(RECORDED, len(spans))
            return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS

    def _lines(self, spans: Sequence[ReadableSpan]) -> tuple[list[bytes], int]:
        whole = _line(spans)
        if len(whole) <= self._file_bytes:
            return [whole], 0
        each = [_line([span]) for span in spans]
        return [line for line in each if len(line) <= self._file_bytes], sum(len(x) > self._file_bytes for x in each)

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
        files = _own(_files(self.directory))
        now = self._clock()
        if files:
            newest = files[-1]
            young = now - _opened(newest) < self._max_age / _FILES
            if young and newest.stat().st_size + size <= self._file_bytes:
                return newest
        number = max(int(now * 1000), int(_opened(files[-1]) * 1000) + 1 if files else 0)
        return self.directory / f"spans-{number:013d}.jsonl"

    def _prune(self) -> None:
        files = _own(_files(self.directory))
        sizes = {file: file.stat().st_size for file in files}
        # A file's last line is younger than the file by at most one file's age.
        oldest = self._clock() - self._max_age
        while files and (sum(sizes.values()) > self._max_bytes or _opened(files[0]) + self._max_age / _FILES < oldest):
            file = files.pop(0)
            del sizes[file]
            file.unlink()


def recorded(directory: str | Path) -> Iterator[dict[str, Any]]:
    """The spans of a record, oldest first, as OTLP/JSON objects; a line that a crash cut short is left out."""
    for file in _files(Path(directory).expanduser()):
        with suppress(FileNotFoundError):  # Another process forgets it right now.
            for line in file.read_bytes().splitlines():
                yield from _spans(_parsed(line))


def erase(directory: str | Path, user: str) -> int:
    """Remove from a record every trace in which a span names this user, by id or digest; how many spans went.

    A span that a running process has not written yet is not in the record: erase again when it is.

    Raises:
        UsageError: there is no record, or no user.
    """
    place = Path(directory).expanduser()
    if not user:
        raise UsageError("name a user: an empty id is nobody's")
    try:
        if not place.is_dir():
            raise UsageError(f"{place} is no directory, so no record")
        with _locked(place):
            names = _names(user)
            traces = {span.get("traceId") for span in recorded(place) if not names.isdisjoint(_strings(span))}
            return sum(_rewritten(file, traces) for file in _files(place))
    except OSError as error:
        raise UsageError(
            f"not all of {user!r} was erased from {place}: {error.strerror}; mend that, and erase again"
        ) from error


def _names(user: str) -> set[str]:
    key = id_key() if os.environ.keys() & {"MEMTRACE_ID_KEY", "MEMTRACE_ID_KEY_FILE"} else None
    return {user} | ({key.digest(kind, user) for kind in _KINDS} if key else set())


def _strings(thing: Any) -> Iterator[str]:
    """Every string in a JSON value."""
    if isinstance(thing, str):
        yield thing
    elif isinstance(thing, dict):
        for value in thing.values():
            yield from _strings(value)
    elif isinstance(thing, list):
        for value in thing:
            yield from _strings(value)


def _rewritten(file: Path, traces: set[Any]) -> int:
    """Leave these traces out of a file, and lines that cannot be read; how many spans went."""
    kept, gone, torn = [], 0, False
    for line in file.read_bytes().splitlines():
        batch = _parsed(line)
        before = len(list(_spans(batch)))
        for scope in _scopes(batch):
            scope["spans"] = [span for span in scope.get("spans", []) if span.get("traceId") not in traces]
        left = len(list(_spans(batch)))
        gone += before - left
        torn |= not before
        if left:
            kept.append(_dumped(batch))
    if gone or torn:
        _replaced(file, kept)
    return gone


def _replaced(file: Path, lines: list[bytes]) -> None:
    """Put these lines in place of a file, which stays its owner's, whoever erases."""
    if not lines:
        file.unlink()
        return
    new, owner = file.with_suffix(_NEW), file.stat()
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            _given(descriptor, owner)
            stream.writelines(lines)
            stream.flush()
            os.fsync(stream.fileno())
        new.replace(file)
    finally:
        new.unlink(missing_ok=True)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Alone with the record, among threads and processes. What an interrupted erasure left behind is gone."""
    descriptor = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        _given(descriptor, directory.stat())
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        for left in directory.glob(f"*{_NEW}"):
            left.unlink()
        yield
    finally:
        os.close(descriptor)


def _given(descriptor: int, owner: os.stat_result) -> None:
    if os.geteuid() == 0 and os.fstat(descriptor).st_uid != owner.st_uid:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def _made(directory: Path) -> None:
    """A directory, and those above it, that did not exist: their owner's alone."""
    for place in [*reversed(directory.parents), directory]:
        place.mkdir(mode=0o700, exist_ok=True)


def _files(directory: Path) -> list[Path]:
    """Oldest first; what only has the name of one, such as a link, is none."""
    return sorted(file for file in directory.glob(_PATTERN) if _is_regular(file))


def _is_regular(file: Path) -> bool:
    try:
        return S_ISREG(file.lstat().st_mode)
    except FileNotFoundError:  # Another process forgets it right now.
        return False


def _own(files: list[Path]) -> list[Path]:
    """Those that nobody else put there."""
    return [file for file in files if file.stat().st_uid == os.geteuid()]


def _opened(file: Path) -> float:
    digits = file.stem.removeprefix("spans-")
    return int(digits) / 1000 if digits.isdecimal() else 0.0


def _line(spans: Sequence[ReadableSpan]) -> bytes:
    from opentelemetry.exporter.otlp.json.common.trace_encoder import encode_spans

    return _dumped(encode_spans(spans).to_dict())


def _dumped(batch: Any) -> bytes:
    return json.dumps(batch, separators=(",", ":")).encode() + b"\n"


def _parsed(line: bytes) -> dict[str, Any]:
    """The batch that a line holds; empty where it holds none."""
    try:
        batch = json.loads(line)
        whole = all(isinstance(span, dict) for span in _spans(batch))
    except (ValueError, TypeError, AttributeError):
        return {}
    return batch if whole else {}


def _scopes(batch: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for resource in batch.get("resourceSpans", []):
        yield from resource.get("scopeSpans", [])


def _spans(batch: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for scope in _scopes(batch):
        yield from scope.get("spans", [])
