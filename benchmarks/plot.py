"""The latency plots: ``python -m benchmarks.plot DIR`` draws ``DIR/latency.png`` and ``.svg`` from ``latency.json``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter, NullFormatter

NAMES: Final = {"sqlite": "SQLite", "postgres": "Postgres", "redis": "Redis / Valkey"}
LINES: Final = {
    "store": ("memtrace", "#0b6e63", "-", "o"),
    "bare": ("the same statement, bare", "#555555", "--", "s"),
    "fastaiagent": ("fastaiagent", "#b3541e", "-.", "^"),
}
TRIP: Final = "#888888"
STYLE: Final = {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "memtrace"}


def main(arguments: list[str] | None = None) -> int:
    """Draw."""
    [folder] = map(Path, arguments if arguments is not None else sys.argv[1:])
    found = json.loads((folder / "latency.json").read_text())
    draw(found, folder)
    print(f"{folder / 'latency.png'}, {folder / 'latency.svg'}")
    return 0


def draw(found: dict[str, Any], folder: Path) -> None:
    """One panel a backend: medians with a band from p5 to p95, both axes logarithmic."""
    mpl.use("Agg")
    with plt.rc_context(
        {"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "memtrace"}
    ):
        backends = [name for name in NAMES if any(one["backend"] == name for one in found["figures"])]
        figure, axes = plt.subplots(1, len(backends), figsize=(3.6 * len(backends), 4.1), sharey=True, squeeze=False)
        for panel, backend in zip(axes[0], backends, strict=True):
            _panel(panel, backend, [one for one in found["figures"] if one["backend"] == backend])
        axes[0][0].set_ylabel("one read of the newest 50, µs")
        shown = [each for panel in axes[0] for each in zip(*panel.get_legend_handles_labels(), strict=True)]
        handles = {label: handle for handle, label in shown}
        figure.legend(handles.values(), handles.keys(), loc="lower center", ncols=4, frameon=False, fontsize=9.5)
        about = found["about"]
        about = f"{about['size']} characters; medians, p5 to p95 shaded; {about['cores']} cores, {about['date'][:10]}"
        figure.suptitle(f"Facts of {about}", fontsize=10.5, x=0.01, ha="left")
        figure.tight_layout(rect=(0, 0.07, 1, 1))
        figure.savefig(folder / "latency.png", dpi=130)
        figure.savefig(folder / "latency.svg", metadata={"Date": None})
        plt.close(figure)


def _panel(panel: Any, backend: str, figures: list[dict[str, Any]]) -> None:
    for who, (label, colour, style, marker) in LINES.items():
        line = sorted((one for one in figures if one["who"] == who), key=lambda one: one["count"])
        if line:
            counts, low, median, high = ([one[key] for one in line] for key in ("count", "p5", "median", "p95"))
            panel.plot(counts, median, style, color=colour, marker=marker, ms=4.5, label=label)
            panel.fill_between(counts, low, high, color=colour, alpha=0.15, lw=0)
    for trip in (one for one in figures if one["who"] == "trip"):
        panel.axhline(trip["median"], color=TRIP, linestyle=":", label="one round trip")
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_title(NAMES[backend], fontsize=11)
    panel.set_xlabel("facts the user has")
    ticks = sorted({one["count"] for one in figures if one["count"]})
    panel.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    panel.grid(visible=True, axis="y", color="#dddddd", lw=0.6)


if __name__ == "__main__":
    sys.exit(main())
