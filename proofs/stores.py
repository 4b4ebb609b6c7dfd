"""A proof on several stores: which there are, which of them a memory takes, and what was found on each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

from memtrace.errors import AdapterError
from memtrace.harness.running.tested_store import ELSEWHERE, OWN, TestedStore
from memtrace.harness.scripted_model.upstream import Upstream
from memtrace.harness.session import Suite, make_suite
from memtrace.model import Verdict
from proofs.act import WORST_FIRST, Proof, Result, missing_result, run, worst


class Home(Enum):
    """Where a memory that was given a store keeps its facts; nowhere, where it or the store is not to be had."""

    GIVEN = "in the store"
    OWN = "elsewhere"
    NONE = "nowhere"


def run_on_each(
    proof: Proof, memory: str, *, stores: Sequence[TestedStore], upstream: Upstream | None = None
) -> list[Result]:
    """Run a proof on each store that can be had and that the memory takes; on its own where it takes none.

    Raises:
        AdapterError: the memory cannot be opened on the first of the stores that can be had, or on one named by URL.
    """
    results: list[Result] = []
    for store in stores:
        with make_suite(memory, store=store, upstream=upstream) as suite:
            results += _run_on(suite, proof, first=all(result.missing for result in results))
    return results


def open_named(memory: str, stores: Sequence[TestedStore]) -> None:
    """Open the memory on each store that a URL names, before anything is played: whoever named one wants it.

    Raises:
        MemtraceError: one cannot be reached, or the memory does not take it.
    """
    for store in stores:
        if store.url:
            with make_suite(memory, store=store) as suite:
                suite.open()


def _run_on(suite: Suite, proof: Proof, *, first: bool) -> list[Result]:
    home, why = _try_store(suite, must_open=first or bool(suite.store.url))
    match home:
        case Home.GIVEN:
            return [run(act, suite, store=suite.store.name, counter=first) for act in proof.acts]
        case Home.OWN if first:
            return [run(act, suite, store=OWN) for act in proof.acts]
        case _:
            return [missing_result(act, store=suite.store.name, why=why) for act in proof.acts]


def _try_store(suite: Suite, *, must_open: bool) -> tuple[Home, str]:
    """Open the memory on a store and let it keep a fact in one that is fresh; where that is, and why not there.

    Raises:
        AdapterError: it cannot be opened, and must be.
    """
    if suite.store.missing:
        return Home.NONE, suite.store.missing
    try:
        suite.probe()
    except AdapterError as error:
        if must_open:
            raise
        return Home.NONE, str(error)
    return (Home.OWN, ELSEWHERE) if suite.leaves_store_empty() else (Home.GIVEN, "")


def verdicts(results: Sequence[Result]) -> dict[str, Verdict]:
    """The worst verdict on each store; none where the proof is not one of several."""
    stores = dict.fromkeys(result.store for result in results if result.store)
    return {store: worst(result.verdict for result in results if result.store == store) for store in stores}


def on_which(results: Sequence[Result]) -> Iterator[tuple[Verdict, str]]:
    """The stores that got each verdict, the worst first."""
    found = verdicts(results)
    for verdict in (*WORST_FIRST, Verdict.NOT_EXERCISED):
        if stores := [store for store, one in found.items() if one is verdict]:
            yield verdict, ", ".join(stores)
