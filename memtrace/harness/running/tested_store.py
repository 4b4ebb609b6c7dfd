"""The stores that scripts run on: a file in the script's directory, a server of ours, or a store of the adopter's."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from memtrace.errors import UsageError
from memtrace.harness.services import Server, Unavailable, discard, fresh, is_empty, start
from memtrace.harness.services.given import demand_driver, without_password
from memtrace.harness.services.named import demand_answer
from memtrace.harness.services.server import KINDS, NotHere
from memtrace.harness.system import SQLITE_URL

SQLITE: Final = "sqlite"
NAMES: Final = (SQLITE, *KINDS)
REQUIRED: Final = "MEMTRACE_REQUIRE_SERVICES"
OWN: Final = "its own"
"""The name of what a memory is judged on that leaves the store it is given empty."""
ELSEWHERE: Final = "the memory keeps its facts elsewhere than in the store that it is given"
# A comma may stand in a URL too, as between the hosts of a Postgres cluster.
_BETWEEN: Final = re.compile(rf",(?=(?:{'|'.join(NAMES)})(?:,|$)|[a-z][a-z0-9+.-]*://)")

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_HARMLESS: Final = re.compile(r"[\w.,/-]+")


@dataclass(slots=True)
class TestedStore:
    """One store that scripts run on. Use as a context manager, which runs the server it needs.

    Attributes:
        name: as test ids and the ledger show it; empty where none was asked for.
        url: where it is, if it is the adopter's own.
        missing: why nothing is played on it, if nothing is.
    """

    __test__ = False  # no test class, whatever pytest makes of its name

    name: str = ""
    url: str = ""
    missing: str = ""
    _server: Server | None = None

    def __enter__(self) -> Self:
        if self.url:
            demand_answer(self.url)
        if self.name in KINDS and not self.url:
            try:
                demand_driver(self.name)
                self._server = start(self.name)
            except NotHere as reason:
                if os.environ.get(REQUIRED) == "1":
                    raise Unavailable(self.name, [str(reason)]) from None
                self.missing = str(reason)
            except Unavailable as unavailable:
                if os.environ.get(REQUIRED) == "1":
                    raise
                self.missing = f"no {self.name} server can be had here: {'; '.join(unavailable.reasons)}"
        return self

    def __exit__(self, *_error: object) -> None:
        if self._server is not None:
            self._server.stop()

    @property
    def fresh(self) -> bool:
        """Whether each script has a place of its own in it, which it may damage."""
        return not self.url

    @property
    def word(self) -> str:
        """As a command line gives it, without a password."""
        return without_password(self.url) if self.url else self.name

    @contextmanager
    def place(self, directory: Path) -> Iterator[str]:
        """The URL that one script's system is given."""
        if self.missing:
            raise UsageError(self.missing)
        if self._server is None:
            yield self.url or f"{SQLITE_URL}{directory / 'memory.db'}"
            return
        url = fresh(self._server)
        try:
            yield url
        finally:
            discard(self._server, url)

    def holds(self, url: str) -> bool:
        """Whether anything was put where one script's system was given to."""
        if self._server is not None:
            return not is_empty(self._server, url)
        path = Path(url.removeprefix(SQLITE_URL))
        return path.exists() and path.stat().st_size > 0


def stores_named(words: str) -> list[TestedStore]:
    """The stores that a command line names: ``postgres,redis,sqlite``, or URLs, or both; one without a name for none.

    Raises:
        UsageError: a word is neither; or one is there twice.
    """
    found: list[TestedStore] = []
    for word in _BETWEEN.split(words) if words else []:
        if word not in NAMES and not _URL.match(word):
            raise UsageError(f"--store {_shown(word)} is neither a store's URL nor one of {', '.join(NAMES)}")
        if word in (store.url or store.name for store in found):
            raise UsageError(f"--store names {without_password(word)!r} twice")
        found.append(TestedStore(word) if word in NAMES else TestedStore(_name(word, found), word))
    return found or [TestedStore()]


def _shown(word: str) -> str:
    """A word that names no store, as a message may show it: only where it cannot hold a password."""
    return repr(word) if _HARMLESS.fullmatch(word) else "names what"


def _name(url: str, others: Sequence[TestedStore]) -> str:
    scheme, taken = url.partition(":")[0], {other.name for other in others}
    names = itertools.chain([scheme], (f"{scheme}-{n}" for n in itertools.count(2)))
    return next(name for name in names if name not in taken)
