"""As whom a server runs that refuses to run as root."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from memtrace.harness.services.server import NotHere

_IN_NAMESPACE: Final = ("unshare", "--user", "--map-user=65534", "--map-group=65534")
_CANDIDATES: Final = ("postgres", "nobody")


@dataclass(frozen=True, slots=True)
class Account:
    """What a command is prefixed with to run as somebody, and who has to own its files (``None``: nobody else)."""

    prefix: tuple[str, ...] = ()
    owner: tuple[int, int] | None = None

    def take(self, directory: Path) -> None:
        """Let the account own a directory and all in it."""
        if self.owner is not None:
            for path in [directory, *directory.rglob("*")]:
                os.chown(path, *self.owner, follow_symlinks=False)


def server_account(binary: Path) -> Account:
    """Who may run a binary that refuses to run as root; `NotHere` where nobody can."""
    if os.geteuid() != 0:
        return Account()
    if _runs(Account(_IN_NAMESPACE), binary):
        return Account(_IN_NAMESPACE)
    for name in _CANDIDATES:
        if (account := _of_user(name)) is not None and _runs(account, binary):
            return account
    raise NotHere(
        "Postgres does not run as root, user namespaces are forbidden here, and no other user may run"
        f" {binary}: run as another user, or install where others may read"
    )


def _of_user(name: str) -> Account | None:
    try:
        user = pwd.getpwnam(name)
    except KeyError:
        return None
    ids = (f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")
    return Account(("setpriv", *ids), (user.pw_uid, user.pw_gid))


def _runs(account: Account, binary: Path) -> bool:
    if shutil.which(account.prefix[0]) is None:
        return False
    # By way of a shell: what changes the user may look the binary up with root's rights.
    command = [*account.prefix, "/bin/sh", "-c", 'exec "$0" --version', str(binary)]
    return subprocess.run(command, capture_output=True, check=False, cwd="/").returncode == 0  # noqa: S603
