"""``python -m benchmarks.stores --out DIR``: what reads and writes cost on each backend, and the ratios that must hold.

The stores, the bare drivers and, where it is installed, the published SDK take turns in one run; times are those on the
wall, since most of them are spent waiting for a server. The full run takes about four minutes and, for a while, 6 GB.
``python -m benchmarks.plot DIR`` draws what it found.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from memtrace.harness.services import Unavailable

from .report import table, write
from .run import BACKENDS, QUICK, Plan, progress, run
from .targets import judged


def main() -> int:
    """Run, write the files, print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stores", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--backend", action="append", choices=BACKENDS, help="one of them; may be repeated")
    parser.add_argument("--quick", action="store_true", help="few facts and few calls: that it runs, not what it takes")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the files go")
    given = parser.parse_args()
    try:
        results = run(given.backend or list(BACKENDS), QUICK if given.quick else Plan(), tell=progress)
    except Unavailable as missing:
        sys.stderr.write(f"{missing}\n")
        return 1
    ratios = list(judged(results.samples))
    write(results, ratios, given.out)
    sys.stdout.writelines(f"{line}\n" for line in table(results, ratios))
    return 0


if __name__ == "__main__":
    sys.exit(main())
