"""What a system logs, warns of and prints is heard, whatever the test runner does; and goes on to where it went."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import playing
import pytest

from boundary_tests.test_export import test_nor_does_another_process_log_or_print_it as another_process
from memtrace.harness.record.events import Printed
from memtrace.harness.record.listening import listening
from memtrace.harness.record.recorder import Recorder
from memtrace.harness.session import make_suite
from memtrace.model import Outcome, Verdict

RULE = "export.no-payload-in-logs"
WORD = "swordfish"
_log = logging.getLogger("a.system")


def heard(tell: Callable[[], object]) -> str:
    recorder = Recorder()
    with listening(recorder):
        tell()
    [printed] = recorder.history().of(Printed)
    return printed.text


def raising() -> None:
    raise ValueError(WORD)


def in_a_thread() -> None:
    thread = threading.Thread(target=raising)
    thread.start()
    thread.join()


def raised_and_logged() -> None:
    try:
        raising()
    except ValueError:
        _log.exception("it failed")


def without_handlers() -> None:
    """As the logger of a library that shows its lines to nobody."""
    logger = logging.getLogger("a.quiet.system")
    logger.propagate = False
    logger.warning("%s", WORD)


TELLING: dict[str, Callable[[], Any]] = {
    "a line at INFO": lambda: _log.info("about %s", WORD),
    "the message of a logged error": raised_and_logged,
    "an extra field": lambda: _log.warning("about it", extra={"question": WORD}),
    "arguments that do not fit": lambda: _log.warning("about %d", WORD),
    "a logger with no handler": without_handlers,
    "print": lambda: print(WORD, file=sys.stderr),
    "the descriptor": lambda: os.write(2, WORD.encode()),
    "a program": lambda: subprocess.run(["sh", "-c", f"echo {WORD} >&2"], check=True),
}


@pytest.mark.parametrize("tell", TELLING.values(), ids=TELLING)
def test_is_heard(tell: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    assert WORD in heard(tell)


@pytest.mark.filterwarnings("always")
def test_a_warning_is_heard_though_the_runner_collects_it() -> None:
    with pytest.warns(UserWarning, match=WORD):
        assert WORD in heard(lambda: warnings.warn(WORD, stacklevel=1))


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_error_that_ends_a_thread_is_heard_though_the_runner_collects_it() -> None:
    assert WORD in heard(in_a_thread)


def test_what_is_at_debug_is_not() -> None:
    logging.getLogger("a.system").setLevel(logging.DEBUG)
    try:
        assert heard(lambda: _log.debug(WORD)) == ""
    finally:
        logging.getLogger("a.system").setLevel(logging.NOTSET)


def test_silence_is_recorded_too_and_everything_is_as_before() -> None:
    before = (logging.getLogger().level, logging.Logger.callHandlers, warnings.showwarning, vars(sys.stderr).keys())
    assert heard(lambda: None) == ""
    assert before == (
        logging.getLogger().level, logging.Logger.callHandlers, warnings.showwarning, vars(sys.stderr).keys(),
    )  # fmt: skip


def test_it_goes_on_to_where_it_went(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> None:
    assert heard(lambda: (os.write(2, b"one\n"), print("two", file=sys.stderr), _log.warning("three")))
    assert sorted(capfd.readouterr().err.split()) == ["one", "two"]
    assert "three" in caplog.text


def test_the_runner_may_leave_standard_error_alone() -> None:
    code = (
        "import sys; from memtrace.harness.record.recorder import Recorder\n"
        "from memtrace.harness.record.listening import listening\n"
        "from memtrace.harness.record.events import Printed; recorder = Recorder()\n"
        "with listening(recorder): print('swordfish', file=sys.stderr)\n"
        "print(*(each.text for each in recorder.history().of(Printed)))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (ended.stdout.split(), ended.stderr.split()) == ([WORD], [WORD])


@pytest.mark.usefixtures("serving")
class TestASecondProcess:
    def test_is_heard_and_told_apart(self) -> None:
        entries = playing.play(another_process, "memtrace.broken.logging_words:LogsWhatItStores")
        found = next(entry.finding for entry in entries if entry.finding.rule == RULE)
        assert found.verdict is Verdict.VIOLATED
        assert "in process-1" in found.reason

    def test_is_heard_though_it_was_killed(self) -> None:
        suite = make_suite("second_systems:PrintsThenDies")
        with suite, suite.stage("a script") as stage:
            stage.process().turn(stage.caller(), WORD, expect=Outcome.KILLED)
            [printed] = stage.history().of(Printed)
        assert (printed.process, printed.text) == ("process-1", WORD)
