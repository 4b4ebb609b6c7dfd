"""The pytest plugin: runs boundary tests on a system, keeps the ledger, and sets the exit status.

It stays out of the way of other tests: without a test marked with a rule it does nothing, and imports nothing heavy.
"""

from __future__ import annotations

import argparse
import faulthandler
import inspect
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from memtrace.harness.session import Script, Suite
    from memtrace.harness.stage import Stage
    from memtrace.harness.verdicts.ledger import Entry, Ledger

_SUITES: pytest.StashKey[dict[str, Suite]] = pytest.StashKey()
_STORE = "memtrace_store"
_PROPERTY = "memtrace"
_SYSTEM = "memtrace-system"
_LEFT = "memtrace-left"
_REPORTER = "memtrace-reporter"
_STDERR = 2
_NO_COUNT = -2
"""How terse pytest must be told to be so that it does not say that no tests ran, where the reason follows."""
_WHOLE_SUMMARY = 2
"""How verbose pytest must be told to be so that its summary holds whole failures everywhere."""
_LAST_SECONDS = 2
"""How long a process may take to end by itself in which a call of the system's never ended."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options; ``--memory`` has an ini value too, and wins over it."""
    group = parser.getgroup("memtrace", "boundary tests of an agent's memory")
    group.addoption("--memtrace-check", action="store_true", help=argparse.SUPPRESS)
    group.addoption("--memory", help="the system under test: a known name, or package.module:factory")
    group.addoption(
        "--store", metavar="STORES", help="what scripts run on, with commas between: sqlite, postgres, redis (a server"
        " is started), or the URL of a store of yours (nothing destructive runs on it unless asked for)",
    )  # fmt: skip
    group.addoption(
        "--rule", action="append", default=[], metavar="GLOB", help="only scripts of rules that match"
        " (invariants that these scripts bear on are judged too)",
    )  # fmt: skip
    group.addoption("--destructive", action="store_true", help="let tests damage the store given with --store")
    group.addoption("--timed", action="store_true", help="judge the rules that time reads, too")
    group.addoption("--scripts", type=_count, default=20, metavar="N", help="random scripts to play (default: 20)")
    group.addoption("--scripts-seed", type=int, default=0, metavar="N", help="draw other random scripts (default: 0)")
    group.addoption("--script", metavar="CODE", help="play one random script again, as a report names it")
    group.addoption("--full-evidence", action="store_true", help="show whole prompts, not 80 characters around a word")
    group.addoption("--history", metavar="DIR", help="keep what each script recorded, for memtrace show")
    group.addoption("--ledger-json", metavar="FILE", help="write the ledger as JSON")
    group.addoption("--ledger-markdown", metavar="FILE", help="write the ledger as Markdown, for a job summary")
    parser.addini("memtrace_memory", "the system under test, unless --memory names one")
    parser.addini("memtrace_known", "rules known to be broken, one 'rule: issue URL' a line", type="linelist")


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of scripts")
    return int(text)


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark, and the reporter where there is a terminal to report to."""
    config.addinivalue_line("markers", "rule(*ids, needs, options): a script of these boundary rules")
    config.addinivalue_line("markers", "invariants: a test that plays scripts of its own, judged by every invariant")
    if words := config.getoption("store"):
        try:
            _store_names(words)
        except pytest.UsageError as error:
            raise _misuse(config, str(error)) from None
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Reporter(config), _REPORTER)


@pytest.hookimpl(trylast=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Each boundary test runs once for each of several stores."""
    words = metafunc.config.getoption("store")
    if _STORE in metafunc.fixturenames and words:
        names = _store_names(words)
        if len(names) > 1:
            metafunc.parametrize(_STORE, names, indirect=True, scope="session")


def _store_names(words: str) -> list[str]:
    from memtrace.errors import UsageError
    from memtrace.harness.running.tested_store import stores_named

    try:
        return [store.name for store in stores_named(words)]
    except UsageError as error:
        raise pytest.UsageError(str(error)) from None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests whose rule was asked for; check the system before the first one runs."""
    if globs := config.getoption("rule"):
        gone = [item for item in items if not any(fnmatchcase(rule, g) for rule in _rules(item) for g in globs)]
        config.hook.pytest_deselected(items=gone)
        items[:] = [item for item in items if item not in gone]
    judged = [item for item in items if _judged(item)]
    if judged and not config.getoption("collectonly"):
        _open_suites(config, {_store_of(item) for item in judged})


def _store_of(item: pytest.Item) -> str:
    """The store a test runs on, where there are several; otherwise nothing."""
    return (
        str(item.callspec.params.get(_STORE, ""))
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
        else ""
    )


def _open_suites(config: pytest.Config, chosen: set[str]) -> None:
    from memtrace.errors import MemtraceError
    from memtrace.harness.record.keeping import prepare
    from memtrace.harness.running.interpreters import Interpreters
    from memtrace.harness.running.tested_store import stores_named
    from memtrace.harness.session import make_suite

    suites = config.stash[_SUITES] = {}
    try:
        _try_to_write(config)
        if directory := config.getoption("history"):
            prepare(Path(directory))
        words = config.getoption("store") or ""
        stores, interpreters = stores_named(words), Interpreters()
        first = True
        for store in stores:
            if (name := store.name if len(stores) > 1 else "") not in chosen:
                continue
            suite = make_suite(
                config.getoption("memory") or str(config.getini("memtrace_memory")),
                store=store,
                stores=",".join(other.word for other in stores),
                destructive=config.getoption("destructive"),
                timed=config.getoption("timed"),
                known=_known(config),
                interpreters=interpreters,
            )
            suites[name] = suite.__enter__()
            config.add_cleanup(partial(_close_suite, suite))
            if not store.missing:
                suite.probe()
                suite.find_home(first=first)
                first = False
        _try_to_read(config.getoption("script"))
    except MemtraceError as error:
        config.option.verbose = min(config.option.verbose, _NO_COUNT)
        raise _misuse(config, str(error)) from None


def _misuse(config: pytest.Config, line: str) -> pytest.UsageError:
    """What ends a session before it begins; where `memtrace check` runs it, told as that tells everything."""
    if not config.getoption("memtrace_check"):
        return pytest.UsageError(line)
    if reporter := config.pluginmanager.get_plugin("terminalreporter"):
        config.pluginmanager.unregister(reporter)  # it has nothing to report, in an empty line
    print(f"memtrace: {line}", file=sys.stderr)
    return pytest.UsageError()


def _close_suite(suite: Suite) -> None:
    suite.__exit__()
    if suite.hanging:
        # A thread of its own may keep this process for ever.
        faulthandler.dump_traceback_later(_LAST_SECONDS, exit=True, file=_STDERR)


def _try_to_read(code: str | None) -> None:
    """Find out before anything runs that a random script was not copied whole."""
    if code:
        from memtrace.harness.random_scripts import decode

        decode(code)


def _try_to_write(config: pytest.Config) -> None:
    """Find out before anything runs, rather than when all has run, that a ledger cannot be written."""
    from memtrace.errors import UsageError

    for option in ("ledger_json", "ledger_markdown"):
        if name := config.getoption(option):
            try:
                Path(name).parent.mkdir(parents=True, exist_ok=True)
                Path(name).open("a").close()
            except OSError as error:
                word = option.removeprefix("ledger_") if config.getoption("memtrace_check") else option
                raise UsageError(f"--{word.replace('_', '-')} {name}: {error.strerror}") from None


def _known(config: pytest.Config) -> dict[str, str]:
    pairs = (line.partition(":") for line in config.getini("memtrace_known"))
    return {rule.strip(): url.strip() for rule, _, url in pairs}


def _rules(item: pytest.Item) -> tuple[str, ...]:
    marker = item.get_closest_marker("rule")
    return marker.args if marker else ()


def _judged(item: pytest.Item) -> bool:
    return bool(_rules(item)) or item.get_closest_marker("invariants") is not None


@pytest.fixture(scope="session")
def memtrace_store(request: pytest.FixtureRequest) -> str:
    """The store a test runs on, where there are several."""
    return str(getattr(request, "param", ""))


@pytest.fixture(scope="session")
def memtrace_suite(request: pytest.FixtureRequest, memtrace_store: str) -> Suite:
    """What all scripts on a store share, for tests marked ``invariants``, which make stages of their own."""
    suite = request.config.stash[_SUITES][memtrace_store]
    if suite.store.missing:
        pytest.skip(suite.store.missing)
    return suite


@pytest.fixture
def memtrace_findings(request: pytest.FixtureRequest, memtrace_suite: Suite) -> Callable[[Sequence[Entry]], None]:
    """Call it with what the scripts of such a test said of the invariants."""
    return lambda entries: _report(request.node, memtrace_suite, entries)


def _report(item: pytest.Item, suite: Suite, entries: Sequence[Entry]) -> None:
    """Findings travel with the test's report, also from an xdist worker."""
    from memtrace.harness.verdicts.left import dump_left
    from memtrace.harness.verdicts.reporting import dump_entries

    item.user_properties.append((_PROPERTY, dump_entries(entries)))
    item.user_properties.append((_LEFT, dump_left(suite.take_left())))
    notes = [note for note in (suite.note, suite.elsewhere) if note]
    item.user_properties.append((_SYSTEM, "\n".join([suite.memory, suite.version, *notes])))


@pytest.fixture
def stage(request: pytest.FixtureRequest, memtrace_store: str) -> Iterator[Stage]:
    """What a script holds: callers, planted words, turns, holds, processes."""
    marker = request.node.get_closest_marker("rule")
    if marker is None:
        raise pytest.UsageError("the fixture 'stage' is for tests marked with @rule(...)")
    suite = request.config.stash[_SUITES][memtrace_store]
    if suite.store.missing:
        _report(request.node, suite, suite.unplayed(_script(request.node, suite)))
        pytest.skip(suite.store.missing)
    with suite.stage(request.node.nodeid, marker.kwargs.get("options")) as made:
        yield made


def _script(item: pytest.Item, suite: Suite) -> Script:
    from memtrace.harness.session import Script

    marker, module = item.get_closest_marker("rule"), item.getparent(pytest.Module)
    assert marker is not None and module is not None  # noqa: S101, PT018  only scripts get here
    rerun = suite.rerun(module.obj.__name__, item.name)
    return Script(marker.args, item.nodeid, rerun, tuple(marker.kwargs.get("needs", ())))


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Play a script, then judge its history; a test fails only for its own rules."""
    marker = pyfuncitem.get_closest_marker("rule")
    if marker is None or "stage" not in pyfuncitem.funcargs:
        return None
    from memtrace.harness.record.keeping import keep
    from memtrace.harness.verdicts.reporting import conclude

    suite = pyfuncitem.config.stash[_SUITES][str(pyfuncitem.funcargs[_STORE])]
    script = _script(pyfuncitem, suite)
    arguments: dict[str, Any] = {
        name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters
    }
    full = pyfuncitem.config.getoption("full_evidence")
    entries = suite.play(arguments["stage"], script, lambda: pyfuncitem.obj(**arguments), full=full)
    if directory := pyfuncitem.config.getoption("history"):
        keep(arguments["stage"].history(), Path(directory), pyfuncitem.nodeid)
    _report(pyfuncitem, suite, entries)
    conclude(entries)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A violation is reported in its own words, without a traceback through memtrace."""
    report = yield
    if report.failed and _rules(item) and _PROPERTY in dict(item.user_properties):
        crash = getattr(report.longrepr, "reprcrash", None)
        report.longrepr = crash.message.partition(": ")[2] if crash is not None else report.longrepr
    return report


class _Reporter:
    """Keeps the ledger of a session, reports it, and sets the exit status."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._ledger: Ledger | None = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take a script's findings into the ledger; under xdist they come with the worker's report."""
        judged = report.when == "call" or (report.when == "setup" and report.skipped)
        texts = [value for name, value in report.user_properties if name == _PROPERTY] if judged else []
        if not texts:
            return
        from memtrace.harness.verdicts.ledger import Ledger
        from memtrace.harness.verdicts.left import load_left
        from memtrace.harness.verdicts.reporting import load_entries

        system, version, *notes = str(dict(report.user_properties)[_SYSTEM]).split("\n")
        if self._ledger is None:
            self._ledger = Ledger(system, version)
            if self._config.option.verbose < _WHOLE_SUMMARY:
                # On a build server pytest's summary would tell again all that each failure has told.
                self._config.option.force_short_summary = True
        self._ledger.notes.update(dict.fromkeys(notes))
        for text in texts:
            self._ledger.add(load_entries(str(text)))
        for text in (value for name, value in report.user_properties if name == _LEFT):
            self._ledger.left += load_left(str(text))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
        """Print the ledger, or that there is none."""
        if self._ledger is not None:
            from memtrace.harness.verdicts.reporting import table

            terminalreporter.write_sep("=", "memory boundaries")
            for line in table(self._ledger):
                terminalreporter.write_line(line)
        elif exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and (globs := self._config.getoption("rule")):
            terminalreporter.write_line(f"no boundary test is a script of {', '.join(globs)}: nothing was judged")

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Set the exit status, and write the ledger where it was asked for."""
        if self._ledger is None:
            return
        from memtrace.harness.verdicts.reporting import markdown

        now = datetime.now(UTC).isoformat(timespec="seconds")
        facts = {"date": now, "seed": self._config.getoption("scripts_seed")}
        if path := self._config.getoption("ledger_json"):
            Path(path).write_text(self._ledger.as_json(facts), encoding="utf-8")
        if path := self._config.getoption("ledger_markdown"):
            Path(path).write_text(markdown(self._ledger), encoding="utf-8")
        if exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
            session.exitstatus = self._ledger.exit_status(others_failed=self._others_failed(session))

    def _others_failed(self, session: pytest.Session) -> bool:
        """Whether a test failed for another reason than what the ledger says of a rule."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        failed = reporter.stats.get("failed", []) + reporter.stats.get("error", []) if reporter else []
        return any(not _told(report) for report in failed) and session.testsfailed > 0

    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """The count is the last line of every report."""
        reporter = config.pluginmanager.get_plugin("terminalreporter")
        if self._ledger is not None and reporter is not None:
            reporter.write_line(self._ledger.summary())


def _told(report: pytest.TestReport) -> bool:
    """Whether what its script found of a rule is why a test failed."""
    from memtrace.harness.verdicts.reporting import load_entries
    from memtrace.model import Verdict

    entries = load_entries(str(dict(report.user_properties).get(_PROPERTY, "[]")))
    against = {(entry.own, entry.finding.verdict) for entry in entries}
    return not against.isdisjoint({(True, Verdict.VIOLATED), (False, Verdict.VIOLATED), (True, Verdict.INCONCLUSIVE)})
