"""An adapter looked over before any rule runs: what is wrong with it, and which rules its claims let apply."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from memtrace.errors import AdapterError, UsageError
from memtrace.harness.rules import RULES
from memtrace.harness.running.tested_store import TestedStore, stores_named
from memtrace.harness.session import Suite, make_suite
from memtrace.harness.system import CAPABILITIES, complaints
from memtrace.harness.verdicts.left import told


@dataclass(frozen=True, slots=True)
class Vetted:
    """What `vet` found: whether the system can be judged, and all there is to say of it, a line each."""

    fit: bool
    lines: tuple[str, ...]


def vet(memory: str, stores: str = "") -> Vetted:
    """Open a system on each store that is named, look at its claims, and run one turn.

    Raises:
        UsageError: there is no such system or store, or it excuses a rule that does not exist.
    """
    vetted = [_vet_on(memory, store) for store in stores_named(stores)]
    return Vetted(all(one.fit for one in vetted), tuple(line for one in vetted for line in one.lines))


def _vet_on(memory: str, store: TestedStore) -> Vetted:
    where = f" on {store.word}" if store.name else ""
    with make_suite(memory, store=store) as suite:
        if store.missing:
            raise UsageError(store.missing)
        try:
            claims = suite.probe()
        except AdapterError as error:
            wrong = _complaints(suite) or [str(error)]
            return Vetted(False, (f"{memory} cannot be judged{where} yet:", *(f"  - {each}" for each in wrong)))
        with suite.stage("vetting") as stage:
            lines = [f"{memory} can be judged{where}", *_told(suite, claims, stage.system)]
        return Vetted(True, (*lines, *filter(None, [told(suite.take_left())])))


def _complaints(suite: Suite) -> list[str]:
    """Everything that is wrong with a system's claims, where it can be made at all."""
    with suite.stage("complaints") as stage:
        try:
            return complaints(suite.factory(stage.environment()))
        except (Exception, SystemExit):  # noqa: BLE001  that the factory raised is what the probe has said
            return []


def _told(suite: Suite, claims: frozenset[str], system: Any) -> Iterator[str]:
    unmet = {rule.id: rule.unmet(claims) for rule in RULES.values()}
    yield f"  claims: {', '.join(sorted(claims))}"
    if suite.note:
        yield f"  note: {suite.note}"
    yield f"  rules that apply: {len(RULES) - sum(map(bool, unmet.values()))} of {len(RULES)}"
    if wanting := Counter(need.replace("|", " or ") for needs in unmet.values() for need in needs):
        yield f"  not exercised for want of: {', '.join(f'{need} ({n})' for need, n in wanting.most_common())}"
    for capability in _able(claims, system):
        yield f"  note: it has the methods of {capability!r} and does not claim it: its rules are not exercised"
    for rule, reason in suite.allowed.items():
        yield f"  allowed: {rule}: {reason}"


def _able(claims: frozenset[str], system: Any) -> list[str]:
    """What the system could claim by its methods, and does not; not what shares its methods with a claim of its."""
    used = {CAPABILITIES[claim].methods for claim in claims}
    return [
        name
        for name, capability in CAPABILITIES.items()
        if name not in claims
        and capability.methods
        and capability.methods not in used
        and all(callable(getattr(system, method, None)) for method in capability.methods)
    ]


def capabilities() -> str:
    """Everything a system may claim, a line each."""
    width = max(map(len, CAPABILITIES))
    return "\n".join(f"{name:<{width}}  {capability.meaning}" for name, capability in CAPABILITIES.items())
