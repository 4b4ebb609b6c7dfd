"""Spans and durations of memory, on a tracer provider of one's own or on the global one.

Where neither a tracer nor a meter provider is set, every call returns one shared object that does nothing.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

from opentelemetry import metrics, trace
from opentelemetry.metrics import Histogram, MeterProvider, NoOpMeterProvider
from opentelemetry.metrics import _internal as metrics_module
from opentelemetry.trace import NoOpTracer, ProxyTracerProvider, TracerProvider

from memtrace import semconv
from memtrace.capture import PromptLike, opted_in, own
from memtrace.model import Scope
from memtrace.operation import Outlet
from memtrace.spans import BlockSpan, ModelSpan, ReadSpan, ToolSpan, TurnSpan, WriteSpan

__all__ = [
    "BlockSpan",
    "ModelSpan",
    "ReadSpan",
    "ToolSpan",
    "Tracing",
    "TurnSpan",
    "WriteSpan",
    "default",
    "model_call",
    "own",
    "read",
    "turn",
    "write",
]

_NAME: Final = "memtrace"
_MISSING: Final[Any] = object()


class Tracing:
    """A tracer and a meter, and whether content may be recorded on their spans.

    Without providers it follows the global ones, set before or after. ``content``: whether someone's words and raw ids
    may go on spans; not told, they may where the tracer provider is memtrace's own (`own`) or the environment's
    ``OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`` is ``SPAN_ONLY`` or ``SPAN_AND_EVENT``.
    """

    __slots__ = ("_bound", "_content", "_meter_provider", "_tracer_provider")

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        content: bool | None = None,
    ) -> None:
        self._tracer_provider = None if isinstance(tracer_provider, ProxyTracerProvider) else tracer_provider
        self._meter_provider = meter_provider
        self._content = content
        self._bound: tuple[object, object, Outlet | None] = (_MISSING, _MISSING, None)

    def turn(self, agent: str, *, user: str = "", session: str = "", label: str = "") -> TurnSpan:
        """``invoke_agent <agent>``: one turn of an agent, for a user in a session."""
        outlet = self.outlet()
        return _NO_TURN if outlet is None else TurnSpan(outlet, agent, user=user, session=session, label=label)

    def read(self, query: str = "", *, operation: str = "read", scope: Scope | None = None) -> ReadSpan:
        """``memory.read``, or ``memory.retrieve`` for ``operation="retrieve"``."""
        outlet = self.outlet()
        return _NO_READ if outlet is None else ReadSpan(outlet, operation, scope, query)

    def write(self, *, operation: str = "write", scope: Scope | None = None) -> WriteSpan:
        """``memory.write``, or ``memory.persist``, ``.update`` or ``.forget`` for the operation of that name."""
        outlet = self.outlet()
        return _NO_WRITE if outlet is None else WriteSpan(outlet, operation, scope)

    def model_call(
        self, model: str, messages: PromptLike, *, purpose: str = "answer", system: str = "", provider: str = ""
    ) -> ModelSpan:
        """``chat <model>``: one model call, with the prompt as it is sent; ``purpose``: answer, extraction or summary.

        ``system``: instructions that the API takes apart from the messages. ``provider``: such as ``openai``.
        """
        outlet = self.outlet()
        if outlet is None:
            return _NO_CALL
        return ModelSpan(outlet, model, messages, purpose=purpose, system=system, provider=provider)

    def tool(self, name: str, call_id: str = "") -> ToolSpan:
        """``execute_tool <name>``: one run of a tool, for the model's call of that id."""
        outlet = self.outlet()
        return _NO_TOOL if outlet is None else ToolSpan(outlet, name, call_id)

    def outlet(self) -> Outlet | None:
        """Where spans and durations go now; ``None``: nowhere."""
        tracers = _global_tracers() if self._tracer_provider is None else self._tracer_provider
        meters = _global_meters() if self._meter_provider is None else self._meter_provider
        bound = self._bound
        if bound[0] is tracers and bound[1] is meters:
            return bound[2]
        return self._bind()

    def _bind(self) -> Outlet | None:
        # The public getters load what the environment names, the first time.
        trace.get_tracer_provider()
        metrics.get_meter_provider()
        tracers = _global_tracers() if self._tracer_provider is None else self._tracer_provider
        meters = _global_meters() if self._meter_provider is None else self._meter_provider
        content = True if self._content is None and opted_in() else self._content
        outlet = _outlet(tracers, meters, content)
        self._bound = (tracers, meters, outlet)
        return outlet


def _outlet(tracers: TracerProvider | None, meters: MeterProvider | None, content: bool | None) -> Outlet | None:
    duration = None if meters is None or isinstance(meters, NoOpMeterProvider) else _histogram(meters)
    if tracers is None:
        return None if duration is None else Outlet(None, NoOpTracer(), duration, content=False)
    tracer = tracers.get_tracer(_NAME, _version(), semconv.SCHEMA_URL)
    if duration is None and isinstance(tracer, NoOpTracer):
        return None
    return Outlet(tracers, tracer, duration, content)


def _histogram(meters: MeterProvider) -> Histogram:
    return meters.get_meter(_NAME, _version(), semconv.SCHEMA_URL).create_histogram(
        semconv.OPERATION_DURATION,
        unit="s",
        description="Duration of memory operations and model calls.",
        explicit_bucket_boundaries_advisory=semconv.DURATION_BUCKETS,
    )


@lru_cache(maxsize=1)
def _version() -> str:
    try:
        return version("memtrace-otel")
    except PackageNotFoundError:
        return ""


def _global_tracers() -> TracerProvider | None:
    """The global provider, ``None`` where none is set.

    The public getter takes a microsecond while none is set (it reads the environment each time), all that a call
    without an SDK may cost.
    """
    provider: TracerProvider | None = getattr(trace, "_TRACER_PROVIDER", _MISSING)
    if provider is not _MISSING:
        return provider
    provider = trace.get_tracer_provider()
    return None if isinstance(provider, ProxyTracerProvider) else provider


def _global_meters() -> MeterProvider | None:
    """Likewise, for metrics."""
    provider: MeterProvider | None = getattr(metrics_module, "_METER_PROVIDER", _MISSING)
    return metrics.get_meter_provider() if provider is _MISSING else provider


_NO_TURN: Final = TurnSpan(None, "")
_NO_READ: Final = ReadSpan(None, "read", None)
_NO_WRITE: Final = WriteSpan(None, "write", None)
_NO_CALL: Final = ModelSpan(None, "", ())
_NO_TOOL: Final = ToolSpan(None, "")

default: Final = Tracing()
turn: Final = default.turn
read: Final = default.read
write: Final = default.write
model_call: Final = default.model_call
