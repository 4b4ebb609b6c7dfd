"""OpenInference's OpenAI instrumentor: `llm.input_messages.N`."""

from __future__ import annotations

from openai_cases import record_cases
from openinference.instrumentation import TraceConfig
from openinference.instrumentation.openai import OpenAIInstrumentor
from stage import PARTS, TOOLS, Stage, instrumented


def record(stage: Stage) -> None:
    config = TraceConfig()
    chat = record_cases(
        stage,
        lambda case: instrumented(OpenAIInstrumentor(), tracer_provider=case.tracer_provider, config=config),
    )
    config = TraceConfig(hide_inputs=True)
    chat("off", TOOLS)
    config = TraceConfig(hide_input_messages=True)
    chat("messages hidden", TOOLS)
    config = TraceConfig(hide_input_text=True)
    chat("text hidden", PARTS)
