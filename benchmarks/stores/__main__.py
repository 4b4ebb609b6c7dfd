"""``python -m benchmarks.stores --out DIR``: what reads and writes cost on each backend, and the ratios that must hold.

The stores, the bare drivers and, where it is installed, the published SDK take turns in one run; times are those on the
wall, since most of them are spent waiting for a server. The full run takes about four minutes and, for a while, 6 GB.
``python -m benchmarks.plot DIR`` draws what it found.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryFile

from benchmarks.command import ended, require_installed
from memtrace.errors import UsageError

_BACKENDS = ("sqlite", "postgres", "redis")


def main() -> None:
    """Run, write the files, print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stores", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backend", action="append", choices=_BACKENDS, help="one of them; may be repeated")
    parser.add_argument(
        "--quick", action="store_true", help="few facts and few calls: that it runs, not what it takes; judges nothing"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the files go")
    given = parser.parse_args()
    require_installed(httpx="suite", numpy="suite", usearch="suite")
    _require_writable(given.out)
    from .report import table, write
    from .run import QUICK, Plan, progress, run
    from .targets import judged

    results = run(given.backend or _BACKENDS, QUICK if given.quick else Plan(), tell=progress)
    ratios = list(judged(results.samples))
    write(results, ratios, given.out)
    sys.stdout.writelines(f"{line}\n" for line in table(results, ratios))


def _require_writable(folder: Path) -> None:
    """Make the folder; what a run took minutes to find must not be lost."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise UsageError(
            f"--out {folder} cannot be written to ({error.strerror}): name a folder that you may write to"
        ) from error


if __name__ == "__main__":
    sys.exit(ended("benchmarks.stores", main))
