"""The benchmarks run and draw what they found. What anything took is not looked at."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
np = pytest.importorskip("numpy")

ROOT = Path(__file__).parent.parent
SVG = "{http://www.w3.org/2000/svg}"


_WITHOUT = """
import importlib.metadata, importlib.util, runpy, sys
find, version = importlib.util.find_spec, importlib.metadata.version
_, without, module, *words = sys.argv
for name in filter(None, without.split(",")):
    sys.modules[name] = None
def find_spec(name, package=None):
    return None if sys.modules.get(name, name) is None else find(name, package)
def version_of(name):
    if sys.modules.get(name, name) is None:
        raise importlib.metadata.PackageNotFoundError(name)
    return version(name)
importlib.util.find_spec, importlib.metadata.version = find_spec, version_of
sys.argv = [module, *words]
sys.path.insert(0, "")
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""
"""Runs a module as if others were not installed."""


def _ended(module: str, *words: str, without: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _WITHOUT, ",".join(without), module, *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)


def _run(module: str, *words: str, without: Sequence[str] = ()) -> str:
    ended = _ended(module, *words, without=without)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("measured")
    return folder, _run("benchmarks.stores", "--quick", "--out", str(folder))


def test_a_run_tells_each_series_in_json_and_csv_alike(measured: tuple[Path, str]) -> None:
    folder, _ = measured
    whole = json.loads((folder / "latency.json").read_text())
    with (folder / "latency.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [{name: str(value) for name, value in series.items()} for series in whole["series"]] == rows
    assert all(0 < each["p5_us"] <= each["p50_us"] <= each["p95_us"] for each in whole["series"])
    assert {"date", "processor", "cores", "python", "backends"} <= whole["machine"].keys()


def test_every_backend_that_is_there_is_read_in_all_ways_and_operated_on(measured: tuple[Path, str]) -> None:
    folder, _ = measured
    whole = json.loads((folder / "latency.json").read_text())
    backends = whole["machine"]["backends"].keys()
    assert "sqlite" in backends
    assert len(backends) == 3 or os.environ.get("MEMTRACE_REQUIRE_SERVICES") != "1"
    found = {
        (each["backend"], each["side"], each["operation"], each["count"], each["size"]) for each in whole["series"]
    }
    plan = whole["plan"]
    for backend in backends:
        assert (backend, "round trip", "newest 50", 0, 0) in found
        for count in plan["counts"]:
            for size in plan["sizes"]:
                assert (backend, "memtrace", "newest 50", count, size) in found
                assert (backend, "bare statement", "newest 50", count, size) in found
        for operation in ("search", "add", "update", "forget"):
            assert (backend, "memtrace", operation, plan["operated"][0], plan["sizes"][0]) in found


def test_a_quick_run_prints_its_ratios_and_judges_none(measured: tuple[Path, str]) -> None:
    folder, printed = measured
    ratios = json.loads((folder / "latency.json").read_text())["ratios"]
    assert ratios
    for each in ratios:
        found = f"{each['ratio']['value']:.2f} {each['ratio']['low']:.2f} to {each['ratio']['high']:.2f}"
        wanted = f"{each['name']} {each['backend']} {each['count']:,} {each['size']:,} {found}"
        assert wanted in [" ".join(line.split()) for line in printed.splitlines()]
        assert {"met", "certain"}.isdisjoint(each)
    assert not any(word in printed for word in ("<=", ">=", " met", "missed"))
    assert "not judged: " in printed


@pytest.mark.parametrize(
    ("at_least", "ratio", "said"),
    [
        (False, (1.05, 1.04, 1.06), "<= 1.1 met"),
        (False, (1.05, 1.01, 1.12), "<= 1.1 met, the interval reaches across"),
        (False, (1.20, 1.15, 1.25), "<= 1.1 missed"),
        (True, (1.20, 1.15, 1.25), ">= 1.1 met"),
        (True, (1.05, 1.01, 1.12), ">= 1.1 missed, the interval reaches across"),
    ],
)
def test_a_full_run_prints_each_ratio_with_its_target_and_a_verdict(
    at_least: bool, ratio: tuple[float, float, float], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks.stores.measure import Ratio
    from benchmarks.stores.report import table
    from benchmarks.stores.run import Plan, Results
    from benchmarks.stores.targets import Judged

    machine = {"date": "today", "processor": "one", "cores": 2, "python": "3", "backends": {}}
    found = Judged("500 facts / 50 facts", "sqlite", 500, 100, Ratio(*ratio), 1.1, at_least)
    _, heading, line, *more = table(Results(machine, Plan(), {}), [found])
    assert heading.endswith("target")
    assert line.endswith(f"  {said}")
    assert not more


def test_a_ratio_is_read_as_met_or_missed_also_from_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks.stores.measure import Ratio
    from benchmarks.stores.report import write
    from benchmarks.stores.run import Plan, Results
    from benchmarks.stores.targets import Judged

    found = Judged("500 facts / 50 facts", "sqlite", 500, 100, Ratio(1.05, 1.01, 1.12), 1.1)
    write(Results({}, Plan(), {}), [found], tmp_path)
    [read] = json.loads((tmp_path / "latency.json").read_text())["ratios"]
    assert (read["met"], read["certain"]) == (True, False)


def test_what_is_not_installed_is_left_out_and_told_once(tmp_path: Path) -> None:
    printed = _run("benchmarks.stores", "--quick", "--out", str(tmp_path), without=("fastaiagent", "psycopg"))
    assert [line for line in printed.splitlines() if line.startswith("left out")][-2:] == [
        "left out: postgres: psycopg is not installed: pip install -e '.[postgres]' in the clone",
        "left out: fastaiagent, and the ratios to it: it is not installed",
    ]


@pytest.mark.parametrize(
    ("words", "without", "told"),
    [
        ("stores --quick --out {}/here", "numpy", "numpy is not installed: pip install -e '.[suite]' in the clone"),
        (
            "stores --quick --backend postgres --out {}/here", "psycopg",
            "nothing to measure: postgres: psycopg is not installed: pip install -e '.[postgres]' in the clone",
        ),
        (
            "stores --quick --out {}/file/below", "",
            "--out {}/file/below cannot be written to (Not a directory): name a folder that you may write to",
        ),
        ("plot {}", "matplotlib", "matplotlib is not installed: pip install -e '.[plots]' in the clone"),
        (
            "plot {}/nowhere", "",
            (
                "{0}/nowhere/latency.json cannot be read (No such file or directory):"
                " write it with python -m benchmarks.stores --out {0}/nowhere"
            ),
        ),
        (
            "plot {}", "",
            "{0}/latency.json is not what a run writes: write it anew with python -m benchmarks.stores --out {0}",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_told_in_a_line(words: str, without: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "latency.json").write_text("{}")
    benchmark, *arguments = words.format(tmp_path).split()
    ended = _ended(f"benchmarks.{benchmark}", *arguments, without=(without,))
    assert (ended.returncode, ended.stdout) == (4, "")
    assert ended.stderr == f"benchmarks.{benchmark}: {told.format(tmp_path)}\n"


def test_the_plots_are_drawn_of_what_was_measured(measured: tuple[Path, str]) -> None:
    folder, _ = measured
    drawn = [Path(line) for line in _run("benchmarks.plot", str(folder)).splitlines()]
    assert {path.name for path in drawn} == {
        f"{name}.{kind}" for name in ("latency", "backends", "operations") for kind in ("png", "svg")
    }
    assert all(path.read_bytes().startswith(b"\x89PNG\r\n") for path in drawn if path.suffix == ".png")
    whole = json.loads((folder / "latency.json").read_text())
    words = {text.text for text in ET.parse(folder / "latency.svg").iter(f"{SVG}text")}
    assert {f"{count:,}" for count in whole["plan"]["counts"]} <= words
    assert {"memtrace", "bare statement", "round trip"} <= words


@pytest.mark.parametrize("counts", [(50,), (50, 200), (50, 500, 5_000, 100_000)])
@pytest.mark.parametrize("sizes", [(100,), (100, 8_000)])
def test_titles_labels_and_markers_are_within_the_figure(
    counts: Sequence[int], sizes: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks.plot.figures import FIGURES, SETTINGS, Found, mpl, plt

    times = {"p5_us": 90.0, "p50_us": 100.0, "p95_us": 110.0}
    names = [("newest 50", size) for size in sizes] + [("forget", sizes[0])]
    series = [
        {"backend": backend, "side": "memtrace", "operation": name, "count": count, "size": size, **times}
        for backend in ("sqlite", "redis")
        for name, size in names
        for count in counts
    ]
    found = Found({"machine": {"cores": 2, "date": "2026-11-30"}, "series": series})
    for figure_of in FIGURES.values():
        with mpl.rc_context(SETTINGS):
            figure = figure_of(found)
            figure.canvas.draw()
        for text in [figure._suptitle, *(text for place in figure.axes for text in place.texts)]:
            box = text.get_window_extent()
            assert 0 <= box.x0 < box.x1 <= figure.bbox.width, text.get_text()
        for place in figure.axes:
            radius = 4.5 / 72 * figure.dpi / 2
            ends = [place.transData.transform((count, 100.0))[0] for count in (counts[0], counts[-1])]
            assert place.bbox.x0 + radius <= ends[0] <= ends[1] <= place.bbox.x1 - radius
        plt.close(figure)


def test_a_ratio_and_its_interval_are_of_medians_round_by_round(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks.stores.measure import ratio

    load = np.array([[1.0], [10.0], [100.0], [2.0], [30.0]])  # a machine that is busy in some rounds
    found = ratio(load * 3, load)
    assert (found.value, found.low, found.high) == pytest.approx((3, 3, 3))


def test_subjects_take_turns_and_only_the_call_gets_what_was_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT)
    from benchmarks.stores.measure import Series, Subject, sample

    said: list[str] = []

    def subject(name: str) -> Subject:
        return Subject(
            Series("sqlite", name, "read", 1, 1),
            lambda given: said.append(f"{name} {given}") or name,
            before=lambda: "prepared",
            after=lambda result: said.append(f"after {result}"),
        )

    found = sample([subject("a"), subject("b")], rounds=4, calls=1)
    calls = [word[0] for word in said if not word.startswith("after")]
    assert [each.shape for each in found.values()] == [(4, 1), (4, 1)]
    assert calls[4:] == list("abbaabba")
    assert said[::2] == [f"{name} prepared" for name in calls]
    assert said[1::2] == [f"after {name}" for name in calls]
