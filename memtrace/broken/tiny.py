"""A small, correct memory of its own, from which each broken memory departs in one place.

It shares no code with the reference, so that a fault in one cannot hide in the other. Facts live in one JSON file that
is replaced as a whole; windows, recall and paused runs live in the process. Each method is one decision that a broken
memory may take differently.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Status, StatusCode, format_trace_id, get_current_span

from memtrace.harness.system import APPROVAL_TOOL, TOOL, Environment, ModelRequest
from memtrace.model import Author, Caller, Fact, Message, Outcome, Reply, ToolCall

Key = tuple[str, ...]
"""Whose: project and user, or project and agent."""
EMAIL = re.compile(r"[\w.+-]+@[\w-]+\.\w+")


class Blocked(Exception):
    """The guardrail blocked the input or the answer."""


class Limit(Exception):
    """The model asked for tools once too often."""


class Refused(Exception):
    """The memory does not serve this caller."""


@dataclass(frozen=True, slots=True)
class Row:
    """A durable fact."""

    id: str
    key: Key
    text: str
    source: str = ""
    confidence: float = 1.0
    superseded_by: str = ""
    trace: str = ""

    def as_fact(self) -> Fact:
        """As a reader is shown it."""
        owner, superseded = self.key[-1], bool(self.superseded_by)
        return Fact(
            self.id, self.text, self.source, self.confidence, superseded, source_trace_id=self.trace, owner=owner
        )


@dataclass(slots=True)
class Paused:
    """A run that waits for an approval."""

    key: Key
    caller: Caller
    question: str
    traffic: list[dict[str, Any]]
    call: ToolCall


@dataclass(eq=False)
class TinyMemory:
    """The correct one, as far as one process goes: `TinyProcesses` also forgets while a turn is in flight elsewhere."""

    env: Environment
    windows: dict[Key, list[tuple[str, str]]] = field(default_factory=dict)
    paused: dict[str, Paused] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)

    capabilities: ClassVar[frozenset[str]] = frozenset(
        {"turns", "ids", "conv", "window", "stream", "tools", "guardrails", "after-run", "resume", "facts", "update",
         "forget", "list", "record-ids", "agent-facts", "agents", "project", "session", "resolver", "learn", "search",
         "save-load", "erase", "redaction", "reopen", "shared", "own-spans"}
    )  # fmt: skip
    identity: ClassVar[tuple[str, ...]] = ("user",)
    refusals: ClassVar[tuple[type[BaseException], ...]] = (Refused,)

    def __post_init__(self) -> None:
        provider = TracerProvider()
        provider.add_span_processor(self.env.span_processor)
        self.tracer = provider.get_tracer("tiny")

    @property
    def declares(self) -> dict[str, Any]:
        """What declared rules compare it with."""
        return {
            "window": self.option("window", 20), "cap": self.option("cap", 200), "per_message": 10, "confidence": 0.6,
            "prompt_order": ["system", "agent facts", "user facts", "window", "input"],
        }  # fmt: skip

    # One turn

    def turn(self, caller: Caller, text: str) -> Reply:
        """Read, ask, write."""
        with self.tracer.start_as_current_span("turn"):
            key = self.resolve(caller)
            return self.run(caller, key, text, [])

    def run(self, caller: Caller, key: Key | None, text: str, traffic: list[dict[str, Any]]) -> Reply:
        """The loop of model and tools, up to the write."""
        self.guard(text, "input")
        messages = [*self.prompt(caller, key, text), *traffic]
        for _ in range(self.option("limit", 3)):
            said, calls = self.ask(messages)
            if not calls:
                return self.finish(caller, key, text, said)
            messages.append(assistant_message(said, calls))
            for call in calls:
                if call.name == APPROVAL_TOOL:
                    since = messages.index(assistant_message(said, calls))
                    return self.pause(Paused(key or (), caller, text, messages[since:], call))
                messages.append(tool_result(call, self.use(key, call)))
        raise Limit(f"{self.option('limit', 3)} model calls")

    def finish(self, caller: Caller, key: Key | None, text: str, said: str) -> Reply:
        """Guard the answer, run the application's last step, write."""
        answer = self.redacted(said)
        self.guard(answer, "output")
        self.env.after_run(answer)
        if key is not None:
            self.write(caller, key, text, answer)
        return Reply(Outcome.OK, answer)

    def stream(self, caller: Caller, text: str) -> Iterator[str]:
        """The same turn, piece by piece; written once it is all said."""
        # One context for all its steps, which is nobody else's: what runs between two pieces is not part of the turn.
        context, pieces = copy_context(), self.pieces(caller, text)
        try:
            while (piece := context.run(next, pieces, None)) is not None:
                yield piece
        finally:
            context.run(pieces.close)

    def pieces(self, caller: Caller, text: str) -> Generator[str, None, None]:
        """A streamed turn."""
        with self.tracer.start_as_current_span("turn"):
            yield from self.streamed(caller, text)

    def streamed(self, caller: Caller, text: str) -> Iterator[str]:
        """Its loop of model and tools."""
        key = self.resolve(caller)
        self.guard(text, "input")
        messages = self.prompt(caller, key, text)
        for _ in range(self.option("limit", 3)):
            said, calls = self.ask(messages)
            yield from re.findall(r"\S+\s*", said)
            if not calls:
                self.finish(caller, key, text, said)
                return
            messages.append(assistant_message(said, calls))
            messages += [tool_result(call, self.use(key, call)) for call in calls]
        raise Limit("too many model calls")

    def pause(self, paused: Paused) -> Reply:
        """Keep the run until somebody approves."""
        token = f"{self.env.agent}-{len(self.paused)}"
        self.paused[token] = paused
        return Reply(Outcome.PAUSED, token=token)

    def resume(self, caller: Caller, token: str, approved: bool) -> Reply:
        """Go on where the run paused, for the caller whose run it is."""
        key, paused = self.resolve(caller), self.paused[token]
        if key != paused.key:
            raise Refused("the run is another caller's")
        del self.paused[token]
        result = self.use(key, paused.call) if approved else "not approved"
        with self.tracer.start_as_current_span("turn"):
            return self.run(caller, key, paused.question, [*paused.traffic, tool_result(paused.call, result)])

    def use(self, key: Key | None, call: ToolCall) -> str:
        """What a tool gives."""
        return self.env.tool(query_of(call))

    def ask(self, messages: list[dict[str, Any]]) -> tuple[str, list[ToolCall]]:
        """Call the model with what it may see."""
        sent = [{**m, "content": self.redacted(str(m.get("content") or ""))} for m in messages]
        with self.model_span(self.env.answer_model, sent):
            message = self.env.model({"model": self.env.answer_model, "messages": sent})["choices"][0]["message"]
        calls = [
            ToolCall(c["id"], c["function"]["name"], c["function"]["arguments"])
            for c in message.get("tool_calls") or ()
        ]
        return message.get("content") or "", calls

    # What is read

    def resolve(self, caller: Caller) -> Key | None:
        """Whose memory this caller's is; ``None`` for nobody's."""
        try:
            user = self.env.resolve(caller)
        except Exception:  # noqa: BLE001  a resolver is the application's, and may raise anything
            return None
        return self.key(caller, user) if isinstance(user, str) and user else None

    def key(self, caller: Caller, user: str) -> Key:
        """What tells one user's memory from another's."""
        return (caller.project, "user", user)

    def agent_key(self, caller: Caller) -> Key:
        """What tells one agent's facts from another's."""
        return (caller.project, "agent", caller.agent)

    def prompt(self, caller: Caller, key: Key | None, text: str) -> list[dict[str, Any]]:
        """System prompt, the agent's facts, the user's facts, the window, this turn's input."""
        agent_facts = [row.text for row in self.rows_of(self.agent_key(caller))]
        user_facts = [t for t in self.facts_shown(key) if t not in agent_facts] if key else []
        return [
            {"role": "system", "content": "You are a helpful agent."},
            *self.block("Facts of the agent:", agent_facts),
            *self.block("Facts of the user:", user_facts),
            *self.conversation(key),
            {"role": "user", "content": text},
        ]

    def block(self, heading: str, texts: list[str]) -> list[dict[str, Any]]:
        """One system message a block, one line a fact."""
        lines = [f"- {self.line(text)}" for text in texts]
        return [{"role": "system", "content": "\n".join([heading, *lines])}] if lines else []

    def line(self, text: str) -> str:
        """A fact as one line that cannot forge another."""
        return json.dumps(text, ensure_ascii=False)

    def facts_shown(self, key: Key) -> list[str]:
        """The facts that reach the prompt: by hand first, then the newest learned, at most 50."""
        rows = self.rows_of(key)
        by_hand = [row.text for row in rows if not row.source]
        return [*by_hand, *(row.text for row in rows if row.source)][:50]

    def conversation(self, key: Key | None) -> list[dict[str, Any]]:
        """The window, as messages."""
        return [{"role": role, "content": said} for role, said in self.replayed(key)]

    def replayed(self, key: Key | None) -> list[tuple[str, str]]:
        """The newest whole turns that fit the window."""
        size = self.option("window", 20)
        kept = self.windows.get(key, []) if key else []
        return kept[len(kept) - size // 2 * 2 :] if 0 < size < len(kept) else kept if size else []

    # What is written

    def write(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        """The facts in the user's words, which may fail; then those words and the answer, together."""
        if self.option("learn", True):
            self.learn(caller, key, text, answer)
        with self.lock:
            self.windows.setdefault(key, []).extend([("user", text), ("assistant", answer)])

    def learn(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        """Ask the memory model what to keep of the user's words."""
        self.keep(key, self.extracted(text))

    def extracted(self, shown: str) -> list[str]:
        """What the memory model keeps of a text, at most ten facts."""
        return self.offered(shown)[:10]

    def offered(self, shown: str) -> list[str]:
        """What the memory model makes of a text."""
        messages: list[dict[str, Any]] = [{"role": "user", "content": "Extract facts:\n" + self.redacted(shown)}]
        with self.model_span(self.env.memory_model, messages):
            answer = self.env.model({"model": self.env.memory_model, "messages": messages})
        return [str(fact) for fact in json.loads(answer["choices"][0]["message"]["content"])]

    def keep(self, key: Key, facts: list[str]) -> None:
        """Store learned facts, and no more of them than the cap."""
        for fact in facts:
            self.put(key, fact, source="learned", confidence=0.6)
        learned = [row for row in self.rows_of(key) if row.source]
        for row in learned[self.option("cap", 200) :]:
            self.change(lambda rows, gone=row.id: [r for r in rows if r.id != gone])

    def guard(self, text: str, position: str) -> None:
        """Ask the guardrail."""
        if not self.env.guard(text, position):
            raise Blocked(position)

    def redacted(self, text: str) -> str:
        """What may leave the process."""
        return EMAIL.sub("[REDACTED]", text) if self.option("redaction", False) else text

    # Durable facts

    @property
    def path(self) -> Path:
        """The one file of facts."""
        return self.env.dir / "tiny.json"

    def rows(self) -> list[Row]:
        """All rows, oldest first."""
        try:
            return [Row(**{**row, "key": tuple(row["key"])}) for row in json.loads(self.path.read_text())]
        except FileNotFoundError:
            return []

    def rows_of(self, key: Key) -> list[Row]:
        """Active rows of one key, newest first."""
        return [row for row in reversed(self.rows()) if row.key == key and not row.superseded_by]

    def change(self, how: Any) -> None:
        """Replace the file as a whole."""
        with self.lock, self.one_writer():
            rows = how(self.rows())
            temporary = self.path.with_suffix(f".{os.getpid()}.new")
            temporary.write_text(json.dumps([asdict(row) for row in rows]))
            temporary.replace(self.path)

    @contextmanager
    def one_writer(self) -> Iterator[None]:
        """One process changes the file at a time."""
        import fcntl

        with (self.env.dir / "tiny.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def put(self, key: Key, text: str, *, source: str = "", confidence: float = 1.0) -> str:
        """Store a fact once; returns its id. What is persisted by hand is no longer merely learned."""
        stored: list[Row] = []

        def added(rows: list[Row]) -> list[Row]:
            rows, row = self.placed(rows, key, text, source, confidence)
            stored.append(row)
            return rows

        self.change(added)
        return stored[0].id

    def placed(
        self, rows: list[Row], key: Key, text: str, source: str = "", confidence: float = 1.0
    ) -> tuple[list[Row], Row]:
        """All rows with one for this text among them, and that one."""
        known = next((row for row in rows if row.key == key and row.text == text and not row.superseded_by), None)
        if known and (source or not known.source):
            return rows, known
        number = str(1 + max((int(row.id) for row in rows), default=0))
        trace = format_trace_id(get_current_span().get_span_context().trace_id) if source else ""
        new = Row(known.id if known else number, key, text, source, confidence, trace=trace)
        return [*(row for row in rows if row is not known), new], new

    def add(self, caller: Caller, text: str, scope: str = "user") -> str:
        """Persist a fact by hand."""
        return self.put(self.agent_key(caller) if scope == "agent" else self.own(caller), text)

    def own(self, caller: Caller) -> Key:
        """The key of a caller who must be somebody."""
        if not caller.user:
            raise Refused("an empty user id has no memory")
        return self.key(caller, caller.user)

    def update(self, caller: Caller, record: str, text: str) -> str:
        """Supersede a fact, in one change."""
        key, stored = self.own(caller), list[Row]()
        old = next((row for row in self.rows_of(key) if row.id == record), None)
        if old is None:
            raise Refused(f"no record {record} of this user")
        if old.text == text:
            return old.id

        def replaced(rows: list[Row]) -> list[Row]:
            rows, row = self.placed(rows, key, text)
            stored.append(row)
            return [replace(one, superseded_by=row.id) if one.id == record else one for one in rows]

        self.change(replaced)
        return stored[0].id

    def forget(self, caller: Caller, record: str | None = None) -> int:
        """Remove a fact and what it superseded, or all of a user's."""
        key, gone = self.own(caller), set()
        for row in reversed(self.rows()):
            if row.key == key and (record in (None, row.id) or row.superseded_by in gone):
                gone.add(row.id)
        self.change(lambda rows: [row for row in rows if row.id not in gone])
        return len(gone)

    def facts(self, caller: Caller, limit: int | None = None, *, superseded: bool = False) -> list[Fact]:
        """List a user's facts, newest first."""
        key = self.own(caller)
        rows = [row for row in reversed(self.rows()) if row.key == key] if superseded else self.rows_of(key)
        return [row.as_fact() for row in rows[:limit]]

    def get(self, caller: Caller, record: str) -> Fact | None:
        """One record of this user's."""
        key = self.own(caller)
        return next((row.as_fact() for row in self.rows() if row.id == record and row.key == key), None)

    def search(self, caller: Caller, query: str) -> list[str]:
        """A user's facts, most like the query first."""
        texts = [row.text for row in self.rows_of(self.own(caller))]
        vectors = self.env.embed([self.redacted(text) for text in [query, *texts]])
        near = sorted(zip(vectors[1:], texts, strict=True), key=lambda item: -_dot(vectors[0], item[0]))
        return [text for _, text in near]

    # Windows

    def messages(self, caller: Caller) -> list[Message]:
        """The stored conversation."""
        return [Message(Author(role), text) for role, text in self.windows.get(self.own(caller), [])]

    def save(self, caller: Caller, path: str) -> None:
        """Keep the window in a file, with its owner."""
        key = self.own(caller)
        temporary = Path(path + ".new")
        temporary.write_text(json.dumps({"owner": key, "messages": self.windows.get(key, [])}))
        temporary.replace(path)

    def load(self, caller: Caller, path: str) -> None:
        """Restore it, for its owner."""
        key, saved = self.own(caller), json.loads(Path(path).read_text())
        if tuple(saved["owner"]) != key:
            raise Refused("that window is another user's")
        self.windows[key] = [(role, text) for role, text in saved["messages"]]

    def erase(self, caller: Caller) -> None:
        """Remove all there is of a user, saved files too."""
        key = self.own(caller)
        self.forget(caller)
        self.windows.pop(key, None)
        self.paused = {token: paused for token, paused in self.paused.items() if paused.key != key}
        for path in self.env.dir.glob("*.json"):
            saved = json.loads(path.read_text())
            if isinstance(saved, dict) and tuple(saved.get("owner", ())) == key:
                path.unlink()

    # For the harness

    def memory_step(self, _call: ModelRequest, facts: list[str]) -> str:
        """What `extracted` expects of the memory model."""
        return json.dumps(facts)

    def outcome_of(self, error: BaseException) -> Outcome | None:
        """What its exceptions mean."""
        return next((outcome for kind, outcome in OUTCOMES.items() if isinstance(error, kind)), None)

    def option(self, name: str, default: Any) -> Any:
        """What the script asks for."""
        return self.env.options.get(name, default)

    @contextmanager
    def model_span(self, model: str, messages: list[dict[str, Any]]) -> Iterator[None]:
        """A span for a model call, as seen from outside."""
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": model,
            "gen_ai.request.messages": json.dumps(messages),
        }
        with self.tracer.start_as_current_span(f"chat {model}", attributes=attributes) as span:
            try:
                yield
            except BaseException as error:  # a cancelled call is an error of its span too
                span.set_status(Status(StatusCode.ERROR))
                span.set_attribute("error.type", type(error).__name__)
                raise

    def close(self) -> None:
        """Nothing to let go of."""


OUTCOMES: dict[type[BaseException], Outcome] = {Blocked: Outcome.BLOCKED, Limit: Outcome.LIMIT}


def assistant_message(said: str, calls: list[ToolCall]) -> dict[str, Any]:
    functions = [
        {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}} for c in calls
    ]
    return {"role": "assistant", "content": said, "tool_calls": functions}


def tool_result(call: ToolCall, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call.id, "content": text}


def query_of(call: ToolCall) -> str:
    return str(json.loads(call.arguments).get("query", ""))


def _dot(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


__all__ = ["TOOL", "Blocked", "Key", "Limit", "Paused", "Refused", "Row", "TinyMemory"]
