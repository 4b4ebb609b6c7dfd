"""Ids leave the process only as keyed digests: equal ids can be matched, none can be read or guessed.

A digest is an HMAC-SHA256, domain-separated by the kind of id and the tenant, so that a user and a session with the
same id do not look alike. The key is ``MEMTRACE_ID_KEY``, or the content of the file ``MEMTRACE_ID_KEY_FILE`` names,
at least 32 bytes. Where neither is set the key is random for this process, with one warning; where it is set but bad,
there is no key and ids are dropped. The key is in no repr, span or log. ``MEMTRACE_ID_TENANT`` names the tenant that a
process serves; a bad name drops ids too, since without one the ids of two tenants would look alike.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import warnings
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal

IdKind = Literal["user", "session", "conversation", "record", "agent", "scope", "instance"]

_KEY = "MEMTRACE_ID_KEY"
_KEY_FILE = "MEMTRACE_ID_KEY_FILE"
_TENANT = "MEMTRACE_ID_TENANT"
_LONGEST_TENANT = 128
_LEAST = 32
_DIGITS = 32
_CHECK_DIGITS = 8


class IdKeyWarning(UserWarning):
    """The id key is missing: digests cannot be matched across processes. Or key or tenant is bad: ids are dropped."""


@dataclass(frozen=True, slots=True)
class IdKey:
    """A secret of at least 32 bytes, and the tenant whose ids it digests. ``id`` names it without telling it."""

    secret: bytes = field(repr=False)
    tenant: str = field(default="", repr=False)

    @property
    def id(self) -> str:
        """Eight hex digits that tell two keys apart."""
        return hashlib.sha256(b"memtrace key id\0" + self.secret).hexdigest()[:8]

    def digest(self, kind: IdKind, value: str, tenant: str = "") -> str:
        """32 hex digits for an id; the same for the same key, kind, tenant (by default the key's) and value only."""
        tenant = tenant or self.tenant
        lengths = b"".join(len(part.encode("utf-8", "surrogatepass")).to_bytes(4, "big") for part in (kind, tenant))
        message = lengths + f"{kind}{tenant}{value}".encode("utf-8", "surrogatepass")
        digest = hmac.digest(self.secret, message, "sha256").hex()[: _DIGITS - _CHECK_DIGITS]
        return digest + self._check(digest)

    def made(self, text: str) -> bool:
        """Whether a text is a digest of this key's: its last digits are a keyed check of the others.

        So an exporter can tell a digest from any other hex digits, such as somebody's words in hex.
        """
        digest, check = text[:-_CHECK_DIGITS], text[-_CHECK_DIGITS:]
        return len(text) == _DIGITS and text.isascii() and hmac.compare_digest(check, self._check(digest))

    def _check(self, digest: str) -> str:
        return hmac.digest(self.secret, b"memtrace digest check\0" + digest.encode(), "sha256").hex()[:_CHECK_DIGITS]


@lru_cache(maxsize=1)
def id_key() -> IdKey | None:
    """The key of this process; ``None`` where the environment's is unusable, and then ids are to be dropped."""
    tenant = os.environ.get(_TENANT, "")
    secret, unreadable = _configured()
    if fault := unreadable or _fault(secret, tenant):
        _warn(f"{fault}; ids are dropped")
        return None
    if secret is None:
        _warn(
            f"{_KEY} is not set: ids are digested with a key of this process alone; set it to at least {_LEAST} bytes"
        )
    return IdKey(secret or secrets.token_bytes(_LEAST), tenant)


def _configured() -> tuple[bytes | None, str]:
    """The key as the environment gives it, ``None`` where it gives none; and why it could not be read."""
    if path := os.environ.get(_KEY_FILE):
        try:
            return Path(path).read_bytes().strip(), ""
        except OSError as error:
            return None, f"{_KEY_FILE} cannot be read ({error.strerror})"
    text = os.environ.get(_KEY)
    return (os.fsencode(text) if text else None), ""


def _fault(secret: bytes | None, tenant: str) -> str:
    if secret is not None and len(secret) < _LEAST:
        return f"{_KEY_FILE if os.environ.get(_KEY_FILE) else _KEY} is shorter than {_LEAST} bytes"
    if len(tenant) > _LONGEST_TENANT or not tenant.isprintable() or tenant != tenant.strip():
        return f"{_TENANT} is no name of at most {_LONGEST_TENANT} printable characters without spaces around it"
    return ""


def _warn(text: str) -> None:
    # From no file and line: Python would show a line of code below it.
    warnings.warn_explicit(text, IdKeyWarning, "memtrace", 0)
