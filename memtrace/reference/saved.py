"""A conversation in a file: whose it is, and all of it or nothing.

A file is written beside its place and moved there in one step, so a crash leaves the old file or the new one. It names
its owner, and is given back to nobody else. It replaces only an earlier state of the same conversation: a window that
was dropped and begun anew cannot overwrite the one it does not continue.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeGuard

from memtrace.errors import TraceFormatError, UsageError
from memtrace.reference.recall import Namespace
from memtrace.reference.window import Conversation, Turn

_FORMAT: Final = "memtrace window 1"


def save(path: Path, owner: Namespace, conversation: Conversation, *, erasure: str) -> Conversation:
    """Write a conversation to a file; it comes back with the revision it was saved under.

    ``erasure`` is the user's last erasure: a file older than the next one will not be given back.

    Raises:
        UsageError: there is nothing to save, the file cannot be written, or it holds something that would be lost.
        TraceFormatError: the file is there, and no saved window.
    """
    if not conversation.turns and not conversation.summary:
        raise UsageError(
            f"nothing to save in {path}: this process keeps no conversation of that user; the file is as it was"
        )
    _check_replaceable(path, owner, conversation)
    revised = replace(conversation, revision=conversation.revision + 1)
    try:
        _write(path, json.dumps(_content(owner, revised, erasure)))
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error
    return revised


def load(path: Path, owner: Namespace, *, erasure: str) -> Conversation:
    """The conversation that a file holds.

    Raises:
        UsageError: there is no such file, it is another user's, or its user was erased since.
        TraceFormatError: it is cut short, or no saved window.
    """
    content = _read(path)
    if content is None:
        raise UsageError(f"{path} is not there: save a window first")
    _check_owner(path, content, owner)
    if content["erasure"] != erasure:
        raise UsageError(f"{path} was saved before its user was erased: it is not given back")
    return _conversation(content)


def remove(path: Path, owner: Namespace) -> bool:
    """Delete a user's file, whole or cut short, and what a crash while it was written left beside it; if it was there.

    Raises:
        UsageError: it is there and cannot be deleted.
    """
    try:
        files = [path, *(part for part in path.parent.iterdir() if part.name.startswith(_part(path)))]
        theirs = [file for file in files if file.is_file() and file.read_bytes().startswith(_header(owner))]
        for file in theirs:
            file.unlink(missing_ok=True)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise UsageError(f"{path} cannot be deleted: {error.strerror}") from error
    return path in theirs


def _check_replaceable(path: Path, owner: Namespace, conversation: Conversation) -> None:
    content = _read(path)
    if content is None:
        return
    _check_owner(path, content, owner)
    if (content["conversation"], content["revision"]) != (conversation.id, conversation.revision):
        raise UsageError(
            f"{path} holds a conversation that this one does not continue: load it first, or save elsewhere"
        )


def _check_owner(path: Path, content: dict[str, Any], owner: Namespace) -> None:
    if _owner(content) != owner:
        raise UsageError(f"{path} is the window of another user or project: name the one it was saved for")


def _owner(content: dict[str, Any]) -> Namespace:
    return Namespace(content["project"], content["user"])


def _header(owner: Namespace) -> bytes:
    """How a file of this owner begins."""
    head = {"format": _FORMAT, "project": owner.project, "user": owner.user}
    return json.dumps(head).removesuffix("}").encode()


def _part(path: Path) -> str:
    return f".{path.name[:50]}-part-"


def _content(owner: Namespace, conversation: Conversation, erasure: str) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "project": owner.project,
        "user": owner.user,
        "erasure": erasure,
        "conversation": conversation.id,
        "revision": conversation.revision,
        "summary": conversation.summary,
        "turns": [[turn.question, turn.answer] for turn in conversation.turns],
        "unsummarized": [[turn.question, turn.answer] for turn in conversation.unsummarized],
    }


def _conversation(content: dict[str, Any]) -> Conversation:
    return Conversation(
        content["conversation"],
        content["revision"],
        tuple(Turn(*pair) for pair in content["turns"]),
        content["summary"],
        tuple(Turn(*pair) for pair in content["unsummarized"]),
    )


def _read(path: Path) -> dict[str, Any] | None:
    """A saved window's content; ``None`` where no file is."""
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise TraceFormatError(
            f"{path} is no saved window, or only part of one: nothing was loaded or changed"
        ) from error
    if not _is_saved_window(content):
        raise TraceFormatError(f"{path} is no saved window, or only part of one: nothing was loaded or changed")
    return content


def _is_saved_window(content: object) -> TypeGuard[dict[str, Any]]:
    return (
        isinstance(content, dict)
        and content.get("format") == _FORMAT
        and all(
            isinstance(content.get(name), str) for name in ("project", "user", "erasure", "conversation", "summary")
        )
        and isinstance(content.get("revision"), int)
        and all(_is_turns(content.get(name)) for name in ("turns", "unsummarized"))
    )


def _is_turns(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(text, str) for text in pair) for pair in value
    )


def _write(path: Path, text: str) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=_part(path))  # mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:  # an interrupt too may not leave half a file
        Path(name).unlink(missing_ok=True)
        raise
