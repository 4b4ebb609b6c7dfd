"""Whose turn it is: read from the run's context, once."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from memtrace.stores.rows import is_storable

_log = logging.getLogger(__name__)

Resolver = Callable[[object], object]


@dataclass(frozen=True, slots=True)
class Resolved:
    """A user, and which of their conversations."""

    user: str
    session: str = ""


class NotAnId(ValueError):
    """A resolver gave something that names nobody."""


def resolve(
    context: object | None, user_id: str | Resolver | None, session_id: Resolver | None = None
) -> Resolved | None:
    """The caller, or ``None`` where it cannot be told who they are; that is logged, without any id.

    An id is a non-empty ``str`` without NUL, an ``int`` or a ``uuid.UUID``. Anything else has a text form that need
    not be theirs: an object's holds its address, which the next object may get. Without a context no resolver is
    asked. A session of ``None`` or ``""`` is the conversation of a user who names none.
    """
    if user_id is None:
        return None
    try:
        user = _id(user_id) if isinstance(user_id, str) else _user(user_id, context)
        return Resolved(user, _session(session_id, context))
    except NotAnId as error:
        reason = str(error)
    except Exception as error:  # noqa: BLE001  the application's own code may raise anything; its text may hold an id
        reason = f"its resolver raised {type(error).__name__}"
    _log.warning("the caller of a turn is unknown (%s): it sees the agent's facts only and nothing is kept", reason)
    return None


def _session(session_id: Resolver | None, context: object | None) -> str:
    if session_id is None or context is None:
        return ""
    value = session_id(context)
    return "" if value is None or (isinstance(value, str) and not value) else _id(value)


def _user(user_id: Resolver, context: object | None) -> str:
    if context is None:
        raise NotAnId("it has no context")
    return _id(user_id(context))


def _id(value: object) -> str:
    if inspect.iscoroutine(value):
        value.close()  # unawaited, it would warn
    if isinstance(value, bool) or not isinstance(value, (str, int, UUID)):
        raise NotAnId(f"its resolver gave {type(value).__name__}, not an id")
    if not (text := str(value)) or not is_storable(text):
        raise NotAnId("its resolver gave an id that is empty, or that no store can keep")
    return text
