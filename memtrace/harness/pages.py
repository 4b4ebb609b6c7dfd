"""A page a rule: what goes wrong, how it looks, the usual cause, how to fix it."""

from __future__ import annotations

import json
from importlib.resources import files

from memtrace.harness.rules import RULES, Rule, find_rule

_SOURCES = {
    "H": "the page *How memory works*",
    "B": "the page *Agent Memory Breaks at the Boundaries*",
    "L": "the facts-and-rules page",
    "S": "the scoping page",
    "R": "public reports",
}


def page(rule_id: str) -> str:
    """The page of a rule as Markdown; `UsageError` names near ids where there is no such rule."""
    rule = find_rule(rule_id)
    text = files("memtrace.harness").joinpath("pages", f"{rule.id}.md").read_text(encoding="utf-8")
    return f"# {rule.id}\n\n{rule.statement[0].upper()}{rule.statement[1:]}.\n\n{_facts(rule)}\n\n{text.strip()}\n"


def _facts(rule: Rule) -> str:
    needs = ", ".join(need.replace("|", " or ") for need in rule.needs) or "nothing"
    sources = "; ".join(_SOURCES[letter] for letter in rule.source)
    declared = " It compares a system with values that it declares itself." if rule.declared else ""
    return f"Judged as: {rule.kind.value}. Needs: {needs}. Source: {sources}.{declared}"


def listing() -> str:
    """Every rule, a line each."""
    width = max(len(rule) for rule in RULES)
    return "\n".join(f"{rule.id:<{width}}  {rule.kind.value:<11}  {rule.statement}" for rule in RULES.values())


def as_json(rule_ids: list[str]) -> str:
    """Rules as JSON: id, kind, statement, needs, source, declared."""
    chosen = [find_rule(rule_id) for rule_id in rule_ids] or list(RULES.values())
    return json.dumps(
        [
            {
                "id": r.id,
                "kind": r.kind.value,
                "statement": r.statement,
                "needs": r.needs,
                "source": r.source,
                "declared": r.declared,
            }
            for r in chosen
        ],
        indent=2,
    )
