"""The history of one script: its events in order, and all that follows from them.

A *canary* is a unique planted word. Where it came from (`sources`) is read off the events: whose turn said it, what the
answer model or a tool returned in whose turn, what was written to which scope. It is *visible* to a caller if one of
those sources came earlier and is the caller's own, or belongs to everyone there. What the memory model says is never a
source. Nothing about ownership is assumed.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import msgspec

from memtrace.errors import TraceFormatError
from memtrace.harness.record.events import (
    AnyEvent,
    CalledBack,
    Closed,
    Curated,
    Expected,
    FactWritten,
    Held,
    ModelCalled,
    ModelReplied,
    Opened,
    ProcessEnded,
    ProcessStarted,
    SpanEnded,
    TurnEnded,
    TurnStarted,
)
from memtrace.model import Author, Caller, Outcome, Prompt, ToolCall

CANARY = re.compile(r"zq[a-z]{4}x[a-z]{7}")
"""A planted word: ``zq``, four letters of the run, ``x``, seven of its own. Matched caseless."""

NEVER: Final = 1 << 60
"""After every event: where what has no end yet ends."""
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(AnyEvent)


def canaries_in(text: str) -> list[str]:
    """The planted words in a text, in order, each once."""
    return list(dict.fromkeys(CANARY.findall(text.lower())))


@dataclass(slots=True, eq=False)
class Turn:
    """One turn as the driver saw it. ``ended`` is far in the future while it is open."""

    id: str
    caller: Caller
    text: str
    via: str
    of: str
    started: int
    process: str
    ended: int = NEVER
    outcome: Outcome | None = None
    expected: tuple[str, ...] = ()
    reply: str = ""
    error: str = ""
    calls: list[Call] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """It ended well."""
        return self.outcome is Outcome.OK

    @property
    def answers(self) -> list[Call]:
        """Its calls of the answer model, in order."""
        return [call for call in self.calls if call.purpose == "answer"]

    def __str__(self) -> str:
        who = self.caller.unresolved or self.caller.user or self.caller.session or "?"
        return f"{self.id} ({self.via} by {who!s:.40})"


@dataclass(slots=True, eq=False)
class Call:
    """One call of the scripted model, with its reply once there is one."""

    id: str
    at: int
    turn: Turn | None
    exact: bool
    purpose: str
    model: str
    prompt: Prompt
    span: str
    wire: bool
    process: str
    reply: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    status: int = 0
    replied_at: int = NEVER


@dataclass(frozen=True, slots=True)
class Source:
    """Where a canary entered: who wrote it, for whom, when.

    ``way`` is turn, reply, tool, call (arguments the model wrote), fact, system or plane. ``shared`` names who else
    sees it: everyone of the ``agent``, of the ``project``, or ``everyone``; of a plane's fact everyone of its agent in
    all projects (``plane``), or ``nobody``, as long as it is not approved.
    """

    at: int
    author: Author
    caller: Caller
    way: str
    turn: str = ""
    shared: str = ""
    record: str = ""


class History:
    """All events of a script, with indexes that are built when first asked for."""

    def __init__(self, events: Sequence[AnyEvent]) -> None:
        self.events = tuple(events)

    # What happened

    def of(self, *kinds: type[AnyEvent]) -> Iterator[Any]:
        """The events of these types, in order."""
        if len(kinds) == 1:
            return iter(self._by_kind[kinds[0]])
        return (event for event in self.events if isinstance(event, kinds))

    @cached_property
    def _by_kind(self) -> dict[type[AnyEvent], list[AnyEvent]]:
        found: dict[type[AnyEvent], list[AnyEvent]] = defaultdict(list)
        for event in self.events:
            found[type(event)].append(event)
        return found

    @cached_property
    def opened(self) -> Opened | None:
        """What the first system of the script claimed."""
        return next(self.of(Opened), None)

    def can(self, *capabilities: str) -> bool:
        """Whether the system claims all of these."""
        return self.opened is not None and set(capabilities).issubset(self.opened.capabilities)

    def opening(self, at: int = NEVER) -> Opened | None:
        """How the system was last opened before a moment."""
        return next((event for event in reversed(list(self.of(Opened))) if event.at < at), None)

    def sitting(self, process: str, at: int) -> int:
        """When the system that a process had open at a moment was opened; other processes open theirs once."""
        if process != "main":
            return next((event.at for event in self.of(ProcessStarted) if event.process == process), 0)
        return max((event.at for event in self.of(Opened, Closed) if event.at < at), default=0)

    def declared(self, name: str, at: int = NEVER) -> Any:
        """A value the system declares, as the latest opening before a moment says, or ``None``."""
        opening = self.opening(at)
        return opening.declares.get(name) if opening else None

    @cached_property
    def _timeline(self) -> tuple[dict[str, Turn], list[Call]]:
        turns: dict[str, Turn] = {}
        calls: dict[str, Call] = {}
        for event in self.events:
            match event:
                case TurnStarted():
                    turns[event.turn] = Turn(
                        event.turn, event.caller, event.text, event.via, event.of, event.at, event.process
                    )
                case TurnEnded():
                    turn = turns[event.turn]
                    turn.ended, turn.outcome, turn.expected = event.at, Outcome(event.outcome), event.expected
                    turn.reply, turn.error = event.text, event.error
                case ModelCalled():
                    call = calls[event.call] = Call(
                        event.call, event.at, turns.get(event.turn), event.attribution == "exact", event.purpose,
                        event.model, event.prompt, event.span, event.wire, event.process,
                    )  # fmt: skip
                    if call.turn is not None:
                        call.turn.calls.append(call)
                case ModelReplied():
                    call = calls[event.call]
                    call.reply, call.tool_calls = event.text, event.tool_calls
                    call.status, call.replied_at = event.status, event.at
                case _:
                    pass
        return turns, list(calls.values())

    @property
    def turns(self) -> dict[str, Turn]:
        """Every turn, in the order they began."""
        return self._timeline[0]

    @property
    def all_calls(self) -> list[Call]:
        """Every model call, embeddings too, in order."""
        return self._timeline[1]

    @cached_property
    def calls(self) -> list[Call]:
        """Every model call except embeddings, in order."""
        return [call for call in self.all_calls if call.purpose != "embedding"]

    def answers(self) -> list[Call]:
        """Calls of the answer model, in order."""
        return [call for call in self.calls if call.purpose == "answer"]

    def memory_calls(self) -> list[Call]:
        """Calls of the memory model (extraction, summary), in order."""
        return [call for call in self.calls if call.purpose == "memory"]

    @cached_property
    def spans(self) -> list[SpanEnded]:
        """Every ended span, in the order they ended."""
        return list(self.of(SpanEnded))

    def expected(self, rule: str) -> list[Expected]:
        """What the script declared for a rule."""
        return [event for event in self.of(Expected) if event.rule == rule]

    @cached_property
    def surprises(self) -> list[Turn]:
        """Turns that ended otherwise than the script took for possible."""
        return [turn for turn in self.turns.values() if turn.outcome and turn.outcome not in turn.expected]

    @cached_property
    def unreached_holds(self) -> list[Held]:
        """Holds that nothing came to in time."""
        return [event for event in self.of(Held) if not event.reached]

    # Who is who

    def identity(self, caller: Caller) -> tuple[str, ...] | None:
        """What tells this caller from others in this system; ``None`` when nobody can."""
        if caller.unresolved is not None:
            return None
        fields = self.opened.identity if self.opened else ("user",)
        names = ["project", *fields] if self.can("project") else list(fields)
        return tuple(f"{name}={getattr(caller, name)}" for name in names)

    def same(self, one: Caller, other: Caller) -> bool:
        """Whether two callers are one and the same to the system."""
        mine = self.identity(one)
        return mine is not None and mine == self.identity(other)

    def name_of(self, caller: Caller) -> str:
        """The id that tells this caller from others: their user, or in a system that knows no users their session."""
        fields = self.opened.identity if self.opened else ("user",)
        return str(getattr(caller, "user" if "user" in fields else fields[0]))

    def nameless(self, caller: Caller) -> bool:
        """Whether a caller who could be told has nothing but empty ids."""
        fields = self.opened.identity if self.opened else ("user",)
        return caller.unresolved is None and not any(getattr(caller, name) for name in fields)

    def agent_of(self, caller: Caller) -> str:
        """The agent a caller talks to: the system's one, where they name none."""
        return caller.agent or (self.opened.agent if self.opened else "")

    def record_owner(self, record: str, at: int) -> Caller | None:
        """Who had added the record of that id by then; ``None`` for nobody in this script."""
        added = (event for event in self.of(FactWritten) if event.op == "add" and event.at <= at)
        return next((event.caller for event in reversed(list(added)) if record and event.record == record), None)

    # Where words came from

    @cached_property
    def _sources(self) -> dict[str, list[Source]]:
        found: dict[str, list[Source]] = defaultdict(list)
        for source, text in self.spoken():
            for canary in canaries_in(text):
                found[canary].append(source)
        for sources in found.values():
            sources.sort(key=lambda source: source.at)
        return found

    def spoken(self) -> Iterator[tuple[Source, str]]:
        """All words that entered, with where and by whom."""
        for turn in self.turns.values():
            yield Source(turn.started, Author.USER, turn.caller, "turn", turn.id), turn.text
        for call in self.answers():
            if call.turn is not None:
                at, caller, turn_id = call.replied_at, call.turn.caller, call.turn.id
                yield Source(at, Author.ASSISTANT, caller, "reply", turn_id), call.reply
                for tool_call in call.tool_calls:
                    yield Source(at, Author.ASSISTANT, caller, "call", turn_id), tool_call.arguments
        for event in self.events:
            if isinstance(event, CalledBack) and event.point == "tool" and event.turn in self.turns:
                caller = self.turns[event.turn].caller
                yield Source(event.at, Author.TOOL, caller, "tool", event.turn), event.result
            elif isinstance(event, FactWritten) and event.op in ("add", "update") and self._may_have_stored(event):
                shared = {"agent": "agent", "project": "project", "workspace": "everyone"}.get(event.scope, "")
                yield Source(event.at, Author.USER, event.caller, "fact", "", shared, event.record), event.text
            elif isinstance(event, Curated) and event.op != "retire":
                shared = "plane" if event.op == "approve" else "nobody"
                caller = Caller(agent=event.agent)
                yield Source(event.at, Author.SYSTEM, caller, "plane", "", shared, event.record), event.text
            elif isinstance(event, Opened):
                system_words = str(event.options.get("system_prompt", ""))
                yield Source(event.at, Author.SYSTEM, Caller(), "system", "", "everyone"), system_words

    def _may_have_stored(self, event: FactWritten) -> bool:
        """It ended well, or its process was killed in the middle of it."""
        return not event.error or event.process in self.killed

    @cached_property
    def killed(self) -> frozenset[str]:
        """The processes that were killed, and their last spans with them."""
        return frozenset(event.process for event in self.of(ProcessEnded) if event.how == "kill")

    @cached_property
    def canaries(self) -> dict[str, list[Source]]:
        """Every canary that entered, with its sources in order."""
        return dict(self._sources)

    def sources(self, canary: str) -> list[Source]:
        """Where a canary entered, in order; empty for one of another script or run."""
        return self._sources.get(canary, [])

    def owns(self, source: Source, caller: Caller, turn: str = "") -> bool:
        """Whether what entered there is this caller's own, in this turn, or belongs to everyone there."""
        if source.shared == "everyone" or (turn and source.turn == turn):
            return True
        same_project = not self.can("project") or source.caller.project == caller.project
        if source.shared == "project":
            return same_project
        if source.shared in ("plane", "nobody"):
            same_agent = not self.can("agents") or self.agent_of(source.caller) == self.agent_of(caller)
            return source.shared == "plane" and same_agent
        if source.shared == "agent":
            return same_project and (not self.can("agents") or self.agent_of(source.caller) == self.agent_of(caller))
        return self.same(source.caller, caller)

    def visible(self, canary: str, caller: Caller, *, before: int, turn: str = "") -> bool:
        """Whether a caller may be shown a canary at a moment: some earlier source is theirs or everyone's."""
        return any(source.at < before and self.owns(source, caller, turn) for source in self.sources(canary))

    # On disk

    def dump(self) -> bytes:
        """The events as JSON lines."""
        return b"\n".join(_ENCODER.encode(event) for event in self.events) + b"\n"

    @classmethod
    def load(cls, data: bytes, *, name: str = "history") -> History:
        """Read JSON lines; raises `TraceFormatError` where there are none, or naming the line that cannot be read."""
        if not data.strip():
            raise TraceFormatError(f"{name} is no recorded history: it holds no events")
        events = []
        for number, line in enumerate(data.splitlines(), 1):
            try:
                events.append(_DECODER.decode(line))
            except msgspec.MsgspecError as error:
                raise TraceFormatError(f"{name} is no recorded history (line {number}: {error})") from error
        return cls(events)

    @classmethod
    def read(cls, path: Path) -> History:
        """Load a file of JSON lines."""
        return cls.load(path.read_bytes(), name=str(path))

    def digest(self) -> str:
        """SHA-256 of the dump: names the evidence a verdict rests on."""
        return hashlib.sha256(self.dump()).hexdigest()


def positions(prompt: Prompt, canary: str) -> list[int]:
    """The indexes of the messages of a prompt that hold a canary."""
    return [index for index, message in enumerate(prompt.messages) if canary in message.text.lower()]
