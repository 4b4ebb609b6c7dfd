"""One span from enter to exit, with its duration: a plain context manager that never breaks what runs inside it."""

from __future__ import annotations

from contextvars import Token
from dataclasses import dataclass
from time import perf_counter
from types import TracebackType
from typing import ClassVar, Final, Self

from opentelemetry.context import _SUPPRESS_INSTRUMENTATION_KEY, Context, attach, get_current
from opentelemetry.metrics import Histogram
from opentelemetry.trace import (
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    Tracer,
    TracerProvider,
    format_span_id,
    format_trace_id,
    get_current_span,
    set_span_in_context,
)

from memtrace import semconv
from memtrace.capture import Attributes, owned, safely
from memtrace.model import Outcome

_SUPPRESS_PLAIN: Final = "suppress_instrumentation"


@dataclass(frozen=True, slots=True)
class Outlet:
    """Where spans and durations go.

    ``content`` says whether someone's words and raw ids may go there too; ``None``: if the provider is memtrace's own.
    """

    provider: TracerProvider | None
    tracer: Tracer
    duration: Histogram | None
    content: bool | None

    def captures(self) -> bool:
        """Whether content may be recorded."""
        return self.provider is not None and owned(self.provider) if self.content is None else self.content


class Operation:
    """One span and its duration. ``Operation(None)`` does nothing, holds nothing and may be shared."""

    __slots__ = (
        "_attributes",
        "_began",
        "_content",
        "_context",
        "_error",
        "_identity",
        "_kept",
        "_outer",
        "_outlet",
        "_span",
        "_token",
    )
    kind: ClassVar[SpanKind] = SpanKind.INTERNAL

    def __init__(self, outlet: Outlet | None) -> None:
        self._outlet = outlet
        self._span: Span | None = None
        self._identity: SpanContext | None = None
        self._attributes: Attributes | None = None
        self._error: BaseException | None = None
        self._token: Token[Context] | None = None
        self._content = False
        self._kept = False

    @property
    def recording(self) -> bool:
        """Whether the span is open and what it is told is kept."""
        return self._attributes is not None

    @property
    def trace_id(self) -> str:
        """32 hex digits; ``""`` where nothing records."""
        return format_trace_id(self._identity.trace_id) if self._identity else ""

    @property
    def span_id(self) -> str:
        """16 hex digits; ``""`` where nothing records."""
        return format_span_id(self._identity.span_id) if self._identity else ""

    def failed(self, error: BaseException) -> None:
        """The operation failed, though its error goes no further: status ERROR and ``error.type``."""
        if self._span is not None:
            self._error = error

    def keep(self) -> None:
        """The next exit leaves the span open: what it covers goes on, and enters it again."""
        self._kept = self._span is not None

    def abandon(self) -> None:
        """End the span, if it is still open, of work that will never be taken up again."""
        if self._span is not None:
            safely(self._end, GeneratorExit())

    def __enter__(self) -> Self:
        if self._outlet is not None:
            safely(self._start, self._outlet)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._token is not None:
            safely(self._detach, self._token)
        if self._kept:
            self._kept = False
        elif self._span is not None:
            safely(self._end, error)

    def _start(self, outlet: Outlet) -> None:
        if self._span is None:
            outer = get_current()
            if outer.get(_SUPPRESS_INSTRUMENTATION_KEY) or outer.get(_SUPPRESS_PLAIN):
                return
            self._began = perf_counter()
            self._outer = outer
            span = outlet.tracer.start_span(self._name(), outer, self.kind, self._first())
            self._span = span
            self._context = set_span_in_context(span, outer)
            if span.is_recording():
                self._identity = span.get_span_context()
                self._content = outlet.captures()
                self._attributes = {}
                safely(self._describe, self._attributes)
        self._token = attach(self._context)

    def _detach(self, token: Token[Context]) -> None:
        self._token = None
        try:
            token.var.reset(token)
        except ValueError:
            # Left in another Context than it was entered in; there is something to put back only in a copy of that one.
            if get_current_span() is self._span:
                attach(self._outer)

    def _end(self, error: BaseException | None) -> None:
        span, self._span = self._span, None
        assert span is not None  # noqa: S101  both callers looked
        error = self._error if error is None else error
        self._error = None  # An exception's frames must not live as long as this object.
        attributes, self._attributes = self._attributes, None
        if attributes is not None:
            safely(self._close, attributes, error)
            safely(self._conclude, span, attributes, error)
        outlet = self._outlet
        if outlet is not None and outlet.duration is not None:
            safely(self._measure, outlet.duration, error)
        span.end()

    def _conclude(self, span: Span, attributes: Attributes, error: BaseException | None) -> None:
        if isinstance(error, Exception):
            attributes[semconv.ERROR_TYPE] = _type_name(error)
            span.set_status(StatusCode.ERROR)
        elif error is not None:
            attributes.setdefault(semconv.OUTCOME, _ending(error).value)
        span.set_attributes(attributes)
        if isinstance(error, Exception) and self._content:
            safely(span.record_exception, error)

    def _measure(self, duration: Histogram, error: BaseException | None) -> None:
        operation = self._metered()
        if operation is None:
            return
        attributes = {semconv.OPERATION_NAME: operation, **self._dimensions()}
        if isinstance(error, Exception):
            attributes[semconv.ERROR_TYPE] = _type_name(error)
        duration.record(perf_counter() - self._began, attributes, self._context)

    def _name(self) -> str:
        """The span's name."""
        raise NotImplementedError

    def _first(self) -> Attributes | None:
        """What the standard wants a sampler to see. For memory that is nothing, and a second setting costs."""
        return None

    def _describe(self, attributes: Attributes) -> None:
        """What is known when the span starts and costs work to say."""

    def _close(self, attributes: Attributes, error: BaseException | None) -> None:
        """What is known only when the span ends."""

    def _metered(self) -> str | None:
        """The operation its duration is counted under; ``None``: it is not counted."""
        return None

    def _dimensions(self) -> dict[str, str]:
        """What else the duration is told apart by. Never an id."""
        return {}


def _ending(error: BaseException) -> Outcome:
    """A consumer that left early and a stop from outside are ways to end, not errors."""
    return Outcome.ABANDONED if isinstance(error, GeneratorExit) else Outcome.CANCELLED


def _type_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
