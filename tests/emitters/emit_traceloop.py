"""OpenLLMetry's OpenAI instrumentor: `gen_ai.input.messages` today, `gen_ai.prompt.N` in the older releases."""

from __future__ import annotations

import importlib.util
import os

from openai_cases import record_cases
from opentelemetry.instrumentation.openai import OpenAIInstrumentor
from stage import TOOLS, Stage, instrumented


def record(stage: Stage) -> None:
    chat = record_cases(
        stage,
        lambda case: instrumented(OpenAIInstrumentor(), tracer_provider=case.tracer_provider),
        responses=importlib.util.find_spec("opentelemetry.instrumentation.openai.v1.responses_wrappers") is not None,
    )
    os.environ["TRACELOOP_TRACE_CONTENT"] = "false"
    chat("off", TOOLS)
