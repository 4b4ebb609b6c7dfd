"""A page a rule: what goes wrong, how it looks, the usual cause, how to fix it, and a memory to see it fail on.

``python -m memtrace.harness.pages DIRECTORY`` writes them all.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Final

from memtrace.broken import Exhibit, gallery
from memtrace.harness.rules import RULES, Kind, Rule

BOUNDARIES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "turns": "what one turn reads and writes",
        "users": "whose memory it is",
        "authors": "who said it",
        "processes": "what a restart keeps, and what a deletion leaves",
        "backends": "whether every store gives the same answers, and what a turn gets while one fails",
        "plane": "what curated facts reach, and what a turn gets while they cannot be read",
        "export": "whether the recorded spans tell what happened, and what of it leaves the process",
    }
)
"""What each boundary is about."""
_JUDGED: Final = {
    Kind.INVARIANT: "in every script, whatever the script was written for",
    Kind.EXPECTATION: "where a script declares what it expects",
    Kind.SCENARIO: "in scripts of its own",
    Kind.COMPARISON: "on two runs of the same script that should come to the same",
}
_SOURCES: Final = {
    "H": "the page *How memory works*",
    "B": "the page *Agent Memory Breaks at the Boundaries*",
    "L": "the facts-and-rules page",
    "S": "the scoping page",
    "R": "public reports",
}


def page(rule: Rule, *, exhibits: bool = True) -> str:
    """The page of a rule, as Markdown; without ``exhibits`` it takes nothing that the suite needs."""
    text = files("memtrace.harness").joinpath("pages", f"{rule.id}.md").read_text(encoding="utf-8")
    parts = [f"# {rule.id}", f"{rule.statement[0].upper()}{rule.statement[1:]}.", _facts(rule), text.strip()]
    return "\n\n".join([*parts, *(_see_it_fail(rule) if exhibits else [])]) + "\n"


def _facts(rule: Rule) -> str:
    needs = ", ".join(need.replace("|", " or ") for need in rule.needs) or "no capability"
    sources = "; ".join(_SOURCES[letter] for letter in rule.source)
    declared = "\n- Compares a system with values that the system declares." if rule.declared else ""
    return f"- Judged {_JUDGED[rule.kind]} ({rule.kind.value}).\n- Needs {needs}.\n- Comes from {sources}.{declared}"


def _see_it_fail(rule: Rule) -> list[str]:
    found = [exhibit for exhibit in gallery() if exhibit.breaks == rule.id]
    return ["## See it fail", *map(_exhibited, found)] if found else []


def _exhibited(exhibit: Exhibit) -> str:
    report = f" A public report of such a fault: <{exhibit.report}>." if exhibit.report else ""
    timed = " --timed" if RULES[exhibit.breaks].timed else ""
    return f"{exhibit.what}{report}\n\n    memtrace check {exhibit.name} --rule {exhibit.breaks}{timed}"


def listing(rules: Sequence[Rule]) -> str:
    """A line a rule."""
    width = max(len(rule.id) for rule in rules)
    return "\n".join(f"{rule.id:<{width}}  {rule.kind.value:<11}  {rule.statement}" for rule in rules)


def as_json(rules: Iterable[Rule]) -> str:
    """Rules as JSON: id, kind, statement, needs, source, declared, timed."""
    return json.dumps([_as_json(rule) for rule in rules], indent=2, ensure_ascii=False)


def _as_json(rule: Rule) -> dict[str, object]:
    return {
        "id": rule.id, "kind": rule.kind.value, "statement": rule.statement, "needs": rule.needs,
        "source": rule.source, "declared": rule.declared, "timed": rule.timed,
    }  # fmt: skip


def index() -> str:
    """The list of all pages, as Markdown."""
    lines = ["# The rules", "", "`memtrace rules ID` prints the same pages.", ""]
    for boundary, rules in groupby(RULES.values(), key=lambda rule: rule.boundary):
        lines += [f"## {boundary}: {BOUNDARIES[boundary]}", "", "| rule | promise |", "|---|---|"]
        lines += [*map(_row, rules), ""]
    return "\n".join(lines)


def _row(rule: Rule) -> str:
    promise = rule.statement.replace("|", "\\|")
    return f"| [{rule.id}]({rule.id}.md) | {promise} |"


def every_page() -> dict[str, str]:
    """All files of the directory of pages, by name."""
    return {"README.md": index(), **{f"{rule.id}.md": page(rule) for rule in RULES.values()}}


def main(directory: Path) -> None:
    """Write every page to a directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in every_page().items():
        (directory / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
