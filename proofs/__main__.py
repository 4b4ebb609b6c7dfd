"""Run proofs: ``python -m proofs [N …] --memory NAME``; `memtrace prove` is the same."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final

from memtrace.errors import MemtraceError, UsageError
from memtrace.harness.record.listening import silence_logs
from memtrace.harness.running.tested_store import TestedStore, stores_named
from memtrace.harness.scripted_model.upstream import Upstream
from memtrace.harness.session import Suite, make_suite
from memtrace.harness.verdicts.ledger import (
    EXIT_HELD,
    EXIT_INTERRUPTED,
    EXIT_MISUSE,
    EXIT_NOTHING,
    EXIT_UNDECIDED,
    EXIT_VIOLATED,
)
from memtrace.harness.verdicts.left import told
from memtrace.model import Verdict
from proofs.act import Proof, Result, run, verdict_of, worst
from proofs.private import write_private
from proofs.proof_1_turns import PROOF as TURNS
from proofs.proof_2_users import PROOF as USERS
from proofs.proof_3_authors import PROOF as AUTHORS
from proofs.proof_4_processes import PROOF as PROCESSES
from proofs.proof_5_backends import PROOF as BACKENDS
from proofs.proof_6_plane import PROOF as PLANE
from proofs.report import as_json, printed, replay, summed_up
from proofs.stores import open_named, run_on_each

PROOFS: Final = (TURNS, USERS, AUTHORS, PROCESSES, BACKENDS, PLANE)
_EXIT: Final = {
    Verdict.VIOLATED: EXIT_VIOLATED,
    Verdict.INCONCLUSIVE: EXIT_UNDECIDED,
    Verdict.NOT_EXERCISED: EXIT_NOTHING,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the proofs asked for; the exit status is that of the worst verdict."""
    options = _parser().parse_args(arguments)
    try:
        return _run(options)
    except MemtraceError as error:
        print(f"memtrace: {error}", file=sys.stderr)
        return EXIT_MISUSE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="memtrace prove", description="Runnable claims about an agent's memory.")
    parser.add_argument("numbers", nargs="*", type=int, metavar="N")
    parser.add_argument("--memory", default="reference")
    parser.add_argument("--store", default="")
    parser.add_argument("--model-url")
    parser.add_argument("--model")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--replay", type=Path)
    return parser


def _run(options: argparse.Namespace) -> int:
    chosen = [_numbered(number) for number in options.numbers] or list(PROOFS)
    if options.replay:
        results = replay(_text(options.replay), chosen, name=str(options.replay))
        for proof, acts in results.items():
            _print(proof, acts)
    else:
        results = _results(chosen, options)
    if options.json:
        write_private(options.json, as_json(options.memory, results))
    if left := told(one for acts in results.values() for result in acts for one in result.left):
        print(left)
    print(", ".join(summed_up(proof, acts) for proof, acts in results.items()))
    return _EXIT.get(worst(verdict_of(acts) for acts in results.values()), EXIT_HELD)


def _results(chosen: Sequence[Proof], options: argparse.Namespace) -> dict[Proof, list[Result]]:
    if bool(options.model_url) != bool(options.model):
        raise UsageError(
            "--model-url and --model go together: an OpenAI-compatible base URL, and the model to ask for there"
        )
    results = {}
    with ExitStack() as stack:
        upstream = stack.enter_context(closing(Upstream(options.model_url, options.model))) if options.model else None
        if any(proof.stores for proof in chosen):
            open_named(options.memory, stores_named(options.store))
        alone = any(not proof.stores for proof in chosen)
        suite = stack.enter_context(_on_one_store(options, upstream)) if alone else None
        for proof in chosen:
            if suite is not None and not proof.stores:
                results[proof] = [run(act, suite) for act in proof.acts]
            else:
                stores = stores_named(options.store or ",".join(proof.stores))
                results[proof] = run_on_each(proof, options.memory, stores=stores, upstream=upstream)
            _print(proof, results[proof])
    return results


@contextmanager
def _on_one_store(options: argparse.Namespace, upstream: Upstream | None) -> Iterator[Suite]:
    with make_suite(options.memory, store=_store(options.store), upstream=upstream) as suite:
        if suite.store.missing:
            raise UsageError(suite.store.missing)
        suite.probe()
        yield suite


def _store(words: str) -> TestedStore:
    stores = stores_named(words)
    if len(stores) > 1:
        raise UsageError("only proof 5 runs on several stores: name one with --store, or run `memtrace prove 5`")
    return stores[0]


def _print(proof: Proof, acts: Sequence[Result]) -> None:
    print("\n".join(printed(proof, acts)), end="\n\n", flush=True)


def _numbered(number: int) -> Proof:
    for proof in PROOFS:
        if proof.number == number:
            return proof
    raise UsageError(f"there is no proof {number}; there are {', '.join(str(proof.number) for proof in PROOFS)}")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from None


if __name__ == "__main__":
    silence_logs()  # what a memory warns of here was asked for, and is in the history
    sys.exit(main())
