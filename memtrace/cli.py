"""The command line: parsing only. The suite and the proofs are run by name, in a child Python."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from memtrace.errors import MemtraceError

MISUSE = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status says how it went (4: misuse)."""
    options = _parser().parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = options.run
    try:
        return run(options)
    except MemtraceError as error:
        print(f"memtrace: {error}", file=sys.stderr)
        return MISUSE
    except BrokenPipeError:
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="memtrace", description="See what an agent's memory does; hold it to its promises."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _check_command(commands.add_parser("check", help="run the boundary suite on a memory"))
    _prove_command(commands.add_parser("prove", help="run the proofs, on a memory or on the reference"))
    _rules_command(commands.add_parser("rules", help="list the rules, or show one rule's page"))
    _adapter_command(commands.add_parser("adapter", help="validate an adapter before any rule runs"))
    _init_command(commands.add_parser("init", help="write a first adapter and a CI file"))
    _show_command(commands.add_parser("show", help="show a recorded history as a tree"))
    _learn_command(commands.add_parser("learn", help="mine past turns of the reference memory for facts"))
    _power_command(commands.add_parser("power", help="run the suite on memories that are wrong on purpose"))
    return parser


# check


def _check_command(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("memory", help="a known name, or package.module:factory")
    parser.add_argument("--store", help="the URL of a store of yours; nothing destructive runs on it unless asked for")
    parser.add_argument(
        "--rule", action="append", default=[], metavar="GLOB", help="only rules that match; may be repeated"
    )
    parser.add_argument("--destructive", action="store_true", help="let tests damage the store given with --store")
    parser.add_argument(
        "--full-evidence", action="store_true", help="show whole prompts, not 80 characters around a word"
    )
    parser.add_argument("--json", metavar="FILE", help="write the ledger as JSON")
    parser.add_argument("--junit", metavar="FILE", help="write JUnit XML")
    parser.add_argument("--markdown", metavar="FILE", help="write the ledger as Markdown, for a job summary")
    parser.set_defaults(run=_check)


def _check(options: argparse.Namespace) -> int:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--no-header",
        "--pyargs",
        "boundary_tests",
        "--memory",
        options.memory,
    ]
    for rule in options.rule:
        command += ["--rule", rule]
    named = {
        "--store": options.store,
        "--ledger-json": options.json,
        "--junitxml": options.junit,
        "--ledger-markdown": options.markdown,
    }
    for option, value in named.items():
        command += [option, value] if value else []
    command += ["--destructive"] if options.destructive else []
    command += ["--full-evidence"] if options.full_evidence else []
    return subprocess.call(command)


# prove


def _prove_command(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("numbers", nargs="*", type=int, metavar="N", help="which proofs; all of them by default")
    parser.add_argument(
        "--memory", default="reference", help="the system to prove it of (default: the reference memory)"
    )
    parser.add_argument("--store", help="the URL of a store")
    parser.add_argument("--model-url", help="an OpenAI-compatible base URL: let a real model answer")
    parser.add_argument("--model", help="the model to ask for there")
    parser.add_argument("--json", metavar="FILE", help="write claims, evidence and verdicts as JSON")
    parser.add_argument("--replay", metavar="FILE", help="judge a saved history again, instead of running anything")
    parser.set_defaults(run=_prove)


def _prove(options: argparse.Namespace) -> int:
    command = [sys.executable, "-m", "proofs", *(str(number) for number in options.numbers), "--memory", options.memory]
    named = {
        "--store": options.store,
        "--model-url": options.model_url,
        "--model": options.model,
        "--json": options.json,
        "--replay": options.replay,
    }
    for option, value in named.items():
        command += [option, value] if value else []
    return subprocess.call(command)


# rules


def _rules_command(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("rule", nargs="?", help="a rule's id: show its page")
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(run=_rules)


def _rules(options: argparse.Namespace) -> int:
    from memtrace.harness import pages

    if options.json:
        print(pages.as_json([options.rule] if options.rule else []))
    else:
        print(pages.page(options.rule) if options.rule else pages.listing())
    return 0


# adapter, init, show


def _adapter_command(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action", choices=["check", "capabilities"], help="validate an adapter, or list what it may claim"
    )
    parser.add_argument("memory", nargs="?", help="a known name, or package.module:factory")
    parser.set_defaults(run=_adapter)


def _adapter(options: argparse.Namespace) -> int:
    from memtrace.errors import UsageError
    from memtrace.harness.session import make_suite
    from memtrace.harness.system import CAPABILITIES

    if options.action == "capabilities":
        width = max(map(len, CAPABILITIES))
        print("\n".join(f"{name:<{width}}  {capability.meaning}" for name, capability in CAPABILITIES.items()))
        return 0
    if not options.memory:
        raise UsageError("memtrace adapter check: name a memory")
    sys.path.insert(0, "")
    with make_suite(options.memory) as suite:
        claims = suite.probe()
    print(f"{options.memory} can be judged; it claims {', '.join(sorted(claims))}")
    return 0


def _init_command(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", nargs="?", type=Path, default=Path(), help="where to (default: here)")
    parser.set_defaults(run=_init)


def _init(options: argparse.Namespace) -> int:
    from memtrace.harness.scaffold import write_first_files

    for path in write_first_files(options.directory):
        print(f"wrote {path}")
    print("next: memtrace check memory_under_test:make")
    return 0


def _show_command(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="a history, as JSON lines")
    parser.set_defaults(run=_show)


def _show(options: argparse.Namespace) -> int:
    from memtrace.errors import UsageError
    from memtrace.harness.history import History
    from memtrace.harness.showing import tree

    try:
        print(tree(History.read(options.file)))
    except OSError as error:
        raise UsageError(f"{options.file}: {error.strerror}") from None
    return 0


# learn


def _learn_command(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", default="memory.db", help="where the facts are (default: memory.db)")
    parser.add_argument("--turns", default="turns.db", help="where past turns were kept (default: turns.db)")
    parser.add_argument("--agent", required=True, help="the agent whose turns are mined")
    parser.add_argument("--model-url", required=True, help="an OpenAI-compatible base URL")
    parser.add_argument("--model", required=True, help="the model that extracts facts")
    parser.add_argument(
        "--scope", choices=["agent", "user", "project"], default="agent", help="whose facts they become"
    )
    parser.add_argument("--scope-id", default="", help="which user, or which project's")
    parser.add_argument("--project-id", default="", help="the project that partitions everything")
    parser.add_argument("--window", type=float, metavar="HOURS", help="only turns of the last so many hours")
    parser.add_argument("--max-traces", type=int, default=100, help="turns to mine at most (default: 100)")
    parser.add_argument(
        "--allow-personal", action="store_true", help="file what people say about themselves, at user or project scope"
    )
    parser.add_argument("--dry-run", action="store_true", help="only tell what would be kept")
    parser.set_defaults(run=_learn)


def _learn(options: argparse.Namespace) -> int:
    from memtrace.reference.learn_command import learn

    print(learn(options))
    return 0


# power


def _power_command(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", metavar="FILE", help="write the matrix as JSON")
    parser.set_defaults(run=_power)


def _power(options: argparse.Namespace) -> int:
    return subprocess.call(
        [sys.executable, "-m", "memtrace.broken.power", *(["--json", options.json] if options.json else [])]
    )


if __name__ == "__main__":
    sys.exit(main())
