"""The spans of a turn: the turn, its memory reads and writes with their blocks, its model calls and tools.

A span object is used once, with a plain ``with``, in ``async def`` too. What it is told (``rendered``, ``replied`` …)
is looked at only where the span records; someone's words and raw ids only where the provider may have them.
A generator that holds one open across a ``yield`` shows it to its consumer too: wrap such a generator with
`memtrace.traced` instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from opentelemetry.trace import SpanContext, SpanKind, TraceFlags

from memtrace import capture, semconv
from memtrace.capture import Attributes, safely
from memtrace.model import Author, Outcome, Record, Scope, ToolCall
from memtrace.operation import Operation, Outlet

STORE_OPERATIONS: Final = {
    "read": semconv.SEARCH_MEMORY,
    "retrieve": semconv.SEARCH_MEMORY,
    "write": semconv.UPSERT_MEMORY,
    "persist": semconv.CREATE_MEMORY,
    "update": semconv.UPDATE_MEMORY,
    "forget": semconv.DELETE_MEMORY,
}
"""Our operations, and what the standard calls each one where it reaches a store."""
IN_PROCESS: Final = frozenset({"window", "static", "few_shot", "summary"})
"""The types of block that reach no store, unless told otherwise."""

_SAMPLED: Final = TraceFlags(TraceFlags.SAMPLED)


class TurnSpan(Operation):
    """``invoke_agent <agent>``: one turn, from the question to its outcome."""

    __slots__ = ("_agent", "_label", "_outcome", "_session", "_user")

    def __init__(
        self, outlet: Outlet | None, agent: str, *, user: str = "", session: str = "", label: str = ""
    ) -> None:
        super().__init__(outlet)
        self._agent, self._user, self._session, self._label = agent, user, session, label
        self._outcome: Outcome | None = None

    def outcome(self, outcome: Outcome) -> None:
        """How the turn ended. Where it is not told: as its exception says, else OK."""
        if self._attributes is not None:
            self._outcome = outcome

    def requester(self, user: str) -> None:
        """Who asks, once the turn is resolved to them."""
        if self._attributes is not None:
            safely(self._requested_by, self._attributes, user)

    def _requested_by(self, attributes: Attributes, user: str) -> None:
        if self._content:
            attributes[semconv.USER_ID] = user
        capture.identify(attributes, semconv.REQUESTER_DIGEST, "user", [user] if user else [])

    def _name(self) -> str:
        return f"{semconv.INVOKE_AGENT} {self._agent}"

    def _first(self) -> Attributes:
        return {semconv.OPERATION_NAME: semconv.INVOKE_AGENT, semconv.AGENT_NAME: self._agent}

    def _describe(self, attributes: Attributes) -> None:
        if self._content and self._label:
            attributes[semconv.TURN] = self._label
        if self._content and self._session:
            attributes[semconv.CONVERSATION_ID] = self._session
        if self._user:
            self._requested_by(attributes, self._user)

    def _close(self, attributes: Attributes, error: BaseException | None) -> None:
        if self._outcome is not None:
            attributes[semconv.OUTCOME] = self._outcome.value
        elif error is None or isinstance(error, Exception):
            attributes[semconv.OUTCOME] = (Outcome.OK if error is None else Outcome.FAILED).value


class _MemorySpan(Operation):
    """What reads, writes and their blocks have in common."""

    __slots__ = ("_operation", "_query", "_scope")

    def __init__(self, outlet: Outlet | None, operation: str, scope: Scope | None, query: object = "") -> None:
        super().__init__(outlet)
        self._operation, self._scope, self._query = operation, scope, query

    def scope(self, scope: Scope) -> None:
        """Whose memory it is, where that is known only inside."""
        if self._attributes is not None:
            safely(self._owned_by, self._attributes, scope)

    def rendered(self, items: Sequence[object], *, scores: Sequence[float] = (), deduped: int = 0) -> None:
        """What was read: records, messages or texts, in the order they render, with as many scores or none.

        Each record links to the span that wrote it.
        """
        if self._attributes is not None:
            safely(self._rendered, self._attributes, items, scores, deduped)

    def stored(
        self, count: int, *, action: str = "", author: Author | None = None, records: Sequence[object] = ()
    ) -> None:
        """How many records were written or removed, what was done, whose words they are, and which they are."""
        if self._attributes is not None:
            safely(self._stored, self._attributes, count, action, author)
            if records:
                safely(self._show_stored, self._attributes, records)

    def _store_operation(self) -> str | None:
        """The standard's name of the operation where this very span reaches the store, so that it counts once."""
        raise NotImplementedError

    def _metered(self) -> str | None:
        return self._store_operation()

    def _name(self) -> str:
        return f"memory.{self._operation}"

    def _describe(self, attributes: Attributes) -> None:
        attributes[semconv.MEMORY_OPERATION] = self._operation
        if self._scope is not None:
            self._owned_by(attributes, self._scope)
        if self._content and (query := capture.text_of(self._query)):
            attributes[semconv.MEMORY_QUERY] = query

    def _close(self, attributes: Attributes, error: BaseException | None) -> None:  # noqa: ARG002  an override
        operation = self._store_operation()
        if operation is None:
            attributes.pop(semconv.MEMORY_RECORD_COUNT, None)
            attributes.pop(semconv.MEMORY_RECORDS, None)
            return
        attributes[semconv.OPERATION_NAME] = operation
        if self._content and (query := capture.text_of(self._query)):
            attributes[semconv.MEMORY_QUERY_TEXT] = query

    def _owned_by(self, attributes: Attributes, scope: Scope) -> None:
        capture.describe_scope(attributes, scope, content=self._content)

    def _rendered(self, attributes: Attributes, items: Sequence[object], scores: Sequence[float], deduped: int) -> None:
        attributes[semconv.MEMORY_RENDERED_COUNT] = attributes[semconv.MEMORY_RECORD_COUNT] = len(items)
        attributes[semconv.MEMORY_DEDUPED_COUNT] = deduped
        if self._content:
            safely(self._show_snippets, attributes, items, scores)
            safely(self._show_records, attributes, items, scores)
        records = _records(items)
        safely(self._identify_records, attributes, records)
        safely(self._link, records)

    def _stored(self, attributes: Attributes, count: int, action: str, author: Author | None) -> None:
        attributes[semconv.MEMORY_COUNT] = attributes[semconv.MEMORY_RECORD_COUNT] = count
        if action:
            attributes[semconv.MEMORY_ACTION] = action
        if author is not None:
            attributes[semconv.AUTHOR] = str(author)

    def _show_stored(self, attributes: Attributes, items: Sequence[object]) -> None:
        self._identify_records(attributes, _records(items))
        self._show_records(attributes, items, ())

    def _show_snippets(self, attributes: Attributes, items: Sequence[object], scores: Sequence[float]) -> None:
        attributes[semconv.MEMORY_SNIPPETS] = capture.snippets(items)
        if scores:
            attributes[semconv.MEMORY_SCORES] = capture.numbers(scores)

    def _show_records(self, attributes: Attributes, items: Sequence[object], scores: Sequence[float]) -> None:
        if self._content and self._store_operation() is not None:
            attributes[semconv.MEMORY_RECORDS] = capture.records(items, scores)

    def _identify_records(self, attributes: Attributes, records: Sequence[Record]) -> None:
        ids = [str(record.id) for record in records if record.id]
        capture.identify(attributes, semconv.RECORD_DIGESTS, "record", ids, one=False)

    def _link(self, records: Sequence[Record]) -> None:
        for trace, span in dict.fromkeys([(record.source_trace_id, record.source_span_id) for record in records]):
            if trace and span and self._span is not None:
                self._span.add_link(_remote(trace, span))


class BlockSpan(_MemorySpan):
    """``memory.read.<block>`` or ``memory.write.<block>``: one part of memory, and the store it reaches, if any."""

    __slots__ = ("_block", "_store", "_type")

    def __init__(
        self,
        outlet: Outlet | None,
        operation: str,
        block: str,
        *,
        type: str = "",  # noqa: A002  as in memory.block_type
        scope: Scope | None = None,
        query: object = "",
        store: bool | None = None,
    ) -> None:
        super().__init__(outlet, operation, scope, query)
        self._block, self._type, self._store = block, type, store

    def freshness(self, state: str, *, age: float | None = None, status: str = "") -> None:
        """Of curated facts: ``fresh``, ``stale`` or ``missing``; seconds since they were read; how that last went."""
        if self._attributes is not None:
            self._attributes[semconv.FRESHNESS] = state
            if age is not None:
                self._attributes[semconv.AGE] = age
            if status:
                self._attributes[semconv.PLANE_STATUS] = str(status)

    def _store_operation(self) -> str | None:
        reaches = self._type not in IN_PROCESS if self._store is None else self._store
        return STORE_OPERATIONS.get(self._operation) if reaches else None

    def _name(self) -> str:
        return f"memory.{self._operation}.{self._block}"

    def _describe(self, attributes: Attributes) -> None:
        attributes[semconv.MEMORY_BLOCK_NAME] = self._block
        attributes[semconv.MEMORY_BLOCK_TYPE] = self._type
        super()._describe(attributes)


class _ParentSpan(_MemorySpan):
    """A read or a write: of its blocks, or, with none, of the store itself."""

    __slots__ = ("_blocks",)

    def __init__(self, outlet: Outlet | None, operation: str, scope: Scope | None, query: object = "") -> None:
        super().__init__(outlet, operation, scope, query)
        self._blocks = 0

    def block(
        self,
        name: str,
        *,
        type: str = "",  # noqa: A002  as in memory.block_type
        scope: Scope | None = None,
        query: object = "",
        store: bool | None = None,
    ) -> BlockSpan:
        """A part of memory. ``store``: whether it reaches one; by its type (`IN_PROCESS`) where it is not told.

        ``query`` is what the store is asked, for a block that searches.
        """
        if self._outlet is None:
            return _NO_BLOCK
        self._blocks += 1
        return BlockSpan(self._outlet, self._operation, name, type=type, scope=scope, query=query, store=store)

    def _store_operation(self) -> str | None:
        return None if self._blocks else STORE_OPERATIONS.get(self._operation)

    def _close(self, attributes: Attributes, error: BaseException | None) -> None:
        super()._close(attributes, error)
        attributes[semconv.MEMORY_BLOCK_COUNT] = self._blocks


class ReadSpan(_ParentSpan):
    """``memory.read`` (or ``memory.retrieve``): what memory puts into a prompt."""

    __slots__ = ()

    def messages(self, count: int) -> None:
        """How many messages the read gave in all."""
        if self._attributes is not None:
            self._attributes[semconv.MEMORY_MESSAGE_COUNT] = count


class WriteSpan(_ParentSpan):
    """``memory.write`` (or ``.persist``, ``.update``, ``.forget``): what memory keeps or lets go of."""

    __slots__ = ()

    def messages(self, count: int) -> None:
        """How many messages the write added to the conversation that is kept."""
        if self._attributes is not None:
            self._attributes[semconv.MEMORY_MESSAGES_ADDED] = count


class ModelSpan(Operation):
    """``chat <model>``: one model call, with the prompt that was sent."""

    __slots__ = ("_messages", "_model", "_provider", "_purpose", "_system")
    kind = SpanKind.CLIENT

    def __init__(
        self,
        outlet: Outlet | None,
        model: str,
        messages: object,
        *,
        purpose: str = "answer",
        system: object = "",
        provider: str = "",
    ) -> None:
        super().__init__(outlet)
        self._model, self._messages = model, messages
        self._purpose, self._system, self._provider = purpose, system, provider

    def replied(
        self,
        text: str,
        *,
        tool_calls: Sequence[ToolCall] = (),
        finish: str = "stop",
        input_tokens: int | None = None,
        output_tokens: int | None = None,
    ) -> None:
        """What the model answered, why it stopped (``""``: not told), and what it counted."""
        if self._attributes is not None:
            safely(self._count, self._attributes, finish, input_tokens, output_tokens)
            if self._content:
                safely(self._show_reply, self._attributes, text, tool_calls, finish)

    def _count(self, attributes: Attributes, finish: str, read: int | None, written: int | None) -> None:
        if finish:
            attributes[semconv.FINISH_REASONS] = [finish]
        if isinstance(read, int):
            attributes[semconv.INPUT_TOKENS] = read
        if isinstance(written, int):
            attributes[semconv.OUTPUT_TOKENS] = written

    def _show_reply(self, attributes: Attributes, text: str, tool_calls: Sequence[ToolCall], finish: str) -> None:
        attributes[semconv.OUTPUT_MESSAGES] = capture.reply(text, tool_calls, finish)

    def _name(self) -> str:
        return f"{semconv.CHAT} {self._model}" if self._model else semconv.CHAT

    def _first(self) -> Attributes:
        return {semconv.OPERATION_NAME: semconv.CHAT, semconv.PURPOSE: self._purpose, **self._dimensions()}

    def _describe(self, attributes: Attributes) -> None:
        if self._content:
            attributes.update(capture.prompt(self._messages, self._system))

    def _metered(self) -> str | None:
        return semconv.CHAT

    def _dimensions(self) -> dict[str, str]:
        dimensions = {semconv.REQUEST_MODEL: self._model} if self._model else {}
        if self._provider:
            dimensions[semconv.PROVIDER_NAME] = self._provider
        return dimensions


class ToolSpan(Operation):
    """``execute_tool <name>``: one run of a tool."""

    __slots__ = ("_call_id", "_tool")

    def __init__(self, outlet: Outlet | None, name: str, call_id: str = "") -> None:
        super().__init__(outlet)
        self._tool, self._call_id = name, call_id

    def _name(self) -> str:
        return f"{semconv.EXECUTE_TOOL} {self._tool}"

    def _first(self) -> Attributes:
        return {semconv.OPERATION_NAME: semconv.EXECUTE_TOOL, semconv.TOOL_NAME: self._tool}

    def _describe(self, attributes: Attributes) -> None:
        if self._content and self._call_id:
            attributes[semconv.TOOL_CALL_ID] = self._call_id


def _records(items: Sequence[object]) -> list[Record]:
    return [item for item in items if isinstance(item, Record)]


@lru_cache(maxsize=4096)
def _remote(trace: str, span: str) -> SpanContext:
    """The span of that trace and id, which may have been another process's."""
    return SpanContext(int(trace, 16), int(span, 16), is_remote=True, trace_flags=_SAMPLED)


_NO_BLOCK: Final = BlockSpan(None, "", "")
