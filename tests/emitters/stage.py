"""What every recording needs: a scripted model on loopback, a tracer provider for each case, and the fixture's form.

Runs inside an emitter's own virtual environment: standard library, the OpenTelemetry SDK of that environment, no more.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs import export as log_export
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

ANSWER = "Dobrze, it is the quokka 🦘"
TOOL = {
    "type": "function",
    "function": {
        "name": "lookup",
        "description": "Looks a thing up.",
        "parameters": {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]},
    },
}
SYSTEM = {"role": "system", "content": 'You keep Zoë\'s locker.\nFacts:\n- "the locker code is quokka" 🦊'}
PLAIN = [SYSTEM, {"role": "user", "content": "Żółw? What is my locker code?"}]
TOOLS = [
    *PLAIN,
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "lookup", "arguments": '{"key": "szafka №7"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": '{"code": "quokka"}'},
    {"role": "assistant", "content": "It is the quokka."},
    {"role": "user", "content": "ありがとう, and my \\ and my / too?"},
]
PARTS = [
    {"role": "developer", "content": "Answer briefly."},
    {
        "role": "user",
        "content": [
            {"type": "text", "text": "Look at this:"},
            {"type": "image_url", "image_url": {"url": "https://images.test/fox.png"}},
            {"type": "text", "text": "Is it a fox?"},
        ],
    },
]
LONG = [SYSTEM, *({"role": ("user", "assistant")[n % 2], "content": f"message {n}: kookaburra"} for n in range(9))]
RESPONSES: dict[str, Any] = {
    "instructions": "Keep the wombat's locker.",
    "input": [
        {"role": "user", "content": "Żółw? What is my locker code?"},
        {"type": "function_call", "call_id": "call_1", "name": "lookup", "arguments": '{"key": "szafka №7"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": '{"code": "quokka"}'},
        {"role": "user", "content": [{"type": "input_text", "text": "ありがとう"}]},
    ],
}


class Model(ThreadingHTTPServer):
    """An OpenAI-compatible server that answers the same to everyone, and keeps what it was sent.

    It calls the tool once where a request offers one and no result is there yet.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.sent: list[dict[str, Any]] = []
        self.echoes_instructions = True
        """OpenAI's responses repeat the request's instructions; not every compatible server's do."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Handler(BaseHTTPRequestHandler):
    server: Model

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.sent.append(body)
        if self.path.endswith("/responses"):
            self._reply(_responses_reply(body) | {"instructions": self._instructions(body)})
        elif body.get("stream"):
            self._stream(_chat_reply(body))
        else:
            self._reply(_chat_reply(body))

    def _instructions(self, body: dict[str, Any]) -> str | None:
        return body.get("instructions") if self.server.echoes_instructions else None

    def _reply(self, value: dict[str, Any]) -> None:
        payload = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def _stream(self, whole: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        choice = whole["choices"][0]
        delta = choice["message"]
        for index, call in enumerate(delta.get("tool_calls") or ()):
            call["index"] = index
        for fields in (
            {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {"choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]},
            {"choices": [], "usage": whole["usage"]},
        ):
            chunk = whole | {"object": "chat.completion.chunk", "usage": None} | fields
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *args: Any) -> None:
        """Nothing."""


def _chat_reply(body: dict[str, Any]) -> dict[str, Any]:
    wants_tool = body.get("tools") and not any(message["role"] == "tool" for message in body["messages"])
    message: dict[str, Any] = {"role": "assistant", "content": None if wants_tool else ANSWER}
    if wants_tool:
        name = body["tools"][0]["function"]["name"]
        message["tool_calls"] = [
            {"id": "call_1", "type": "function", "function": {"name": name, "arguments": '{"key": "szafka №7"}'}}
        ]
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if wants_tool else "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def _responses_reply(body: dict[str, Any]) -> dict[str, Any]:
    text = {"type": "output_text", "text": ANSWER, "annotations": []}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": body["model"],
        "status": "completed",
        "output": [{"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [text]}],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 1,
            "output_tokens": 1,
            "total_tokens": 2,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
    }


class Case:
    """One recording: a tracer provider and a logger provider of its own, with the limits it asks for."""

    def __init__(self, name: str, limits: dict[str, int]) -> None:
        self.name, self.limits = name, limits
        self.spans, self.logs = InMemorySpanExporter(), _log_exporter()
        self.tracer_provider = TracerProvider(span_limits=SpanLimits(**limits))
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self.spans))
        self.logger_provider = LoggerProvider()
        self.logger_provider.add_log_record_processor(log_export.SimpleLogRecordProcessor(self.logs))


class Stage:
    """The scripted model, and the cases recorded so far."""

    def __init__(self) -> None:
        self.model = Model()
        self.cases: list[dict[str, Any]] = []
        threading.Thread(target=self.model.serve_forever, daemon=True).start()

    @contextmanager
    def case(self, name: str, **limits: int) -> Iterator[Case]:
        """Records the spans and log records of what runs inside, and what the model was sent meanwhile."""
        case, first = Case(name, limits), len(self.model.sent)
        yield case
        logs = [_log(log) for log in case.logs.get_finished_logs()]
        spans = [_span(span, logs) for span in case.spans.get_finished_spans()]
        self.add(name, spans, first=first, limits=limits)

    def add(self, name: str, spans: list[dict[str, Any]], *, first: int, limits: dict[str, int] | None = None) -> None:
        """Adds a case recorded by other means; ``first`` is the place of its first request."""
        wanted = ("messages", "instructions", "input")
        sent = [{key: body[key] for key in wanted if key in body} for body in self.model.sent[first:]]
        self.cases.append({"case": name, "limits": limits or {}, "sent": sent, "spans": spans})

    def save(self, emitter: str, folder: Path) -> None:
        """Writes the fixture; the server's address and the environment's paths are replaced."""
        mine = sorted((d.metadata["Name"], d.version) for d in distributions() if d.metadata["Name"] in _NAMED)
        cases = ",\n".join(_lines(case) for case in self.cases)
        text = f'{{"emitter": {_line(emitter)}, "packages": {_line(dict(mine))}, "cases": [\n{cases}\n]}}'
        text = text.replace(f"127.0.0.1:{self.model.server_port}", "model.test")
        text = text.replace(f": {self.model.server_port}", ": 443").replace(sys.prefix, "VENV")
        (folder / f"{emitter}.json").write_text(text + "\n")


@contextmanager
def instrumented(instrumentor: Any, **options: Any) -> Iterator[None]:
    """Instruments for as long as the block runs."""
    instrumentor.instrument(**options)
    try:
        yield
    finally:
        instrumentor.uninstrument()


def _lines(case: dict[str, Any]) -> str:
    """A case as JSON, one request and one span a line."""
    sent, spans = (",\n  ".join(map(_line, case[key])) for key in ("sent", "spans"))
    return (
        f' {{"case": {_line(case["case"])}, "limits": {_line(case["limits"])},\n'
        f'  "sent": [\n  {sent}],\n  "spans": [\n  {spans}]}}'
    )


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


_NAMED = {
    "opentelemetry-sdk", "opentelemetry-instrumentation-openai", "opentelemetry-instrumentation-openai-v2",
    "opentelemetry-util-genai", "openinference-instrumentation-openai", "openinference-instrumentation-openai-agents",
    "openai", "openai-agents", "pydantic-ai-slim", "agent-framework-core", "agent-framework-openai", "strands-agents",
    "sentry-sdk", "fastaiagent",
}  # fmt: skip


# Long, the same in every span, and nothing about the prompt.
_NOISE = {"logfire.json_schema", "gen_ai.tool.definitions", "gen_ai.agent.tools", "model_request_parameters"}


def _span(span: ReadableSpan, logs: list[dict[str, Any]]) -> dict[str, Any]:
    context = span.get_span_context()
    events = [[event.name, dict(event.attributes or {})] for event in span.events if event.name != "exception"]
    return {
        "name": span.name,
        "scope": span.instrumentation_scope.name if span.instrumentation_scope else "",
        "attributes": {key: value for key, value in (span.attributes or {}).items() if key not in _NOISE},
        "events": events,
        "logs": [[log["name"], log["fields"]] for log in logs if context and log["span"] == context.span_id],
        "dropped_attributes": span.dropped_attributes,
        "dropped_events": span.dropped_events,
    }


def _log(data: Any) -> dict[str, Any]:
    """A log record's event name, and its attributes merged with its body."""
    record = data.log_record
    attributes = dict(record.attributes or {})
    name = getattr(record, "event_name", None) or attributes.pop("event.name", "")
    body = record.body if isinstance(record.body, dict) else {}
    return {"name": name, "span": record.span_id, "fields": {**attributes, **body}}


def _log_exporter() -> Any:
    """The in-memory log exporter; younger SDKs call it by another name."""
    kind = getattr(log_export, "InMemoryLogRecordExporter", None) or log_export.InMemoryLogExporter
    return kind()
