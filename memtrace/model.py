"""The words everything else is written in: plain data, standard library only."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Author(StrEnum):
    """Who wrote a message. The values are the roles of the chat APIs."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Outcome(StrEnum):
    """How a turn ended."""

    OK = "ok"
    FAILED = "failed"
    """An exception that is nothing more special."""
    BLOCKED = "blocked"
    """A guardrail refused the input or the answer."""
    LIMIT = "limit"
    """The iteration limit was reached."""
    PAUSED = "paused"
    """The run waits for an approval; ``Reply.token`` resumes it."""
    CANCELLED = "cancelled"
    """Stopped from outside while it ran."""
    ABANDONED = "abandoned"
    """Its stream was left before the end."""
    REFUSED = "refused"
    """The memory declined to serve this caller, on purpose."""
    KILLED = "killed"
    """Its process died."""


class Verdict(StrEnum):
    """What is said of a rule, from best to worst; see `docs/verdicts.md`."""

    HELD = "held"
    ALLOWED = "allowed"
    KNOWN = "known"
    NOT_EXERCISED = "not exercised"
    INCONCLUSIVE = "inconclusive"
    VIOLATED = "violated"


class Level(StrEnum):
    """How wide a scope is. ``AGENT`` and ``USER`` are the *global* and *user* tiers of *How memory works*."""

    TENANT = "tenant"
    WORKSPACE = "workspace"
    APPLICATION = "application"
    PROJECT = "project"
    AGENT = "agent"
    USER = "user"
    SESSION = "session"


@dataclass(frozen=True, slots=True)
class Scope:
    """Whose a record is: a level, an id at that level, and the project that partitions everything below it."""

    level: Level
    id: str
    project: str = ""


class Unresolved(StrEnum):
    """Why a caller's user cannot be told."""

    ABSENT = "absent"
    """The run has no context at all."""
    NONE = "none"
    """The resolver returns ``None``."""
    EMPTY = "empty"
    """The resolver returns ``""``."""
    RAISING = "raising"
    """The resolver raises."""
    NOT_AN_ID = "not-an-id"
    """The resolver returns something that is not an id, such as an object without a text form."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. A field a system does not claim to honour is ignored by it."""

    user: str = ""
    session: str = ""
    project: str = ""
    agent: str = ""
    unresolved: Unresolved | None = None


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool the model asked for. ``arguments`` is the JSON text the model wrote."""

    id: str
    name: str
    arguments: str = "{}"


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a prompt, or of a conversation that is kept."""

    author: Author
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""


@dataclass(frozen=True, slots=True)
class Prompt:
    """What the model was sent, in order.

    ``lost`` says, one reason each, what is known to be missing from this record of it (cut, evicted, redacted,
    kept by reference only). A prompt with losses can show a leak but cannot show that there was none.
    """

    messages: tuple[Message, ...] = ()
    lost: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All text in order, tool calls' arguments included, one line break between messages."""
        return "\n".join(
            part for m in self.messages for part in (m.text, *(call.arguments for call in m.tool_calls)) if part
        )


@dataclass(frozen=True, slots=True)
class Record:
    """A durable fact as a store holds it: one row of ``learned_memory``.

    ``id`` is 0 until a store has added it. ``source`` is ``"learned"`` for what a machine extracted and ``""`` for
    what was persisted by hand (shown as *manual*). ``created_at`` is in seconds since the epoch, UTC.
    ``source_trace_id`` and ``source_span_id`` are lower-case hex, and name the span that wrote it.
    """

    scope: Scope
    text: str
    id: int = 0
    confidence: float = 1.0
    source: str = ""
    source_trace_id: str = ""
    source_span_id: str = ""
    created_at: float = 0.0
    superseded_by: int | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """How a turn ended, and what its caller got.

    ``token`` is what ``resume`` needs, opaque to everyone but the system that made it.
    """

    outcome: Outcome
    text: str = ""
    token: str = ""


@dataclass(frozen=True, slots=True)
class Fact:
    """A durable fact as an adapter shows it. Leave at its default what the system cannot tell."""

    id: str
    text: str
    source: str = ""
    """``"learned"`` when a machine extracted it, else ``""``."""
    confidence: float | None = None
    superseded: bool = False
    created_at: float | None = None
    source_trace_id: str = ""
    owner: str = ""
    """The scope id it is filed under, when the system tells."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One thing that was seen: a title and the text, already cut to what a report may show."""

    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check says of one history."""

    rule: str
    verdict: Verdict
    reason: str = ""
    evidence: tuple[Evidence, ...] = field(default=())
