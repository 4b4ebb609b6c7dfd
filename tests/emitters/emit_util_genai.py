"""OpenTelemetry's own helper for instrumentations: the standard's attributes, its details event, its references.

There is no client to call here, so the messages are handed to it as an instrumentation would, and to the model too.
"""

from __future__ import annotations

import os
import tempfile
from typing import Any

from opentelemetry.util.genai._upload.completion_hook import UploadCompletionHook
from opentelemetry.util.genai.handler import TelemetryHandler
from opentelemetry.util.genai.types import (
    InputMessage,
    OutputMessage,
    TextPart,
    ToolCallRequestPart,
    ToolCallResponsePart,
    UriPart,
)
from stage import ANSWER, PARTS, PLAIN, TOOLS, Case, Stage

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


def record(stage: Stage) -> None:
    for name, messages, mode, limits in (
        ("plain", PLAIN, "SPAN_ONLY", {}),
        ("tools", TOOLS, "SPAN_ONLY", {}),
        ("parts", PARTS, "SPAN_AND_EVENT", {}),
        ("event", TOOLS, "EVENT_ONLY", {}),
        ("cut", TOOLS, "SPAN_ONLY", {"max_span_attribute_length": 150}),
        ("crowded", TOOLS, "SPAN_ONLY", {"max_span_attributes": 5}),
        ("off", TOOLS, "NO_CONTENT", {}),
    ):
        os.environ[CAPTURE] = mode
        with stage.case(name, **limits) as case:
            _call(stage, case, messages)
    os.environ[CAPTURE] = "NO_CONTENT"
    with tempfile.TemporaryDirectory() as folder, stage.case("uploaded") as case:
        hook = UploadCompletionHook(base_path=f"file://{folder}")
        _call(stage, case, TOOLS, completion_hook=hook)
        hook.shutdown()
        for span in case.spans.get_finished_spans():
            _forget(span, folder)


def _call(stage: Stage, case: Case, messages: list[Any], **options: Any) -> None:
    handler = TelemetryHandler(tracer_provider=case.tracer_provider, logger_provider=case.logger_provider, **options)
    stage.model.sent.append({"model": "gpt-test", "messages": messages})
    with handler.inference("openai", request_model="gpt-test", operation_name="chat") as invocation:
        invocation.system_instruction = [
            TextPart(message["content"]) for message in messages if message["role"] in ("system", "developer")
        ]
        invocation.input_messages = [
            InputMessage(role=message["role"], parts=list(_parts(message)))
            for message in messages
            if message["role"] not in ("system", "developer")
        ]
        invocation.output_messages = [OutputMessage(role="assistant", parts=[TextPart(ANSWER)], finish_reason="stop")]


def _parts(message: dict[str, Any]):
    if message["role"] == "tool":
        yield ToolCallResponsePart(id=message["tool_call_id"], response=message["content"])
        return
    content = message["content"] or []
    for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        if part["type"] == "text":
            yield TextPart(part["text"])
        else:
            yield UriPart(mime_type=None, modality="image", uri=part["image_url"]["url"])
    for call in message.get("tool_calls", ()):
        yield ToolCallRequestPart(id=call["id"], **call["function"])


def _forget(span: Any, folder: str) -> None:
    """Takes the temporary folder's name out of the references."""
    for key, value in dict(span.attributes).items():
        if key.endswith("_ref"):
            span._attributes._dict[key] = value.replace(folder, "/bucket")
