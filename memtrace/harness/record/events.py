"""What can happen in a script: typed events, plain data, dumped and loaded as JSON lines.

Events are written by the driver (turns, facts, expectations), by the witness (model calls, callbacks) and by the span
recorder. What follows from them is derived in `memtrace.harness.record.history`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from memtrace.model import Caller, Fact, Message, Prompt, ToolCall


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """Something that happened; ``at`` is its place in the order, ``process`` the process it happened in."""

    at: int
    process: str = "main"


class Opened(Event, frozen=True, kw_only=True, tag=True):
    """A system was made: what it claims and declares."""

    system: str
    agent: str
    capabilities: tuple[str, ...]
    identity: tuple[str, ...] = ("user",)
    declares: dict[str, Any] = {}
    options: dict[str, Any] = {}
    payloads: bool = False
    """The environment lets payloads leave the process (``MEMTRACE_TRACE_PAYLOADS=1``)."""


class Closed(Event, frozen=True, kw_only=True, tag=True):
    """A system was let go of."""


class TurnStarted(Event, frozen=True, kw_only=True, tag=True):
    """A turn was begun by the driver.

    ``via`` is run, stream, resume, fork, handoff, delegate. ``of`` is the turn whose paused run is resumed or forked.
    """

    turn: str
    caller: Caller
    text: str
    via: str = "run"
    of: str = ""


class TurnEnded(Event, frozen=True, kw_only=True, tag=True):
    """And ended.

    ``text`` is what its caller got (of a stream: what was streamed). ``error`` is the exception's type and text.
    ``expected`` are the outcomes the script took for possible.
    """

    turn: str
    outcome: str
    expected: tuple[str, ...]
    text: str = ""
    error: str = ""
    token: str = ""


class ModelCalled(Event, frozen=True, kw_only=True, tag=True):
    """A request reached the scripted model. ``turn`` is the turn it was attributed to, ``""`` where none was open.

    ``attribution`` is ``exact`` or ``guessed``; ``purpose`` is ``answer``, ``memory`` or ``embedding``;
    ``span`` is ``trace_id-span_id`` of the span that was current where the request was sent, if known;
    ``wire`` is false for an in-process call.
    """

    call: str
    turn: str
    attribution: str
    purpose: str
    model: str
    prompt: Prompt
    span: str = ""
    wire: bool = True
    streamed: bool = False


class ModelReplied(Event, frozen=True, kw_only=True, tag=True):
    """What the scripted model answered; ``status`` is the HTTP status."""

    call: str
    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    status: int = 200


class CalledBack(Event, frozen=True, kw_only=True, tag=True):
    """A callback the harness owns was called. ``point`` is tool, guard, after_run, resolve or embed.

    ``given`` and ``result`` are its input and output as text (of ``resolve``: the caller's user and the id's text).
    """

    point: str
    turn: str
    attribution: str
    given: str
    result: str = ""


class FactWritten(Event, frozen=True, kw_only=True, tag=True):
    """The driver called add, update, forget, erase, load, save or learn_offline. ``error`` is set where it raised."""

    op: str
    caller: Caller
    scope: str = "user"
    text: str = ""
    record: str = ""
    """The record id given; of ``add`` the one returned."""
    returned: str = ""
    """Of ``update``: the record id returned."""
    personal: bool = False
    """Of ``learn_offline``: personal data was asked for explicitly."""
    file: str = ""
    """Of ``save`` and ``load``: the file, as a path in the script's directory."""
    count: int | None = None
    error: str = ""
    refused: bool = False


class FactsRead(Event, frozen=True, kw_only=True, tag=True):
    """The driver called facts, search, get or messages. ``texts`` are what came back, in order."""

    op: str
    caller: Caller
    texts: tuple[str, ...]
    facts: tuple[Fact, ...] = ()
    messages: tuple[Message, ...] = ()
    """Of ``messages``: who wrote each."""
    query: str = ""
    record: str = ""
    limit: int | None = None
    superseded: bool = False
    """Of ``facts``: superseded ones were asked for too."""
    error: str = ""
    refused: bool = False


class SpanEnded(Event, frozen=True, kw_only=True, tag=True):
    """A span of the system under test. Times are nanoseconds since the epoch; ``links`` are ``trace-span`` ids.

    ``turn`` is the label the span was started under. ``prompt`` is set for a model call's span.
    """

    name: str
    scope: str
    trace: str
    span: str
    parent: str
    turn: str
    start: int
    end: int
    attributes: dict[str, Any]
    status: str = "UNSET"
    status_text: str = ""
    links: tuple[str, ...] = ()
    events: tuple[dict[str, Any], ...] = ()
    prompt: Prompt | None = None
    dropped: int = 0


class Exported(Event, frozen=True, kw_only=True, tag=True):
    """The system sent telemetry to its collector: ``traces``, ``logs`` or ``metrics``, and the bytes, in base64."""

    signal: str
    body: str


class Printed(Event, frozen=True, kw_only=True, tag=True):
    """What a process logged (from INFO up), warned of, and wrote to standard error, up to the end of the script."""

    text: str


class Curated(Event, frozen=True, kw_only=True, tag=True):
    """A curator did something with a fact of the plane: ``approve``, ``propose``, ``reject`` or ``retire`` it."""

    op: str
    agent: str
    text: str
    record: str


class PlaneFaulty(Event, frozen=True, kw_only=True, tag=True):
    """From now on the plane fails in this way, or again in none (``""``). ``clock`` is the script's, in seconds."""

    fault: str
    clock: float
    details: dict[str, Any] = {}


class PlaneAsked(Event, frozen=True, kw_only=True, tag=True):
    """A request reached the plane; ``query`` and ``headers`` are decoded, and no key's value is among them.

    ``fault`` is how the plane was failing; ``status`` what it answered, ``0`` where that was no whole answer.
    """

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: str
    fault: str
    status: int
    clock: float


class PlaneHolds(Event, frozen=True, kw_only=True, tag=True):
    """What the plane serves at this moment, by agent."""

    facts: dict[str, tuple[str, ...]]


class StoreFaulty(Event, frozen=True, kw_only=True, tag=True):
    """From now on the store fails in this way, or again in none (``""``)."""

    fault: str


class Timed(Event, frozen=True, kw_only=True, tag=True):
    """How long a turn took, in seconds, and the longest that a control thread was kept from running meanwhile."""

    turn: str
    seconds: float
    stalled: float


class Scanned(Event, frozen=True, kw_only=True, tag=True):
    """The files of the script's directory were searched: canary -> names of the files that hold it."""

    found: dict[str, tuple[str, ...]]


class ProcessStarted(Event, frozen=True, kw_only=True, tag=True):
    """Another operating-system process runs the same system; its name is ``process``."""

    pid: int
    forked_from: str = ""
    """The process whose fork it is, with the system that was opened there."""


class ProcessEnded(Event, frozen=True, kw_only=True, tag=True):
    """It is gone: ``how`` is ``exit`` or ``kill``."""

    how: str


class Held(Event, frozen=True, kw_only=True, tag=True):
    """A callback was held at ``point``; ``reached`` tells whether anything came there in time."""

    point: str
    reached: bool
    turn: str = ""


class Expected(Event, frozen=True, kw_only=True, tag=True):
    """The script declared what a rule makes of a turn: ``canary`` is in its answer prompt ``times`` times.

    ``times`` is ``some``, ``none``, or a number as text, counted in messages of the turn's first answer prompt. Without
    a ``turn`` it is said of the read before: of its texts, and ``first`` means that the first of them holds the word.
    ``why`` says why, in words a report can show.
    """

    rule: str
    canary: str
    turn: str = ""
    times: str = "some"
    why: str = ""


class Noted(Event, frozen=True, kw_only=True, tag=True):
    """A fact about the script that a check needs and no other event holds, such as a measured size."""

    name: str
    value: Any = None


AnyEvent = (
    Opened | Closed | TurnStarted | TurnEnded | ModelCalled | ModelReplied | CalledBack | FactWritten | FactsRead
    | SpanEnded | Exported | Printed | Scanned | Curated | PlaneFaulty
    | PlaneAsked | PlaneHolds | StoreFaulty | Timed | ProcessStarted | ProcessEnded | Held | Expected | Noted
)  # fmt: skip
