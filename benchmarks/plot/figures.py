"""The figures of a run, as PNG and SVG.

``latency`` is the read of a user's newest 50 facts: a column a backend, a row a length of the facts, with the bare
statement, the round trip and the published SDK beside it. ``backends`` is the same read, a line a backend.
``operations`` is search, add, update and forget. Medians, with the band from the 5th to the 95th percentile.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl
import numpy as np

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

from memtrace.errors import UsageError

_TITLES: Final = {"sqlite": "SQLite", "postgres": "Postgres", "redis": "Redis / Valkey"}
_STYLES: Final = {
    "memtrace": {"color": "#0b4f8a", "linestyle": "-", "marker": "o", "linewidth": 2.2},
    "bare statement": {"color": "#4d4d4d", "linestyle": "--", "marker": "s", "linewidth": 1.3},
    "round trip": {"color": "#4d4d4d", "linestyle": ":", "marker": "", "linewidth": 1.6},
    "fastaiagent": {"color": "#b3541e", "linestyle": "-.", "marker": "^", "linewidth": 1.6},
}
_BACKENDS: Final = {
    "sqlite": {"color": "#0b4f8a", "linestyle": "-", "marker": "o"},
    "postgres": {"color": "#5b7f3a", "linestyle": "--", "marker": "s"},
    "redis": {"color": "#b3541e", "linestyle": "-.", "marker": "^"},
}
_DPI: Final = 110
_LINE_HEIGHT: Final = 13.0 / 72 * _DPI
"""Of a label, in pixels."""
_BESIDE: Final = 10.0
"""How far from its line's end a label begins, in pixels."""
_TITLE_SIZE: Final = 12
_LETTER: Final = 0.6 * _TITLE_SIZE / 72
"""How wide one of a title is, on average and no less, in inches."""
SETTINGS: Final[Any] = {
    "figure.dpi": _DPI,
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "memtrace",
    "svg.fonttype": "none",
    "lines.markersize": 4.5,
}
_READ: Final = "newest 50"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a plot: facts stored, and microseconds at each."""

    label: str
    style: dict[str, Any]
    counts: Sequence[int]
    low: Sequence[float]
    middle: Sequence[float]
    high: Sequence[float]


class Found:
    """The series of a run, to be asked for."""

    def __init__(self, whole: dict[str, Any]) -> None:
        self.machine: dict[str, Any] = whole["machine"]
        self._series: list[dict[str, Any]] = whole["series"]

    def values(self, name: str, **wanted: object) -> list[Any]:
        """What a column holds where others are as wanted, each once, in order."""
        return list(dict.fromkeys(each[name] for each in self._rows(wanted)))

    def line(self, label: str, style: dict[str, Any], **wanted: object) -> Line | None:
        """The series as a line, if there is one."""
        rows = sorted(self._rows(wanted), key=lambda each: int(each["count"]))
        if not rows:
            return None
        low, middle, high = ([row[name] for row in rows] for name in ("p5_us", "p50_us", "p95_us"))
        return Line(label, style, [row["count"] for row in rows], low, middle, high)

    def _rows(self, wanted: dict[str, object]) -> list[dict[str, Any]]:
        return [each for each in self._series if wanted.items() <= each.items()]


def latency(found: Found) -> Figure:
    """The read, a column a backend and a row a length."""
    backends, sizes = found.values("backend"), _sizes(found)
    figure, axes = plt.subplots(
        *(len(sizes), len(backends)), figsize=(3.7 * len(backends), 2.9 * len(sizes) + 0.5),
        sharex=True, sharey=True, squeeze=False, layout="constrained",
    )  # fmt: skip
    for row, size in zip(axes, sizes, strict=True):
        for place, backend in zip(row, backends, strict=True):
            _title(place, f"{_TITLES[backend]}, facts of {_length(size)}")
            lines = [
                found.line(side, style, backend=backend, side=side, operation=_READ, size=size)
                for side, style in _STYLES.items()
            ]
            _draw(place, [*_drawn(lines), *_round_trip(found, backend, size)])
    _finish(figure, axes.flat, found.values("count", side="memtrace", operation=_READ))
    _label(figure, found, "Reading a user's newest 50 facts")
    return figure


def backends(found: Found) -> Figure:
    """The read, a line a backend."""
    sizes = _sizes(found)
    figure, axes = plt.subplots(
        *(1, len(sizes)), figsize=(4.6 * len(sizes), 3.8), sharey=True, squeeze=False, layout="constrained"
    )
    for place, size in zip(axes.flat, sizes, strict=True):
        _title(place, f"Facts of {_length(size)}")
        _draw(place, _drawn(_a_line_a_backend(found, operation=_READ, side="memtrace", size=size)))
    _finish(figure, axes.flat, found.values("count", side="memtrace", operation=_READ))
    _label(figure, found, "Reading a user's newest 50 facts through memtrace's stores")
    return figure


def operations(found: Found) -> Figure:
    """Search, add, update and forget, a line a backend; the SDK's in a row below."""
    names = [name for name in found.values("operation") if name != _READ]
    sides = [side for side in ("memtrace", "fastaiagent") if found.values("side", side=side, operation=names[0])]
    figure, axes = plt.subplots(
        *(len(sides), len(names)), figsize=(3.1 * len(names), 2.7 * len(sides) + 0.6),
        sharex=True, sharey=True, squeeze=False, layout="constrained",
    )  # fmt: skip
    for row, side in zip(axes, sides, strict=True):
        for place, name in zip(row, names, strict=True):
            _title(place, f"{name}, {side}")
            _draw(place, _drawn(_a_line_a_backend(found, operation=name, side=side)))
    _finish(figure, axes.flat, found.values("count", operation=names[0]))
    _label(figure, found, "One operation beside so many facts of a user")
    return figure


FIGURES: Final = {"latency": latency, "backends": backends, "operations": operations}


def read(folder: Path) -> Found:
    """The run whose files are in this folder.

    Raises:
        UsageError: there are none, or they are something else.
    """
    file = folder / "latency.json"
    try:
        return Found(json.loads(file.read_text()))
    except OSError as error:
        raise UsageError(
            f"{file} cannot be read ({error.strerror}): write it with python -m benchmarks.stores --out {folder}"
        ) from error
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(
            f"{file} is not what a run writes: write it anew with python -m benchmarks.stores --out {folder}"
        ) from error


def draw(found: Found, folder: Path) -> list[Path]:
    """Draw all figures of a run into a folder."""
    made = []
    for name, figure_of in FIGURES.items():
        with mpl.rc_context(SETTINGS):
            figure = figure_of(found)
            for suffix, about in (("png", {}), ("svg", {"Date": None})):
                made.append(folder / f"{name}.{suffix}")
                figure.savefig(made[-1], dpi=_DPI, metadata=about)
            plt.close(figure)
    return made


def _sizes(found: Found) -> list[int]:
    return found.values("size", side="memtrace", operation=_READ)


def _a_line_a_backend(found: Found, **wanted: object) -> list[Line | None]:
    return [found.line(_TITLES[name], style, backend=name, **wanted) for name, style in _BACKENDS.items()]


def _drawn(lines: Iterable[Line | None]) -> list[Line]:
    return [line for line in lines if line]


def _round_trip(found: Found, backend: str, size: int) -> list[Line]:
    """One time for all, drawn as wide as the others."""
    side = "round trip"
    once = found.line(side, _STYLES[side], backend=backend, side=side)
    ours = found.line("", {}, backend=backend, side="memtrace", operation=_READ, size=size)
    if once is None or ours is None:
        return []
    ends = [ours.counts[0], ours.counts[-1]]
    low, middle, high = ([values[0]] * 2 for values in (once.low, once.middle, once.high))
    return [Line(side, once.style, ends, low, middle, high)]


def _draw(place: Axes, lines: Sequence[Line]) -> None:
    for line in lines:
        place.plot(line.counts, line.middle, label=line.label, **line.style)
        place.fill_between(line.counts, line.low, line.high, color=line.style["color"], alpha=0.16, linewidth=0)
    place.set_xscale("log")
    place.set_yscale("log")


def _finish(figure: Figure, axes: Iterable[Axes], counts: Sequence[int]) -> None:
    """Ticks where something was measured, and beside each line what it is."""
    places = list(axes)
    for place in places:
        place.xaxis.set_major_locator(FixedLocator(sorted(counts)))
        place.xaxis.set_minor_locator(NullLocator())
        place.xaxis.set_major_formatter(FuncFormatter(lambda count, _: f"{count:,.0f}"))
        low, high = place.get_ylim()
        place.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < low * 100 else (1,)))
        place.yaxis.set_minor_locator(NullLocator())
        place.yaxis.set_major_formatter(FuncFormatter(_time))
        place.grid(visible=True, which="major", color="#e3e3e3", linewidth=0.7)
        place.set_axisbelow(True)
        where = place.get_subplotspec()
        if where and where.is_last_row():
            place.set_xlabel("facts that the user has")
        place.set_xlim(*_room(min(counts), max(counts)))
    figure.canvas.draw()  # limits and sizes are known from here on
    for place in places:
        _label_lines(place)


def _room(least: int, most: int) -> tuple[float, float]:
    """From where to where an axis reaches: room for a marker before the line and for a label after it.

    The scale is one of logarithms; a single count has as much room as if there were another ten times as many.
    """
    wide = math.log10(most / least) or 1.0
    return least / 10 ** (wide * 0.06), most * 10 ** (wide * 0.68)


def _label_lines(place: Axes) -> None:
    """Write beside each line what it is, in its colour; labels that would lie on each other are pushed apart."""
    ends = [(*_end(line), line) for line in place.get_lines()]
    to_axes = place.transAxes.inverted()
    extent = place.get_window_extent()
    apart, beside = _LINE_HEIGHT / extent.height, _BESIDE / extent.width
    lowest = -1.0
    for count, took, line in sorted(ends, key=lambda each: each[1]):
        right, height = to_axes.transform(place.transData.transform((count, took)))
        lowest = max(height, lowest + apart)
        label = str(line.get_label())
        place.text(right + beside, lowest, label, color=line.get_color(), transform=place.transAxes, va="center")


def _end(line: Line2D) -> tuple[float, float]:
    """Where a line ends."""
    counts, took = line.get_data()
    return float(np.asarray(counts)[-1]), float(np.asarray(took)[-1])


def _label(figure: Figure, found: Found, title: str) -> None:
    """The title, in as many lines as it takes to stay within the figure, and on what all this was measured."""
    about = found.machine
    whole = f"{title}, by how many there are: medians, p5 to p95 shaded; {about['cores']} cores, {about['date'][:10]}"
    figure.suptitle(textwrap.fill(whole, int(figure.get_figwidth() / _LETTER)), fontsize=_TITLE_SIZE)


def _title(place: Axes, text: str) -> None:
    place.set_title(text, loc="left")


def _length(size: int) -> str:
    return f"{size:,} characters"


def _time(microseconds: float, _position: object = None) -> str:
    if microseconds < 1000:
        return f"{microseconds:g} µs"
    return f"{microseconds / 1000:g} ms" if microseconds < 1_000_000 else f"{microseconds / 1_000_000:g} s"
