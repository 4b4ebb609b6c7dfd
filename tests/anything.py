"""Telemetry of any kind, with a planted word in any place of OpenTelemetry's data model."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context
from opentelemetry.sdk._logs import ReadableLogRecord
from opentelemetry.sdk.metrics._internal.exemplar import Exemplar
from opentelemetry.sdk.metrics._internal.point import Buckets, ExponentialHistogram, ExponentialHistogramDataPoint
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode, TraceState

from memtrace import redaction
from memtrace.redaction import CONTENT, EVENT_NAMES, KEYS, METRICS, SPAN_NAMES, SUBJECTS

WORD = "zqtestxmarlins"
IDENTIFIERS = {key for key, shape in KEYS.items() if shape in redaction.IDENTIFIERS}


class Anything:
    """Draws spans, log records and metrics. ``ids``: whether keys of ids are among the attributes."""

    def __init__(self, seed: int, *, ids: bool = True) -> None:
        self._random = random.Random(seed)
        self._keys = sorted({*KEYS, *CONTENT} - (set() if ids else IDENTIFIERS))

    def words(self) -> str:
        """The planted word, in one of its disguises, with other words around it."""
        pick = self._random
        form = pick.choice(
            [
                WORD,
                WORD.upper(),
                WORD[: pick.randint(7, 13)],
                WORD.encode().hex(),
                "".join(f"%{byte:02X}" for byte in WORD.encode()),
                json.dumps({"content": [WORD]}),
                "".join(f"\\u{ord(letter):04x}" for letter in WORD),
                base64.b64encode(b"x" * pick.randint(0, 2) + WORD.encode() + b"yz").decode(),
                quote(f"{WORD} ü"),
            ]
        )
        return pick.choice(["{}", "{}", "about {} and more", "SELECT {}", "chat {}", "memory.read.{}", "{}:1"]).format(
            form
        )

    def value(self, depth: int = 0) -> Any:
        pick = self._random
        kind = pick.randrange(12 if depth < 3 else 8)
        match kind:
            case 0 | 1 | 2 | 3:
                return self.words()
            case 4:
                return self.words().encode()
            case 5:
                return pick.choice([True, False, None])
            case 6:
                return pick.choice([0, 1, -1, 7, 2**53, 2**63 - 1])
            case 7:
                return pick.choice([0.0, 1.5, -2e300, float("inf")])
            case 8 | 9:
                return [self.value(depth + 1) for _ in range(pick.randrange(4))]
            case _:
                return {self.key(): self.value(depth + 1) for _ in range(pick.randrange(4))}

    def key(self) -> str:
        pick = self._random
        return pick.choice(
            [pick.choice(self._keys), pick.choice(self._keys), self.words(), f"llm.input_messages.0.{WORD}", "note"]
        )

    def attributes(self) -> dict[str, Any]:
        return {self.key(): self.value() for _ in range(self._random.randrange(8))}

    def name(self, known: Sequence[str]) -> str:
        return self._random.choice([self._random.choice(known), self.words()])

    def context(self) -> SpanContext:
        pick = self._random
        state = TraceState([("vendor", WORD), (WORD, "1")]) if pick.random() < 0.3 else TraceState()
        return SpanContext(pick.getrandbits(128) | 1, pick.getrandbits(64) | 1, pick.random() < 0.5, trace_state=state)

    def resource(self) -> Resource:
        return Resource(self.attributes(), self.schema())

    def schema(self) -> str:
        return self._random.choice(["", "https://opentelemetry.io/schemas/1.44.0", f"https://example.org/{WORD}"])

    def scope(self) -> InstrumentationScope:
        name = self.name(["memtrace", "opentelemetry.sdk", "nobody.knows"])
        version = self._random.choice([None, "1.2.3", "0.66b2", self.words()])
        # A scope's attributes must be hashable for the exporters to group by it.
        return InstrumentationScope(name, version, self.schema(), {"k": self.words()})

    def span(self) -> ReadableSpan:
        pick = self._random
        return ReadableSpan(
            name=self.name(sorted(SPAN_NAMES | SUBJECTS)),
            context=self.context(),
            parent=self.context() if pick.random() < 0.5 else None,
            resource=self.resource(),
            attributes=self.attributes(),
            events=[
                Event(self.name(sorted(EVENT_NAMES)), self.attributes(), timestamp=5) for _ in range(pick.randrange(3))
            ],
            links=[Link(self.context(), self.attributes()) for _ in range(pick.randrange(3))],
            kind=pick.choice(list(SpanKind)),
            status=Status(StatusCode.ERROR, self.words()) if pick.random() < 0.5 else Status(StatusCode.UNSET),
            start_time=1,
            end_time=2,
            instrumentation_scope=self.scope(),
        )

    def log(self) -> ReadableLogRecord:
        pick = self._random
        record = LogRecord(
            timestamp=1,
            observed_timestamp=2,
            context=Context(),
            severity_text=self.name(["INFO", "WARN"]),
            severity_number=pick.choice([SeverityNumber.INFO, SeverityNumber.ERROR]),
            body=self.value(),
            attributes=self.attributes(),
            event_name=pick.choice([None, self.name(sorted(EVENT_NAMES))]),
        )
        record.trace_id, record.span_id = pick.getrandbits(128), pick.getrandbits(64)
        return ReadableLogRecord(record, self.resource(), self.scope())

    def metrics(self) -> MetricsData:
        kept = [self._metric() for _ in range(self._random.randint(1, 3))]
        return MetricsData(
            [ResourceMetrics(self.resource(), [ScopeMetrics(self.scope(), kept, self.schema())], self.schema())]
        )

    def _metric(self) -> Metric:
        pick = self._random
        delta = AggregationTemporality.DELTA
        points = range(pick.randint(1, 3))
        data: Any = pick.choice(
            [
                lambda: Sum([self._number() for _ in points], delta, is_monotonic=True),
                lambda: Gauge([self._number() for _ in points]),
                lambda: Histogram([self._histogram() for _ in points], delta),
                lambda: ExponentialHistogram([self._exponential() for _ in points], delta),
            ]
        )()
        return Metric(self.name(sorted(METRICS)), self.words(), pick.choice(["s", "1", self.words()]), data)

    def _exemplars(self) -> list[Exemplar]:
        return [Exemplar(self.attributes(), 1.0, 3, 4, 5)]

    def _number(self) -> NumberDataPoint:
        return NumberDataPoint(self.attributes(), 1, 2, 3, self._exemplars())

    def _histogram(self) -> HistogramDataPoint:
        return HistogramDataPoint(self.attributes(), 1, 2, 2, 3.0, [1, 1], [1.5], 1.0, 2.0, self._exemplars())

    def _exponential(self) -> ExponentialHistogramDataPoint:
        buckets = Buckets(0, [1])
        return ExponentialHistogramDataPoint(
            self.attributes(), 1, 2, 1, 1.0, 0, 0, buckets, buckets, 0, 1.0, 1.0, self._exemplars()
        )
