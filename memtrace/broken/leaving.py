"""Memories that export what should have stayed, or keep too little of it, each with a redaction of its own."""

from __future__ import annotations

import base64
import json
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from memtrace import semconv
from memtrace.broken import broken, lawful
from memtrace.broken.export import as_message
from memtrace.broken.tiny import TinyMemory
from memtrace.harness.system import Environment
from memtrace.identity import id_key
from memtrace.model import Caller, Reply
from memtrace.tracing import Tracing, own

Said = dict[str, Any]


class _Exporting(TinyMemory):
    """Records everything here, and exports what `leaves`: names, counts and the types of errors."""

    keeps: ClassVar[bool] = True
    """Whether words go on its spans."""

    def __init__(self, env: Environment) -> None:
        super().__init__(env)
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(env.span_processor)
        if not env.options.get("foreign_exporter"):
            provider.add_span_processor(SimpleSpanProcessor(_Sender(self, env.collector_url)))
            if self.keeps:
                own(provider)
        self.tracing = Tracing(tracer_provider=provider)
        self.user = ""

    def leaves(self, said: Said) -> Said:
        """What leaves of a span's attributes."""
        return {key: said[key] for key in (semconv.OPERATION_NAME, semconv.ERROR_TYPE) if key in said}

    def turn(self, caller: Caller, text: str) -> Reply:
        self.user = caller.user
        return super().turn(caller, text)

    @contextmanager
    def model_span(self, model: str, messages: list[dict[str, Any]]) -> Iterator[None]:
        with self.tracing.model_call(model, [as_message(m) for m in messages]):
            yield


class _Sender(SpanExporter):
    """An exporter of the application's own: one JSON document for each batch."""

    def __init__(self, memory: _Exporting, url: str) -> None:
        self._memory = memory
        self._url = f"{url}/v1/traces"

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        batch = [{"name": span.name, "attributes": self._memory.leaves(dict(span.attributes or {}))} for span in spans]
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self._url, json.dumps(batch).encode(), headers)  # noqa: S310  the harness's own
        with urllib.request.urlopen(request, timeout=5):  # noqa: S310
            return SpanExportResult.SUCCESS


@broken("export.no-payload-leaves", report="https://github.com/Arize-ai/openinference/pull/3773")
class HidesByName(_Exporting):
    """Takes the prompt off by a list of bad names, and forgets that it is there under a second one."""

    def leaves(self, said: Said) -> Said:
        hidden = (semconv.REQUEST_MESSAGES, semconv.OUTPUT_MESSAGES)
        return {key: value for key, value in said.items() if key not in hidden}


@broken("export.no-payload-leaves")
class CutsShort(_Exporting):
    """Cuts every text to a few letters, which is enough for half a secret."""

    def leaves(self, said: Said) -> Said:
        question = json.loads(said[semconv.REQUEST_MESSAGES])[-1]["content"] if semconv.REQUEST_MESSAGES in said else ""
        return super().leaves(said) | {"preview": [word[-9:] for word in question.split()]}


@broken("export.no-id-in-clear")
class EncodesIds(_Exporting):
    """Sends the user's id in base64, which anyone can read."""

    def leaves(self, said: Said) -> Said:
        return super().leaves(said) | {"user": base64.b64encode(f"user={self.user}".encode()).decode()}


@broken("export.local-is-complete")
class RedactsTooEarly(_Exporting):
    """Keeps words off its spans altogether: nothing leaves, and nothing is left to debug with."""

    keeps = False
    capabilities = TinyMemory.capabilities - {"own-spans"}


@lawful(
    "a keyed digest can be matched and not read",
    rules=("export.no-id-in-clear", "export.no-payload-leaves", "export.local-is-complete"),
)
class DigestsIds(_Exporting):
    """Sends the user's id as a digest."""

    def leaves(self, said: Said) -> Said:
        key = id_key()
        return super().leaves(said) | ({"user": key.digest("user", self.user)} if key else {})
