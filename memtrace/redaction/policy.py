"""The policy: what leaves of attributes, names and texts. Its functions have no state and do no I/O."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from memtrace import semconv
from memtrace.identity import IdKey
from memtrace.redaction.allowed import KEYS
from memtrace.redaction.shapes import IDENTIFIERS, OTHER, Note, Reason, Shape, version
from memtrace.redaction.vocabulary import BLOCK_NAMES, EVENT_NAMES, METRICS, SPAN_NAMES, SUBJECTS

_SCHEMA: Final = re.compile(r"https://opentelemetry\.io/schemas/\d{1,2}\.\d{1,3}\.\d{1,2}", re.ASCII)


def _silent(_key: str, _reason: Reason) -> None:
    """For those who do not want to know."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What may leave.

    Attributes:
        names: strings that may leave where a name belongs; never fill it from what users say.
        keys: attribute keys, exact, and the shape of each one's value.
        key: what ids are digested with; without it ids are dropped.
        tenant: keeps equal ids of two tenants apart; by default the key's.
        payloads: everything leaves, except ids.
    """

    names: frozenset[str] = frozenset()
    keys: Mapping[str, Shape] = field(default_factory=lambda: KEYS, repr=False)
    key: IdKey | None = None
    tenant: str = ""
    payloads: bool = False

    def naming(self, *names: str) -> Policy:
        """The same policy with more names."""
        return replace(self, names=self.names.union(names))

    def allowing(self, keys: Mapping[str, Shape]) -> Policy:
        """The same policy with more keys, each with a shape of this module or one's own."""
        return replace(self, keys=MappingProxyType({**self.keys, **keys}))

    def attributes(self, given: Mapping[str, Any] | None, note: Note = _silent) -> dict[str, Any]:
        """What leaves of attributes: of a span, an event, a link, a scope, a resource, a log record, a data point."""
        kept: dict[str, Any] = {}
        for key, value in (given or {}).items():
            shape = self.keys.get(key)
            identifies = shape in IDENTIFIERS
            if self.payloads and not identifies:
                kept[key] = value
            elif shape is None:
                note(key, Reason.KEY)
            elif (leaving := shape(value, self)) is None:
                note(key, Reason.ID if identifies else Reason.SHAPE)
            else:
                kept[key] = leaving
                if identifies and self.key is not None:
                    kept[semconv.DIGEST_KEY_ID] = self.key.id
                elif leaving == OTHER:
                    note(key, Reason.NAME)
        return kept

    def name(self, text: str) -> str:
        """A registered name, else ``other``."""
        return text if text in self.names else OTHER

    def span_name(self, text: str, note: Note = _silent) -> str:
        """``memory.read.<block>``, ``chat <model>``, ``SELECT <table>`` …; ``other`` for what is not registered."""
        return self._told(text, self._span_name(text), "span name", note)

    def _span_name(self, text: str) -> str:
        if text in SPAN_NAMES or text in SUBJECTS:
            return text
        subject, _, rest = text.partition(" ")
        if rest and subject in SUBJECTS:
            return f"{subject} {self.name(rest)}"
        operation, _, block = text[len("memory.") :].partition(".")
        if text.startswith("memory.") and operation in ("read", "write"):
            return f"memory.{operation}.{block if block in BLOCK_NAMES else self.name(block)}"
        return self.name(text)

    def event_name(self, text: str, note: Note = _silent) -> str:
        """The name of a span's event or of a log record's."""
        return self._told(text, text if text in EVENT_NAMES else self.name(text), "event name", note)

    def scope_name(self, text: str, note: Note = _silent) -> str:
        """The name of an instrumentation: a module that is loaded, or a registered name."""
        return self._told(text, text if text in sys.modules else self.name(text), "scope name", note)

    def metric_name(self, text: str, note: Note = _silent) -> str | None:
        """The name of a metric; ``None``: it does not leave, since two cannot share the name ``other``."""
        allowed = self.payloads or text in METRICS or text in self.names
        if not allowed:
            note("metric name", Reason.NAME)
        return text if allowed else None

    def version(self, text: str | None, note: Note = _silent) -> str | None:
        """The version of an instrumentation."""
        return self._told(text, version(text, self), "scope version", note) if text else None

    def schema(self, text: str | None, note: Note = _silent) -> str | None:
        """The address of a version of OpenTelemetry's schema."""
        return self._told(text, text if _SCHEMA.fullmatch(text) else "", "schema", note) if text else text

    def one_of(self, vocabulary: frozenset[str], text: str | None, place: str, note: Note = _silent) -> str | None:
        """A unit, a severity: the word if it is known, else nothing."""
        return self._told(text, text if text in vocabulary else "", place, note) if text else text

    def text(self, text: Any, place: str, note: Note = _silent) -> Any:
        """Free text: a description, a body, a status, a trace state. Nothing leaves of it."""
        if self.payloads or not text:
            return text
        note(place, Reason.TEXT)
        return None

    def _told(self, text: str, leaving: str, place: str, note: Note) -> str:
        if self.payloads or text == leaving:
            return text
        note(place, Reason.NAME)
        return leaving
