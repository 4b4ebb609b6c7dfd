"""Strands: one span event a message, or the details event as a span event; redacted on request."""

from __future__ import annotations

import os

from opentelemetry import trace
from stage import Stage
from strands import Agent, tool
from strands.models.openai import OpenAIModel
from strands.telemetry import tracer as strands_tracer

OPT_IN = "OTEL_SEMCONV_STABILITY_OPT_IN"
QUESTION = "Żółw? What is my locker code?"


def record(stage: Stage) -> None:
    for name, opt_in, limits in (
        ("events", "", {}),
        ("details", "gen_ai_latest_experimental", {}),
        ("attributes", "gen_ai_latest_experimental,gen_ai_span_attributes_only", {}),
        ("redacted", "gen_ai_latest_experimental,gen_ai_unredacted_attributes=", {}),
        ("redacted events", "gen_ai_unredacted_attributes=", {}),
        ("cut", "", {"max_event_attributes": 8, "max_attribute_length": 60}),
        ("crowded", "", {"max_events": 3}),
    ):
        os.environ[OPT_IN] = opt_in
        with stage.case(name, **limits) as case:
            trace._TRACER_PROVIDER = case.tracer_provider
            strands_tracer._tracer_instance = None
            _turns(stage, again=not name.startswith("redacted"))


def _turns(stage: Stage, *, again: bool) -> None:
    model = OpenAIModel(client_args={"base_url": stage.model.url, "api_key": "k"}, model_id="gpt-test")
    agent = Agent(
        model=model, system_prompt="You keep Zoë's locker 🦊.", tools=[lookup], callback_handler=None, name="keeper"
    )
    agent(QUESTION)
    if again:
        agent("ありがとう")


@tool
def lookup(key: str) -> str:
    """Looks a thing up."""
    return f'{{"{key}": "quokka"}}'
