"""What the documents say is so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path

import pytest
from documents import DOCUMENTS, ROOT, blocks, play

from memtrace.broken import gallery
from memtrace.cli import EXTRAS
from memtrace.harness.pages import BOUNDARIES, every_page
from memtrace.harness.rules import RULES
from memtrace.model import Verdict

README = (ROOT / "README.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WRITTEN = [*DOCUMENTS, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs" / "rules").glob("*.md"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_the_code_of_a_document_runs_and_prints_what_it_says(document: Path, tmp_path: Path) -> None:
    play(document, tmp_path)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_no_code_of_a_document_is_left_out_of_that(document: Path) -> None:
    for block in blocks(document):
        if block.language in ("python", "bash"):
            assert block.kind in ("run", "file", "ci"), f"unmarked:\n{block.text}"


@pytest.mark.parametrize("document", WRITTEN, ids=lambda path: path.name)
def test_links_inside_the_repository_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", document.read_text()):
        assert (document.parent / target).exists(), target


def test_the_pages_of_the_rules_are_those_of_this_version() -> None:
    there = {path.name: path.read_text() for path in (ROOT / "docs" / "rules").glob("*.md")}
    pages = every_page()
    stale = sorted(name for name in there.keys() | pages.keys() if there.get(name) != pages.get(name))
    assert not stale, f"write them with: python -m memtrace.harness.pages docs/rules ({', '.join(stale)})"


def test_the_readme_counts_the_rules() -> None:
    counted = re.findall(r"^\| (\w+) \| .* \| (\d+) \|$", README, re.MULTILINE)
    expected = Counter(rule.boundary for rule in RULES.values())
    assert {boundary: int(count) for boundary, count in counted} == expected
    assert f"{len(RULES)} rules, each" in README
    assert f"keeps all {len(RULES)}" in README
    [found] = re.findall(r"^    (\d+) held, .* (\d+) not exercised, .* (\d+) violated$", README, re.MULTILINE)
    assert sum(map(int, found)) == len(RULES)


def test_every_rule_has_a_memory_that_breaks_it() -> None:
    assert {exhibit.breaks for exhibit in gallery()} - {""} == RULES.keys()


def test_every_boundary_has_a_heading() -> None:
    assert BOUNDARIES.keys() == {rule.boundary for rule in RULES.values()}


def test_the_readme_has_the_two_commands_of_a_fresh_machine() -> None:
    commands = {block.argument: block.text for block in blocks(ROOT / "README.md") if block.kind == "ci"}
    assert commands.keys() == {"first", "tests"}
    for command in commands.values():
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install ")
        assert set(re.findall(r"\[(\w+)\]", command)) <= PROJECT["optional-dependencies"].keys()
    assert "memtrace prove" in commands["first"]
    assert "pytest" in commands["tests"]


def test_the_readme_names_every_extra() -> None:
    rows = re.findall(r"^\| (`\[.*?\]`) \|", README, re.MULTILINE)
    assert set(re.findall(r"\[(\w+)\]", " ".join(rows))) == PROJECT["optional-dependencies"].keys()


def test_the_command_line_knows_what_its_extras_install() -> None:
    installed = {
        extra: {re.split(r"[>=\[;]", line)[0].replace("opentelemetry-sdk", "opentelemetry.sdk") for line in lines}
        for extra, lines in PROJECT["optional-dependencies"].items()
    }
    assert set(EXTRAS["reference"]) == installed["reference"]
    assert set(EXTRAS["plane"]) == installed["plane"]
    assert set(EXTRAS["suite"]) == installed["suite"] - {"memtrace-otel"} | installed["reference"] | installed["plane"]
    assert set(EXTRAS["export"]) <= installed["export"]


def test_every_verdict_and_exit_status_is_explained() -> None:
    text = (ROOT / "docs" / "verdicts.md").read_text()
    assert re.findall(r"^\| ([A-Z ]+) \|", text, re.MULTILINE) == [verdict.value.upper() for verdict in Verdict]
    assert re.findall(r"^\| (\d) \|", text, re.MULTILINE) == ["0", "1", "2", "4", "5", "7"]


def test_the_action_checks_a_memory_and_writes_its_reports(tmp_path: Path) -> None:
    action = (ROOT / "action.yml").read_text()
    script = re.search(r"- id: check\n.*?run: \|\n((?:        .*\n)+)", action, re.DOTALL)
    assert script is not None
    (tmp_path / "memory.py").write_text("from memtrace.broken.tiny import TinyMemory as make\n")
    environment = {
        **os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "MEMORY": "memory:make",
        "RULES": "users.own-memory-recalled authors.once-*", "ARGUMENTS": "--scripts 0", "RUNNER_TEMP": str(tmp_path),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"), "GITHUB_OUTPUT": str(tmp_path / "output"),
    }  # fmt: skip
    environment.pop("PYTEST_ADDOPTS", None)
    lines = "\n".join(line[8:] for line in script[1].splitlines())
    done = subprocess.run(["bash", "-eo", "pipefail", "-c", lines], cwd=tmp_path, env=environment, check=False)
    assert done.returncode == 0
    assert "0 violated" in (tmp_path / "summary.md").read_text()
    reports = Path((tmp_path / "output").read_text().strip().removeprefix("reports="))
    assert {path.name for path in reports.iterdir()} == {"memory.json", "memory.xml", "memory.md"}


def test_the_action_describes_the_inputs_that_its_script_is_given() -> None:
    action = (ROOT / "action.yml").read_text()
    inputs = re.findall(r"^  ([\w-]+):\n    description:", action.partition("runs:")[0], re.MULTILINE)
    used = set(re.findall(r"inputs\.([\w-]+)", action))
    assert used | {"reports"} == set(inputs)
    table = (ROOT / "docs" / "ci.md").read_text()
    assert used == set(re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE))
