"""API keys: who may do what."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What a key is for."""

    CURATOR = "curator"
    READER = "reader"


@dataclass(frozen=True, slots=True)
class Key:
    """An API key, without the key itself.

    Attributes:
        agents: whose facts it reads; empty: everyone's.
        revoked_at: when it stopped working; ``None``: it works.
    """

    id: str
    name: str
    role: Role
    agents: frozenset[str]
    created_at: float
    revoked_at: float | None = None

    def reads(self, agent_id: str) -> bool:
        """Whether it may be told that agent's facts."""
        return not self.agents or agent_id in self.agents


def new_secret() -> str:
    """A key: 256 random bits behind a prefix that secret scanners can look for."""
    return f"mtp_{secrets.token_urlsafe(32)}"


def digest(secret: str) -> str:
    """What is kept of a key.

    A slow hash protects what people make up. Nobody guesses 256 random bits, so one SHA-256 is as safe, and costs a
    read nothing. It is looked up by its digest, so that no comparison's time tells anything about a key.
    """
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
