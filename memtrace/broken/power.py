"""The kill matrix: whether the suite sees each fault of the gallery, and leaves the lawful memories alone.

Each memory is played all scripts of the boundary that its rule is of; ``python -m memtrace.broken.power`` does it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from memtrace.broken import Exhibit, gallery
from memtrace.errors import MemtraceError, UsageError
from memtrace.harness.rules import RULES, as_glob
from memtrace.harness.scripts import boundary_tests, play
from memtrace.harness.session import make_suite
from memtrace.harness.verdicts.ledger import EXIT_HELD, EXIT_INTERRUPTED, EXIT_MISUSE, EXIT_VIOLATED
from memtrace.model import Verdict

_PACKAGE: Final = "memtrace.broken."


@dataclass(frozen=True, slots=True)
class Result:
    """What was found on one memory: rule by rule, in how many of the scripts it was violated or left undecided."""

    exhibit: Exhibit
    scripts: int
    violated: Counter[str] = field(default_factory=Counter)
    undecided: Counter[str] = field(default_factory=Counter)

    @property
    def right(self) -> bool:
        """A broken memory's own rule was violated; of a lawful one none was, and none was left undecided."""
        if self.exhibit.breaks:
            return self.violated[self.exhibit.breaks] > 0
        return not self.violated and not self.undecided

    def line(self, width: int) -> str:
        """A row of the table."""
        name = f"{self.exhibit.name.removeprefix(_PACKAGE):<{width}}"
        if not self.exhibit.breaks:
            accused = ", ".join(sorted({*self.violated, *self.undecided}))
            return (
                f"{name}  lawful    {f'ACCUSED of {accused}' if accused else 'not accused'} in {self.scripts} scripts"
            )
        others = ", ".join(sorted(self.violated.keys() - {self.exhibit.breaks}))
        how = f"in {self.violated[self.exhibit.breaks]} of {self.scripts} scripts{f'; also {others}' if others else ''}"
        return f"{name}  {'caught  ' if self.right else 'NOT SEEN'}  {self.exhibit.breaks} {how}"

    def as_json(self) -> dict[str, Any]:
        """The same for a machine."""
        return {
            "memory": self.exhibit.name, "breaks": self.exhibit.breaks, "lawful": self.exhibit.lawful,
            "report": self.exhibit.report, "what": self.exhibit.what, "right": self.right, "scripts": self.scripts,
            "violated": dict(self.violated), "inconclusive": dict(self.undecided),
        }  # fmt: skip


def judged(exhibit: Exhibit) -> Result:
    """Play the scripts of a memory's boundary on it; of a lawful one those of every rule it might be accused of."""
    boundaries = {rule.partition(".")[0] for rule in (exhibit.breaks, *exhibit.rules) if rule}
    violated: Counter[str] = Counter()
    undecided: Counter[str] = Counter()
    tests = [test for test in boundary_tests() if test.boundaries & boundaries]
    timed = any(RULES[rule].timed for rule in (exhibit.breaks, *exhibit.rules) if rule)
    with make_suite(exhibit.name, timed=timed) as suite:
        suite.probe()
        for test in tests:
            for finding in (entry.finding for entry in play(suite, test)):
                violated[finding.rule] += finding.verdict is Verdict.VIOLATED
                undecided[finding.rule] += finding.verdict is Verdict.INCONCLUSIVE
    return Result(exhibit, len(tests), +violated, +undecided)


def chosen(globs: Sequence[str]) -> list[Exhibit]:
    """The memories that break, or seem to break, a rule that matches; all of them without a glob.

    Raises:
        UsageError: there is none.
    """
    wanted = [as_glob(glob) for glob in globs] or ["*"]
    found = [
        exhibit
        for exhibit in gallery()
        if any(fnmatchcase(rule, glob) for rule in (exhibit.breaks, *exhibit.rules) if rule for glob in wanted)
    ]
    if not found:
        raise UsageError(f"no memory of the gallery breaks {', '.join(globs)}")
    return found


def results(exhibits: Sequence[Exhibit]) -> Iterator[Result]:
    """What was found on each, in order; as many at a time as there are processors."""
    workers = min(len(exhibits), os.cpu_count() or 1)
    # An interrupt is for this process to answer; a worker ends with what it is at.
    pool = ProcessPoolExecutor(
        workers, get_context("spawn"), initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN)
    )
    try:
        yield from pool.map(judged, exhibits)
    finally:
        pool.shutdown(cancel_futures=True)


def summary(found: Iterable[Result]) -> str:
    """The last line."""
    results = list(found)
    broken = [result.right for result in results if result.exhibit.breaks]
    lawful = [result.right for result in results if not result.exhibit.breaks]
    return (
        f"{sum(broken)} of {len(broken)} broken memories caught by their rule, "
        f"{len(lawful) - sum(lawful)} of {len(lawful)} lawful ones accused"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the matrix; 1 where a memory was judged wrongly."""
    parser = argparse.ArgumentParser(prog="memtrace power", description="Memories that are wrong on purpose.")
    parser.add_argument("rules", nargs="*", metavar="GLOB")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(arguments)
    try:
        return _run(chosen(options.rules), options.json)
    except MemtraceError as error:
        print(f"memtrace: {error}", file=sys.stderr)
        return EXIT_MISUSE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _run(exhibits: Sequence[Exhibit], path: Path | None) -> int:
    if path is not None:
        _write(path, [])
    found = list(_shown(exhibits))
    print(summary(found))
    if path is not None:
        _write(path, found)
    return EXIT_HELD if all(result.right for result in found) else EXIT_VIOLATED


def _shown(exhibits: Sequence[Exhibit]) -> Iterator[Result]:
    """Results, each printed as a row when it is there; on a terminal, with how far it is."""
    width = max(len(exhibit.name.removeprefix(_PACKAGE)) for exhibit in exhibits)
    _progress(1, len(exhibits))
    for number, result in enumerate(results(exhibits), 1):
        print(result.line(width), flush=True)
        _progress(number + 1, len(exhibits))
        yield result


def _progress(number: int, of: int) -> None:
    if number <= of and sys.stderr.isatty():
        print(f"{number} of {of}", end="\r", file=sys.stderr, flush=True)


def _write(path: Path, found: Sequence[Result]) -> None:
    body = {"summary": summary(found), "memories": [result.as_json() for result in found]}
    try:
        path.write_text(json.dumps(body, indent=1, ensure_ascii=False), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--json {path}: {error.strerror}") from None


if __name__ == "__main__":
    sys.exit(main())
