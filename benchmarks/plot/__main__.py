"""``python -m benchmarks.plot DIR``: draws what ``python -m benchmarks.stores --out DIR`` found, as PNG and SVG."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from benchmarks.command import ended, require_installed
from memtrace.errors import UsageError


def main() -> None:
    """Draw, and tell the files."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.plot", description=__doc__)
    parser.add_argument("folder", type=Path, metavar="DIR", help="what --out named")
    folder = parser.parse_args().folder
    require_installed(numpy="plots", matplotlib="plots")
    from .figures import draw, read

    found = read(folder)
    try:
        made = draw(found, folder)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written to ({error.strerror}): copy latency.json elsewhere") from error
    sys.stdout.writelines(f"{path}\n" for path in made)


if __name__ == "__main__":
    sys.exit(ended("benchmarks.plot", main))
