"""A random script as plain data: how things stand, and what is done, line by line.

Any line fits anywhere, so that a script without some of its lines is a script: one that names what is not there yet
(a fact, a paused run, a saved window) does nothing. A ``who`` is a place among the callers, -1 the one who cannot be
told.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from typing import Any

import msgspec

from memtrace.errors import UsageError


class Line(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Something that is done."""


class Turn(Line, frozen=True, array_like=True, tag=True):
    """A turn, run to its end.

    ``asks`` names what is said, ``does`` what the model does, ``ends`` how the turn ends (``well``, or where it is
    stopped: ``model``, ``tool``, ``after_run``, ``input``, ``output``, ``limit``), ``via`` the way it takes.
    """

    who: int
    asks: str = "tells"
    does: str = "answers"
    ends: str = "well"
    via: str = "run"


class Leave(Line, frozen=True, array_like=True, tag=True):
    """A stream that is left after so many pieces."""

    who: int
    after: int = 1
    does: str = "answers"


class Cancel(Line, frozen=True, array_like=True, tag=True):
    """A turn that is cancelled where it is held."""

    who: int
    point: str = "model"


class Overlap(Line, frozen=True, array_like=True, tag=True):
    """Turns that are all held at a point, and then let go in an order: a place in ``whos`` each, repeated ones once."""

    whos: tuple[int, ...]
    point: str = "model"
    order: tuple[int, ...] = ()


class Pause(Line, frozen=True, array_like=True, tag=True):
    """A turn that pauses for an approval."""

    who: int


class GoOn(Line, frozen=True, array_like=True, tag=True):
    """A paused run is resumed, or forked, by its own caller or by another."""

    run: int
    who: int | None = None
    approved: bool = True
    fork: bool = False


class Add(Line, frozen=True, array_like=True, tag=True):
    """A fact is persisted, for the user or for the agent."""

    who: int
    asks: str = "tells"
    scope: str = "user"


class Update(Line, frozen=True, array_like=True, tag=True):
    """A fact gets a new text, by its own caller or by another; ``again`` is the text that it had at first."""

    fact: int
    who: int | None = None
    again: bool = False


class Forget(Line, frozen=True, array_like=True, tag=True):
    """A fact is forgotten, or without one all the caller's."""

    who: int | None = None
    fact: int | None = None


class Look(Line, frozen=True, array_like=True, tag=True):
    """What is kept of a caller is read: ``facts``, ``superseded`` ones too, ``get``, ``search`` or ``messages``."""

    who: int
    at: str = "facts"


class Save(Line, frozen=True, array_like=True, tag=True):
    """A caller's window is saved to a file."""

    who: int
    file: int = 0


class Load(Line, frozen=True, array_like=True, tag=True):
    """A caller's window is restored from a file, whoever's it is."""

    who: int
    file: int = 0


class Erase(Line, frozen=True, array_like=True, tag=True):
    """All there is of a caller is removed."""

    who: int


class Reopen(Line, frozen=True, array_like=True, tag=True):
    """The system is closed, and opened again on the same data."""


AnyLine = (
    Turn | Leave | Cancel | Overlap | Pause | GoOn | Add | Update | Forget | Look | Save | Load | Erase | Reopen
)  # fmt: skip


class RandomScript(msgspec.Struct, frozen=True, array_like=True):
    """How things stand, and what is done.

    Attributes:
        lines: what is done, in order.
        callers: how many there are whose user can be told; there is always one more whose user cannot.
        kin: what they have in common; see `playing`.
        ids: which ids, of those that look alike; see `playing`.
        unresolved: why the last one cannot be told, a value of `Unresolved`.
        options: what the system is opened with, sorted pairs.
    """

    lines: tuple[AnyLine, ...]
    callers: int = 2
    kin: str = "nothing"
    ids: int = 0
    unresolved: str = "none"
    options: tuple[tuple[str, Any], ...] = ()


def encode(script: RandomScript) -> str:
    """A script as one word of a command line."""
    return base64.urlsafe_b64encode(zlib.compress(msgspec.json.encode(script), 9)).decode().rstrip("=")


def decode(code: str) -> RandomScript:
    """The script that a word stands for.

    Raises:
        UsageError: it stands for none.
    """
    try:
        packed = base64.b64decode(code + "=" * (-len(code) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(zlib.decompress(packed), type=RandomScript)
    except (binascii.Error, zlib.error, msgspec.MsgspecError, ValueError) as error:
        raise UsageError(f"--script {code[:40]!r} is no random script: copy it whole from a report") from error
