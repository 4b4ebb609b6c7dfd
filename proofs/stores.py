"""A proof on several stores: which there are, which of them a memory takes, and what was found on each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from memtrace.errors import AdapterError
from memtrace.harness.session import Suite, make_suite
from memtrace.harness.tested_store import TestedStore
from memtrace.harness.upstream import Upstream
from memtrace.model import Verdict
from proofs.act import WORST_FIRST, Played, Proof, play, unplayed, worst

OWN = "its own"
"""What a memory keeps facts in that takes none of the stores."""
_ELSEWHERE = "the memory keeps its facts elsewhere than in the store that it is given"


def play_on_each(
    proof: Proof, memory: str, stores: Sequence[TestedStore], upstream: Upstream | None = None
) -> list[Played]:
    """Play a proof on each store that can be had and that the memory takes; on its own where it takes none.

    Raises:
        AdapterError: the memory cannot be opened on the first of the stores that can be had.
    """
    played: list[Played] = []
    for store in stores:
        with make_suite(memory, store=store, upstream=upstream) as suite:
            first = all(one.unplayed for one in played)
            why = store.missing or _refusal(suite, first=first)
            if why == _ELSEWHERE and first:
                played += [play(act, suite, store=OWN) for act in proof.acts]
                why = ""
            elif not why:
                played += [play(act, suite, store=store.name, counter=first) for act in proof.acts]
            if why:
                played += [unplayed(act, store.name, why) for act in proof.acts]
    return played


def _refusal(suite: Suite, *, first: bool) -> str:
    """Why a memory does not take a store."""
    try:
        claims = suite.probe()
    except AdapterError as error:
        if first:
            raise
        return str(error)
    if "facts" not in claims or not suite.store.fresh:
        return ""
    with suite.stage("a fact is kept") as stage:
        stage.add(stage.caller(), "The shop closes at six.")
        stage.close_system()
        return "" if suite.store.holds(stage.environment().store_url) else _ELSEWHERE


def verdicts(played: Sequence[Played]) -> dict[str, Verdict]:
    """The worst verdict on each store; none where the proof is not one of several."""
    stores = dict.fromkeys(act.store for act in played if act.store)
    return {store: worst(act.verdict for act in played if act.store == store) for store in stores}


def on_which(played: Sequence[Played]) -> Iterator[tuple[Verdict, str]]:
    """The stores that got each verdict, the worst first."""
    found = verdicts(played)
    for verdict in (*WORST_FIRST, Verdict.NOT_EXERCISED):
        if stores := [store for store, one in found.items() if one is verdict]:
            yield verdict, ", ".join(stores)
