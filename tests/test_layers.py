"""Imports only go down."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = (
    {"model", "errors", "semconv", "identity"},
    {"stores", "plane", "tracing", "capture", "calls", "operation", "spans", "wrapping", "prompts", "redaction"},
    {"reference", "service", "export"},
    {"harness", "adapters", "broken"},
    {"pytest_plugin", "cli"},
    {"boundary_tests", "proofs", "benchmarks"},
)
NEVER = (
    ("harness", "reference"),
    ("harness", "stores"),
    ("broken", "reference"),
    ("broken", "stores"),
    ("tracing", "harness"),
)
HARNESS = (
    {"record", "findings", "services", "rules", "pages", "scaffold", "system", "files"},
    {"running", "faults"},
    {"seen", "plane", "scripted_model"},
    {"verdicts", "checks"},
    {"stage", "actor", "processes"},
    {"scenes"},
    {"random_scripts", "scripts", "session", "vetting"},
)
"""The rooms of the harness."""
_DIAGRAM = re.compile(r"^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
_IN_A_DIAGRAM = re.compile(r"^(\d| )  (\w+(?:  \w+)*) {3,}\w", re.MULTILINE)
LAYER_OF = {name: number for number, names in enumerate(LAYERS) for name in names}
FLOOR_OF = {name: number for number, names in enumerate(HARNESS) for name in names}


def _room(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[1] if parts[0] == "memtrace" and len(parts) > 1 else parts[0]


def _room_of_harness(path: Path) -> str:
    return path.relative_to(ROOT / "memtrace" / "harness").with_suffix("").parts[0]


def _imports(path: Path) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += names if node.module in ("memtrace", "memtrace.harness") else [node.module]
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
    return found


def _rooms(path: Path) -> set[str]:
    rooms = set()
    for name in _imports(path):
        parts = name.split(".")
        if parts[0] in ("boundary_tests", "proofs", "benchmarks"):
            rooms.add(parts[0])
        elif parts[0] == "memtrace" and len(parts) > 1:
            rooms.add(parts[1])
    return rooms


SOURCES = sorted(path for place in ("memtrace", *LAYERS[-1]) for path in (ROOT / place).rglob("*.py"))
IN_HARNESS = [path for path in SOURCES if _room(path) == "harness"]


def test_what_has_a_layer_is_there() -> None:
    assert LAYER_OF.keys() == {_room(path) for path in SOURCES} - {"__init__"}
    assert FLOOR_OF.keys() == {_room_of_harness(path) for path in IN_HARNESS} - {"__init__", "templates"}


def test_the_diagrams_show_these_layers() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    assert [_layers(diagram) for diagram in _DIAGRAM.findall(text)] == [list(LAYERS), list(HARNESS)]


def _layers(diagram: str) -> list[set[str]]:
    shown: list[set[str]] = []
    for number, names in _IN_A_DIAGRAM.findall(diagram):
        if number != " ":
            shown.insert(0, set())
        shown[0].update(names.split())
    return shown


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_only_go_down(path: Path) -> None:
    room = _room(path)
    if path == ROOT / "memtrace" / "__init__.py":
        return
    assert room in LAYER_OF, f"{room} has no layer; give it one in {Path(__file__).name}"
    for other in _rooms(path) - {room}:
        assert other in LAYER_OF, f"{other} has no layer"
        assert LAYER_OF[other] <= LAYER_OF[room], f"{room} imports {other}, which stands above it"
        assert (room, other) not in NEVER, f"{room} must never import {other}"


@pytest.mark.parametrize("path", IN_HARNESS, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_only_go_down_in_the_harness(path: Path) -> None:
    room = _room_of_harness(path)
    for name in _imports(path):
        if name.startswith("memtrace.harness."):
            other = name.split(".")[2]
            assert FLOOR_OF[other] <= FLOOR_OF[room], f"{room} imports {other}, which stands above it"


def test_importing_memtrace_loads_no_sdk_no_pytest_no_driver() -> None:
    heavy = "['opentelemetry.sdk', 'pytest', 'sqlite3', 'httpx', 'numpy', 'msgspec', 'hypothesis']"
    code = f"import memtrace, sys; print([m for m in {heavy} if m in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def test_the_plugin_loads_nothing_heavy_before_a_boundary_test_is_there() -> None:
    heavy = "['opentelemetry.sdk', 'uvicorn', 'msgspec']"
    code = f"import memtrace.pytest_plugin, sys; print([m for m in {heavy} if m in sys.modules])"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"
