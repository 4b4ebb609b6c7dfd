"""Run proofs: ``python -m proofs [N …] --memory NAME``; `memtrace prove` is the same."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final

from memtrace.errors import MemtraceError, UsageError
from memtrace.harness.ledger import (
    EXIT_HELD,
    EXIT_INTERRUPTED,
    EXIT_MISUSE,
    EXIT_NOTHING,
    EXIT_UNDECIDED,
    EXIT_VIOLATED,
)
from memtrace.harness.private import write_private
from memtrace.harness.session import Suite, make_suite
from memtrace.harness.tested_store import TestedStore, stores_named
from memtrace.harness.upstream import Upstream
from memtrace.model import Verdict
from proofs import (
    proof_1_turns,
    proof_2_users,
    proof_3_authors,
    proof_4_processes,
    proof_5_backends,
    proof_6_plane,
)
from proofs.act import Played, Proof, play, verdict_of, worst
from proofs.report import as_json, printed, replay, summed_up
from proofs.stores import play_on_each

PROOFS: Final[tuple[Proof, ...]] = tuple(
    module.PROOF
    for module in (
        proof_1_turns,
        proof_2_users,
        proof_3_authors,
        proof_4_processes,
        proof_5_backends,
        proof_6_plane,
    )
)
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
        for proof, played in results.items():
            _print(proof, played)
    else:
        results = _played(chosen, options)
    if options.json:
        write_private(options.json, as_json(options.memory, results))
    print(", ".join(summed_up(proof, played) for proof, played in results.items()))
    return _EXIT.get(worst(verdict_of(played) for played in results.values()), EXIT_HELD)


def _played(chosen: Sequence[Proof], options: argparse.Namespace) -> dict[Proof, list[Played]]:
    if bool(options.model_url) != bool(options.model):
        raise UsageError(
            "--model-url and --model go together: an OpenAI-compatible base URL, and the model to ask for there"
        )
    results = {}
    with ExitStack() as stack:
        upstream = stack.enter_context(closing(Upstream(options.model_url, options.model))) if options.model else None
        alone = any(not proof.stores for proof in chosen)
        suite = stack.enter_context(_on_one_store(options, upstream)) if alone else None
        for proof in chosen:
            if suite is not None and not proof.stores:
                results[proof] = [play(act, suite) for act in proof.acts]
            else:
                stores = stores_named(options.store or ",".join(proof.stores))
                results[proof] = play_on_each(proof, options.memory, stores, upstream)
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
        raise UsageError("--store: but for proof 5 the proofs run on one store at a time; name one")
    return stores[0]


def _print(proof: Proof, played: Sequence[Played]) -> None:
    print("\n".join(printed(proof, played)), end="\n\n", flush=True)


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
    logging.getLogger("memtrace").setLevel(logging.ERROR)  # what a memory warns of here was asked for
    sys.exit(main())
