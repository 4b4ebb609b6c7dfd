"""What a run found, as files and as a table."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from .measure import percentiles
from .run import Results
from .targets import Judged

COLUMNS: Final = ("backend", "side", "operation", "count", "size", "p5_us", "p50_us", "p95_us", "calls")


def write(results: Results, ratios: Sequence[Judged], folder: Path) -> None:
    """Write ``latency.csv``, a line a series, and ``latency.json``, which holds all that is known of the run."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = list(_rows(results))
    with (folder / "latency.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    whole = {
        "machine": results.machine,
        "plan": asdict(results.plan),
        "left_out": results.left_out,
        "series": rows,
        "ratios": [asdict(each) | (_judgement(each) if results.plan.judges else {}) for each in ratios],
    }
    (folder / "latency.json").write_text(json.dumps(whole, indent=1) + "\n")


def table(results: Results, ratios: Sequence[Judged]) -> Iterator[str]:
    """The lines of the table for a person."""
    about = results.machine
    servers = ", ".join(each["server"] for each in about["backends"].values())
    yield f"{about['date']}, {about['processor']}, {about['cores']} cores, Python {about['python']}, {servers}"
    judges = results.plan.judges
    heading = f"{'newest 50':<28}{'backend':<10}{'facts':>8}{'characters':>12}{'ratio':>8}{'95 % interval':>18}"
    yield f"{heading}  target" if judges else heading
    for each in ratios:
        interval = f"{each.ratio.low:.2f} to {each.ratio.high:.2f}"
        measured = f"{each.count:>8,}{each.size:>12,}{each.ratio.value:>8.2f}{interval:>18}"
        line = f"{each.name:<28}{each.backend:<10}{measured}"
        yield f"{line}  {'>=' if each.at_least else '<='} {each.target:g} {verdict(each)}" if judges else line
    if not judges:
        yield "not judged: so few calls show that it runs, not what it takes; without --quick each ratio has its target"
    yield from (f"left out: {each}" for each in results.left_out)


def verdict(each: Judged) -> str:
    """``met`` or ``missed``, and whether the interval leaves that open."""
    return f"{'met' if each.is_met else 'missed'}{'' if each.is_certain else ', the interval reaches across'}"


def _judgement(each: Judged) -> dict[str, bool]:
    return {"met": each.is_met, "certain": each.is_certain}


def _rows(results: Results) -> Iterator[dict[str, Any]]:
    for series, samples in results.samples.items():
        low, middle, high = (round(each, 2) for each in percentiles(samples))
        yield asdict(series) | {"p5_us": low, "p50_us": middle, "p95_us": high, "calls": samples.size}
