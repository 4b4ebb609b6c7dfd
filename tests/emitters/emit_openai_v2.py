"""The contrib instrumentor of the OpenAI client, as of the conventions 1.28 to 1.36: one log event a message."""

from __future__ import annotations

import os

from openai_cases import record_cases
from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor
from opentelemetry.sdk._events import EventLoggerProvider
from stage import TOOLS, Case, Stage, instrumented

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


def record(stage: Stage) -> None:
    os.environ[CAPTURE] = "true"
    chat = record_cases(stage, _instrument, responses=False)
    os.environ[CAPTURE] = "false"
    chat("off", TOOLS)


def _instrument(case: Case):
    return instrumented(
        OpenAIInstrumentor(),
        tracer_provider=case.tracer_provider,
        event_logger_provider=EventLoggerProvider(logger_provider=case.logger_provider),
    )
