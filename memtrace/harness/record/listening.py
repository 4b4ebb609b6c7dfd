"""What a system tells beside its answers: log records, warnings, unhandled errors, what it writes to standard error.

A test runner keeps most of that from the terminal, so it is heard where it comes from: before any log handler, and at
the file descriptor. Everything goes on to where it went before.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final

from memtrace.harness.record.events import Printed
from memtrace.harness.record.recorder import Recorder

_STDERR: Final = 2
_STANDARD: Final = frozenset(vars(logging.LogRecord("", 0, "", 0, "", (), None))) | {"message", "asctime"}
_ONLY_HEARD: Final = re.compile(rb"\x1e[^\x1f]*\x1f")
"""How another process marks a log record that it heard."""
_outer: list[int] = []
"""Where standard error went before it was listened to."""


@contextmanager
def listening(recorder: Recorder) -> Iterator[None]:
    """Record what this process logs and prints meanwhile: at the end one `Printed`, also where that is nothing.

    Nothing is recorded before the end: a log record may be made in the middle of recording, when garbage is collected.
    """
    heard: list[str] = []
    with ExitStack() as stack:
        written = stack.enter_context(_standard_error(heard.append))
        stack.enter_context(hearing_logs(heard.append))
        for owner, name, text in _SHOWN:
            stack.enter_context(_called(owner, name, lambda *given, text=text: heard.append(text(*given))))
        try:
            yield
        finally:
            written.seek(0)
            recorder.add(Printed, text="".join(heard) + written.read().decode("utf-8", "replace"))


@contextmanager
def hearing_logs(hear: Callable[[str], object]) -> Iterator[None]:
    """Hear each log record from INFO up, whatever becomes of it. DEBUG is for who asks for it."""

    def called(_logger: logging.Logger, record: logging.LogRecord) -> None:
        if record.levelno >= logging.INFO:
            hear(f"{record.levelname} {record.name}: {_text(record)}\n")

    root = logging.getLogger()
    level = root.level
    root.setLevel(min(level or logging.INFO, logging.INFO))
    try:
        with _called(logging.Logger, "callHandlers", called):
            yield
    finally:
        root.setLevel(level)


def silence_logs() -> None:
    """Log records that nobody handles are heard, and written nowhere: here and in the processes of scripts."""
    logging.getLogger().addHandler(logging.NullHandler())


def logs_are_silenced() -> bool:
    """Whether `silence_logs` was called."""
    return any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger().handlers)


class ElsewhereErrors:
    """The standard error of another process: a file of ours, so that it can be read however the process ended."""

    def __init__(self) -> None:
        self._descriptor, self.path = tempfile.mkstemp(prefix="memtrace-stderr-")

    def read(self) -> str:
        """What came; what was written, and not only heard, is shown here too."""
        with os.fdopen(self._descriptor, "rb") as file:
            data = file.read()
        Path(self.path).unlink(missing_ok=True)
        _show(_ONLY_HEARD.sub(b"", data))
        return data.decode("utf-8", "replace")


@contextmanager
def telling(path: str) -> Iterator[None]:
    """In another process: log records and standard error go to the end of that file, of forks of the process too.

    The file's name goes at once: nothing is left of it, even where this process's parent is killed.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    Path(path).unlink()
    os.dup2(descriptor, _STDERR)
    os.close(descriptor)
    with hearing_logs(lambda line: os.write(_STDERR, b"\x1e%b\x1f" % line.encode("utf-8", "backslashreplace"))):
        yield


def outer_standard_error() -> int | None:
    """For a process that outlives a script: standard error as it was before. ``None``: as it is."""
    return _outer[0] if _outer else None


def _text(record: logging.LogRecord) -> str:
    """All that a handler may write of a record: the message, the error with its traceback, the extra fields."""
    try:
        parts = [record.getMessage()]
    except (TypeError, ValueError, LookupError):
        parts = [f"{record.msg!r} {record.args!r}"]
    if record.exc_info:
        parts += traceback.format_exception(*record.exc_info)
    parts += [f"{name}={value!r}" for name, value in vars(record).items() if name not in _STANDARD]
    return "\n".join(parts)


def _warned(message: Warning | str, category: type[Warning], *_where: object) -> str:
    return f"{category.__name__}: {message}\n"


def _unhandled(given: Any) -> str:
    return "".join(traceback.format_exception(given.exc_type, given.exc_value, given.exc_traceback))


_SHOWN: Final[tuple[tuple[Any, str, Callable[..., str]], ...]] = (
    (warnings, "showwarning", _warned),
    (threading, "excepthook", _unhandled),
    (sys, "unraisablehook", _unhandled),
)
"""What Python writes to standard error, unless a test runner takes it first."""


@contextmanager
def _standard_error(hear: Callable[[str], object]) -> Iterator[BinaryIO]:
    """A file that gets what is written to the descriptor; what goes to a `sys.stderr` elsewhere is heard."""
    before = os.dup(_STDERR)
    _outer.append(before)
    with tempfile.TemporaryFile() as file, ExitStack() as stack:
        if not _is_descriptor(sys.stderr):
            stack.enter_context(_called(sys.stderr, "write", hear))
        os.dup2(file.fileno(), _STDERR)
        try:
            yield file
        finally:
            sys.stderr.flush()
            os.dup2(before, _STDERR)
            _outer.remove(before)
            os.close(before)
            file.seek(0)
            _show(file.read())


def _is_descriptor(stream: Any) -> bool:
    with suppress(AttributeError, OSError, ValueError):
        return bool(stream.fileno() == _STDERR)
    return False


def _show(data: bytes) -> None:
    if data:
        with os.fdopen(os.dup(_outer[-1] if _outer else _STDERR), "wb") as shown:
            shown.write(data)


@contextmanager
def _called(owner: Any, name: str, hear: Callable[..., object]) -> Iterator[None]:
    """Whoever calls a function is heard first."""
    original = getattr(owner, name)
    own = name in vars(owner)

    def function(*given: Any, **options: Any) -> Any:
        hear(*given, **options)
        return original(*given, **options)

    setattr(owner, name, function)
    try:
        yield
    finally:
        if own:
            setattr(owner, name, original)
        else:
            delattr(owner, name)
