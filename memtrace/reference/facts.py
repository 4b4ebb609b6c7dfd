"""Durable facts by hand: persist, update, retrieve, forget, by tier."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Final, Literal

from memtrace.errors import UsageError
from memtrace.model import Level, Record, Scope
from memtrace.reference.marks import Marks
from memtrace.reference.search import FactSearch
from memtrace.reference.text import folded
from memtrace.stores.contract import FactStore
from memtrace.stores.vectors import Match
from memtrace.tracing import Tracing, WriteSpan

Tier = Literal["user", "global", "project"]
_LEVELS: Final = {"user": Level.USER, "global": Level.AGENT, "project": Level.PROJECT}
_NO_AGENT: Final = (
    "this memory has no agent_id, so a global fact reaches none of its prompts: give Memory(agent_id=...), and where "
    "it is another agent's fact, scope_id="
)


class Facts:
    """The facts of one project, each under the scope that a tier and an id name.

    ``own`` are the ids that stand in for a missing one; ``forgotten`` is told of every scope that facts are forgotten
    in, and of the text where it is one fact.
    """

    def __init__(
        self,
        store: FactStore,
        marks: Marks,
        tracing: Tracing,
        *,
        own: Mapping[Level, str | None],
        project: str,
        clock: Callable[[], float],
        search: FactSearch | None,
        forgotten: Callable[[Scope, str | None], object],
    ) -> None:
        self._store = store
        self._marks = marks
        self._tracing = tracing
        self._own = own
        self._project = project
        self._clock = clock
        self._search = search
        self._forgotten = forgotten

    def persist(self, text: str, *, tier: Tier, scope_id: str, confidence: float) -> Record:
        """Store a fact by hand; where it was learned already, it counts as persisted by hand from now on.

        A global fact of a memory without an agent id warns, since its prompts will not hold it. Where no id is given
        either, nobody's would: then it is not stored, and the record has no id.

        Raises:
            UsageError: it is blank, or names nobody.
        """
        scope = self._scope(tier, scope_id)
        _require_text(text)
        with self._tracing.write(operation="persist", scope=scope) as span:
            record = self._by_hand(scope, text, confidence, span)
            if scope.level is Level.AGENT and not self._own[Level.AGENT]:
                warnings.warn(_NO_AGENT, UserWarning, stacklevel=4)
            if scope.id or scope.level is not Level.AGENT:
                record = self._store.add(record)
            span.stored(1 if record.id else 0, action="stored", records=[record])
        return record

    def update(self, new: str, *, old: str | int, tier: Tier, scope_id: str, confidence: float) -> Record:
        """Put ``new`` in the place of an active fact, given by its text or record id; the old one is kept, superseded.

        Raises:
            UsageError: the scope has no such active fact.
        """
        scope = self._scope(tier, scope_id)
        _require_text(new)
        with self._tracing.write(operation="update", scope=scope) as span:
            record_id = old if isinstance(old, int) else self._active_id(scope, old)
            record = self._store.supersede(scope, record_id, self._by_hand(scope, new, confidence, span))
            span.stored(1, action="superseded", records=[record])
        return record

    def retrieve(
        self, query: str | None, *, tier: Tier, scope_id: str, limit: int | None, outgoing: Callable[[str], str]
    ) -> list[Record]:
        """The active facts of a scope: newest first, or with a query nearest first."""
        scope = self._scope(tier, scope_id)
        if limit is not None and limit < 0:
            raise UsageError(f"limit={limit}: give a number of facts, 0 for none or None for all")
        with self._tracing.read(query or "", operation="retrieve", scope=scope) as span:
            if query is None:
                records, scores = self._store.newest(scope, limit), []
            else:
                matches = self._matches(scope, query, limit, outgoing)
                records, scores = [match.record for match in matches], [match.score for match in matches]
            span.rendered(records, scores=scores)
        return records

    def forget(self, *, tier: Tier, scope_id: str, fact: str | int | None) -> int:
        """Remove one fact, given by its text or record id, or with ``None`` all of a scope; how many rows went.

        Raises:
            UsageError: no id was given, and the memory has none of its own.
        """
        scope = self._scope(tier, scope_id)
        if not scope.id:
            raise UsageError(f"forget(tier={tier!r}) needs scope_id=: an empty id names nobody")
        with self._tracing.write(operation="forget", scope=scope) as span:
            count = self.remove(scope, fact)
            span.stored(count, action="deleted")
        return count

    def remove(self, scope: Scope, fact: str | int | None) -> int:
        """As `forget`, without a span of its own."""
        numbers = None if fact is None else self._numbers(scope, fact)
        if numbers == []:
            return 0
        self._marks.forgotten(scope)
        text = self._text(scope, fact) if fact is not None else None
        count = sum(self._store.delete(scope, number) for number in ([None] if numbers is None else numbers))
        self._forgotten(scope, text)
        return count

    def _scope(self, tier: str, scope_id: str) -> Scope:
        """The scope that a tier and an id name; without any id its id is ``""``, and it holds nothing."""
        if tier not in _LEVELS:
            raise UsageError(f"tier={tier!r} holds no facts: give one of {', '.join(_LEVELS)}")
        level = _LEVELS[tier]
        return Scope(level, scope_id or self._own[level] or "", self._project)

    def _by_hand(self, scope: Scope, text: str, confidence: float, span: WriteSpan) -> Record:
        return Record(
            scope,
            text,
            confidence=confidence,
            source_trace_id=span.trace_id,
            source_span_id=span.span_id,
            created_at=self._clock(),
        )

    def _matches(self, scope: Scope, query: str, limit: int | None, outgoing: Callable[[str], str]) -> list[Match]:
        if self._search is None:
            raise UsageError("retrieve(query) needs a memory made with semantic=True")
        return self._search.search(scope, query, limit=limit, outgoing=outgoing) if scope.id else []

    def _active_id(self, scope: Scope, text: str) -> int:
        found = [record for record in self._store.newest(scope, None) if folded(record.text) == folded(text)]
        for record in sorted(found, key=lambda record: record.text != text):
            return record.id
        raise UsageError("there is no such active fact to update: name it by its text or its record id")

    def _numbers(self, scope: Scope, fact: str | int) -> list[int]:
        """The records of a fact, superseded ones too; active ones first, since they take what they superseded along."""
        if isinstance(fact, int):
            return [fact] if self._store.get(scope, fact) else []
        wanted = folded(fact)
        found = [record for record in self._store.history(scope) if folded(record.text) == wanted]
        return [record.id for record in sorted(found, key=lambda record: record.superseded_by is not None)]

    def _text(self, scope: Scope, fact: str | int) -> str | None:
        record = self._store.get(scope, fact) if isinstance(fact, int) else None
        return record.text if record else fact if isinstance(fact, str) else None


def _require_text(text: str) -> None:
    if not text.strip():
        raise UsageError("a fact needs a text that is not blank")
