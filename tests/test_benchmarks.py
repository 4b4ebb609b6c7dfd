"""The benchmarks run and draw what they found. What anything took is not looked at."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
np = pytest.importorskip("numpy")

ROOT = Path(__file__).parent.parent
SVG = "{http://www.w3.org/2000/svg}"


def _run(*words: str) -> str:
    command = [sys.executable, "-m", *words]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
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


def test_each_ratio_is_printed_with_its_target_and_a_verdict(measured: tuple[Path, str]) -> None:
    folder, printed = measured
    ratios = json.loads((folder / "latency.json").read_text())["ratios"]
    lines = [line for line in printed.splitlines() if "<=" in line or ">=" in line]
    assert ratios
    assert len(lines) == len(ratios)
    for line, each in zip(lines, ratios, strict=True):
        assert line.startswith(each["name"])
        assert each["ratio"]["low"] <= each["ratio"]["high"]
        within = (
            each["ratio"]["value"] >= each["target"] if each["at_least"] else each["ratio"]["value"] <= each["target"]
        )
        assert each["met"] is within
        assert (" met" if within else " missed") in line


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
