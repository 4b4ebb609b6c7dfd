"""The command line: parsing only. The suite, the proofs and the gallery are reached by name, in a Python of their own."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NoReturn

from memtrace.errors import MemtraceError, UsageError

INTERRUPTED: Final = 2
MISUSE: Final = 4
EXTRAS: Final = {
    "export": ("opentelemetry.sdk",),
    "plane": ("httpx", "jinja2", "starlette", "uvicorn"),
    "reference": ("httpcore", "httpx", "numpy", "usearch"),
    "suite": (
        "anyio", "httpcore", "httpx", "hypothesis", "jinja2", "msgspec", "numpy", "opentelemetry.sdk", "pytest",
        "starlette", "usearch", "uvicorn",
    ),
}  # fmt: skip
"""What commands need of an extra of the distribution, as modules."""


_OF_THE_SUITE: Final = (
    "-p", "no:cacheprovider", "-o", "addopts=", "-o", "filterwarnings=",
    "-o", "python_files=test_*.py", "-o", "python_functions=test_",
)  # fmt: skip
"""What the project that we are in says of its own tests, in its ini file, does not hold for the suite's."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit status says how it went (2: interrupted, 4: misuse)."""
    try:
        return _run(arguments)
    except MemtraceError as error:
        print(f"memtrace: {error}", file=sys.stderr)
        return MISUSE
    except KeyboardInterrupt:
        print("memtrace: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read this has left; Python must not complain when it flushes what is left at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(arguments: Sequence[str] | None) -> int:
    options, unknown = _parser().parse_known_args(arguments)
    if unknown:
        raise UsageError(f"{options.command} does not know {unknown[0]!r} (see memtrace {options.command} --help)")
    run: Callable[[argparse.Namespace], int] = options.run
    status = run(options)
    sys.stdout.flush()
    return status


class _Parser(argparse.ArgumentParser):
    """Misuse is one line; argparse's own status for it, 2, is *interrupted* here."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} (see {self.prog} --help)")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="memtrace", description="See what an agent's memory does; hold it to its promises.")
    parser.add_argument("--version", action="version", version=f"memtrace {_version()}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    _check_command(commands.add_parser("check", help="run the boundary suite on a memory"))
    _prove_command(commands.add_parser("prove", help="run the proofs, on a memory or on the reference"))
    _rules_command(commands.add_parser("rules", help="list the rules, or show one rule's page"))
    _adapter_command(commands.add_parser("adapter", help="validate an adapter before any rule runs"))
    _init_command(commands.add_parser("init", help="write a first adapter and a CI file"))
    _show_command(commands.add_parser("show", help="show a recorded history as a tree"))
    _learn_command(commands.add_parser("learn", help="mine past turns of the reference memory for facts"))
    _services_command(commands.add_parser("services", help="run a Postgres and a Redis server to try things on"))
    _power_command(commands.add_parser("power", help="run the suite on memories that are wrong on purpose"))
    _record_command(commands.add_parser("record", help="remove a user from a local record of spans"))
    _plane_command(commands.add_parser("plane", help="serve facts that people curate, and make keys for it"))
    return parser


def _version() -> str:
    try:
        return version("memtrace-otel")
    except PackageNotFoundError:
        return "(not installed)"


def _need(extra: str) -> None:
    """Raise `UsageError`, one line, where an extra was not installed."""
    if module := _missing(extra):
        raise UsageError(f"this needs {module}, which is not here: pip install 'memtrace-otel[{extra}]'")


def _missing(extra: str) -> str:
    """The first module of an extra that was not installed, or ``""``."""
    return next((module for module in EXTRAS[extra] if find_spec(module) is None), "")


def _become(module: str, *arguments: str) -> NoReturn:
    """Become ``python -m module``: its signals, its output and its exit status are this command's own."""
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])  # noqa: S606  no shell is wanted


def _given(**options: str | int | None) -> list[str]:
    """Options that were given, as words of a command line."""
    return [f"--{name.replace('_', '-')}={value}" for name, value in options.items() if value not in (None, "")]


# check


def _check_command(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("memory", help="a known name, or package.module:factory")
    parser.add_argument(
        "--store", metavar="STORES",
        help="what scripts run on, with commas between: sqlite, postgres, redis (a server is started), or the URL of a"
        " store of yours; nothing destructive runs on that unless asked for",
    )  # fmt: skip
    parser.add_argument(
        "--rule", action="append", default=[], metavar="GLOB", help="only scripts of rules that match; may be repeated"
        " (invariants that these scripts bear on are judged too)",
    )  # fmt: skip
    parser.add_argument("--scripts", type=_count, metavar="N", help="how many random scripts to play as well")
    parser.add_argument("--timed", action="store_true", help="judge the rules that time reads too")
    parser.add_argument("--destructive", action="store_true", help="let tests damage the store given with --store")
    parser.add_argument(
        "--full-evidence", action="store_true", help="show whole prompts, not 80 characters around a word"
    )
    parser.add_argument("--history", metavar="DIR", help="keep what each script recorded, for memtrace show")
    parser.add_argument("--json", metavar="FILE", help="write the ledger as JSON")
    parser.add_argument("--junit", metavar="FILE", help="write JUnit XML")
    parser.add_argument("--markdown", metavar="FILE", help="write the ledger as Markdown, for a job summary")
    parser.set_defaults(run=_check)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of scripts")
    return int(text)


def _check(options: argparse.Namespace) -> int:
    _need("suite")
    from memtrace.harness.rules import as_glob

    command = ["-q", "--no-header", "--show-capture=no", *_OF_THE_SUITE, "--memtrace-check"]
    command += ["--pyargs", "boundary_tests"]
    command += ["--memory", options.memory, *(word for rule in options.rule for word in ("--rule", as_glob(rule)))]
    command += _given(
        store=options.store, scripts=options.scripts, history=options.history, ledger_json=options.json, junitxml=options.junit,
        ledger_markdown=options.markdown,
    )  # fmt: skip
    command += ["--timed"] if options.timed else []
    command += ["--destructive"] if options.destructive else []
    command += ["--full-evidence"] if options.full_evidence else []
    _become("pytest", *command)


# prove


def _prove_command(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("numbers", nargs="*", type=int, metavar="N", help="which proofs; all of them by default")
    parser.add_argument(
        "--memory", default="reference", help="the system to prove it of (default: the reference memory)"
    )
    parser.add_argument("--store", help="sqlite, postgres, redis (a server is started), or the URL of a store")
    parser.add_argument("--model-url", help="an OpenAI-compatible base URL: let a real model answer")
    parser.add_argument("--model", help="the model to ask for there")
    parser.add_argument("--json", metavar="FILE", help="write claims, evidence and verdicts as JSON")
    parser.add_argument("--replay", metavar="FILE", help="judge a saved report again, instead of running anything")
    parser.set_defaults(run=_prove)


def _prove(options: argparse.Namespace) -> int:
    _need("suite")
    given = _given(
        store=options.store, model_url=options.model_url, model=options.model, json=options.json, replay=options.replay
    )
    _become("proofs", *(str(number) for number in options.numbers), "--memory", options.memory, *given)


# rules


def _rules_command(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "rule", nargs="?", default="*", help="a rule's id: show its page; a boundary or a glob: list its rules"
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(run=_rules)


def _rules(options: argparse.Namespace) -> int:
    from memtrace.harness import pages
    from memtrace.harness.rules import RULES, as_glob, matching

    rules = matching(as_glob(options.rule))
    if options.json:
        print(pages.as_json(rules))
    else:
        print(pages.page(rules[0], exhibits=not _missing("suite")) if options.rule in RULES else pages.listing(rules))
    return 0


# adapter, init, show


def _adapter_command(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action", choices=["check", "capabilities"], help="validate an adapter, or list what it may claim"
    )
    parser.add_argument("memory", nargs="?", help="a known name, or package.module:factory")
    parser.add_argument("--store", default="", metavar="STORES", help="what it is opened on, as for memtrace check")
    parser.set_defaults(run=_adapter)


def _adapter(options: argparse.Namespace) -> int:
    _need("suite")
    from memtrace.harness.vetting import capabilities, vet

    if options.action == "capabilities":
        print(capabilities())
        return 0
    if not options.memory:
        raise UsageError("adapter check: name a memory, such as memory_under_test:make (memtrace init writes one)")
    vetted = vet(options.memory, options.store)
    print("\n".join(vetted.lines))
    return 0 if vetted.fit else MISUSE


def _init_command(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directory", nargs="?", type=Path, default=Path(), help="where to (default: here)")
    parser.set_defaults(run=_init)


def _init(options: argparse.Namespace) -> int:
    from memtrace.harness.scaffold import write_first_files

    for path in write_first_files(options.directory):
        print(f"wrote {path}")
    there = "" if options.directory.resolve() == Path.cwd() else f"cd {options.directory} && "
    print(f"next: {there}memtrace adapter check memory_under_test:make")
    print(f"then: {there}memtrace check memory_under_test:make")
    return 0


def _show_command(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="a history, as memtrace check --history DIR keeps them")
    parser.set_defaults(run=_show)


def _show(options: argparse.Namespace) -> int:
    _need("suite")
    from memtrace.harness.record.history import History
    from memtrace.harness.record.showing import tree

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
    parser.add_argument(
        "--model-url", required=True, help="an OpenAI-compatible base URL; the key is read from OPENAI_API_KEY"
    )
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
    _need("reference")
    from memtrace.reference.learn_command import learn, told

    mined = learn(
        store=options.store, turns=options.turns, agent=options.agent, model_url=options.model_url,
        model=options.model, scope=options.scope, scope_id=options.scope_id, project_id=options.project_id,
        hours=options.window, max_traces=options.max_traces, personal=options.allow_personal, dry_run=options.dry_run,
    )  # fmt: skip
    print(told(mined, dry_run=options.dry_run))
    return 1 if mined.failed else 0


# services


def _services_command(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["up"], help="start them, print their URLs, and hold them until Ctrl-C")
    parser.add_argument("kinds", nargs="*", default=(), metavar="KIND", help="postgres, redis (default: both)")
    parser.add_argument("--durable", action="store_true", help="let them wait for the disk at each write")
    parser.set_defaults(run=_services_up)


def _services_up(options: argparse.Namespace) -> int:
    from memtrace.harness.services.server import KINDS
    from memtrace.harness.services.up import up

    up(options.kinds or KINDS, durable=options.durable, tell=partial(print, flush=True))
    return 0


# power


def _power_command(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "rules", nargs="*", metavar="GLOB", help="only memories that break, or seem to break, such rules"
    )
    parser.add_argument("--json", metavar="FILE", help="write the matrix as JSON")
    parser.set_defaults(run=_power)


def _power(options: argparse.Namespace) -> int:
    _need("suite")
    _become("memtrace.broken.power", *options.rules, *_given(json=options.json))


# record


def _record_command(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["erase"], help="remove every trace of a user")
    parser.add_argument("user", help="the user's id")
    parser.add_argument("--record", type=Path, required=True, metavar="DIRECTORY", help="where the record is")
    parser.set_defaults(run=_record)


def _record(options: argparse.Namespace) -> int:
    _need("export")
    from memtrace.export import erase

    print(f"{erase(options.record, options.user)} spans erased")
    return 0


# plane


def _plane_command(parser: argparse.ArgumentParser) -> None:
    store = _Parser(add_help=False)
    store.add_argument(
        "--store", default="plane.db", metavar="PATH|URL", help="a file, or postgresql://… (default: plane.db)"
    )
    actions = parser.add_subparsers(required=True, metavar="ACTION", dest="action")
    _plane_serve_command(actions.add_parser("serve", parents=[store], help="serve the plane and its page"))
    key = actions.add_parser("key", help="make, list and revoke API keys")
    _plane_key_commands(key.add_subparsers(required=True, metavar="WHAT", dest="what"), store)


def _plane_serve_command(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8700, help="the port; 0: any free one (default: 8700)")
    parser.add_argument("--access-log", action="store_true", help="log each request, without its query and its key")
    parser.set_defaults(run=_plane_serve)


def _plane_key_commands(
    whats: argparse._SubParsersAction[argparse.ArgumentParser], store: argparse.ArgumentParser
) -> None:
    create = whats.add_parser("create", parents=[store], help="make a key, and show it this once")
    create.add_argument("--role", required=True, choices=["curator", "reader"], help="what it may do")
    create.add_argument("--name", default="", help="whose it is, for the audit trail (default: the role)")
    create.add_argument("--agent", action="append", default=[], metavar="ID", help="only this agent; may be repeated")
    create.set_defaults(run=_plane_key_create)
    whats.add_parser("list", parents=[store], help="list the keys").set_defaults(run=_plane_key_list)
    revoke = whats.add_parser("revoke", parents=[store], help="end a key, at once")
    revoke.add_argument("id", help="the key's id, as listed")
    revoke.set_defaults(run=_plane_key_revoke)


def _plane_serve(options: argparse.Namespace) -> int:
    _need("plane")
    from memtrace.service.serve import serve

    serve(options.store, host=options.host, port=options.port, access_log=options.access_log)
    return 0


def _plane_key_create(options: argparse.Namespace) -> int:
    _need("plane")
    from memtrace.service.serve import create_key

    print(create_key(options.store, options.role, options.name, options.agent))
    return 0


def _plane_key_list(options: argparse.Namespace) -> int:
    _need("plane")
    from memtrace.service.serve import list_keys

    print("\n".join(list_keys(options.store)) or "there are no keys yet")
    return 0


def _plane_key_revoke(options: argparse.Namespace) -> int:
    _need("plane")
    from memtrace.service.serve import revoke_key

    revoke_key(options.store, options.id)
    print(f"revoked {options.id}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
