"""Who is at the page: a signed cookie, and a token that each form of the page carries."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import time
from dataclasses import dataclass
from typing import Final

COOKIE: Final = "memtrace_plane"
LASTS: Final = 12 * 3600
"""Seconds."""


@dataclass(frozen=True, slots=True)
class Session:
    """A visit: the id of the key it was opened with (``""``: of nobody yet), and a nonce that no other visit has."""

    key_id: str
    nonce: str
    begun: int

    @property
    def text(self) -> str:
        """What is signed."""
        return f"{self.key_id}.{self.nonce}.{self.begun}"


def begin(key_id: str = "") -> Session:
    """A new visit."""
    return Session(key_id, secrets.token_urlsafe(16), int(time.time()))


def to_cookie(session: Session, secret: str) -> str:
    """The cookie's value."""
    return f"{session.text}.{_signed('session', session.text, secret)}"


def from_cookie(value: str, secret: str) -> Session | None:
    """The visit that a cookie of ours names; none where it is not ours, or too old."""
    text, _, signature = value.rpartition(".")
    if not _same(signature, _signed("session", text, secret)):
        return None
    key_id, nonce, begun = text.split(".")
    session = Session(key_id, nonce, int(begun))
    return session if time.time() - session.begun < LASTS else None


def form_token(session: Session, secret: str) -> str:
    """What a form must carry to be one of this visit's."""
    return _signed("form", session.text, secret)


def is_form_of(session: Session, token: str, secret: str) -> bool:
    """Whether the token is this visit's."""
    return _same(token, form_token(session, secret))


def _signed(use: str, text: str, secret: str) -> str:
    return hmac.new(secret.encode(), f"{use}:{text}".encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def _same(given: str, right: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), right.encode())
