"""Microsoft's agent-framework: the standard's attributes, or one log event a message."""

from __future__ import annotations

import asyncio

from agent_framework import Agent, tool
from agent_framework import observability as af
from agent_framework.openai import OpenAIChatCompletionClient
from opentelemetry import _logs, trace
from stage import Case, Stage

QUESTION = "Żółw? What is my locker code?"


def record(stage: Stage) -> None:
    for name, latest, sensitive, limits in (
        ("attributes", True, True, {}),
        ("events", False, True, {}),
        ("cut", True, True, {"max_span_attribute_length": 150}),
        ("off", True, False, {}),
    ):
        af.enable_instrumentation(enable_sensitive_data=sensitive, enable_message_events=not latest)
        af.OBSERVABILITY_SETTINGS.otel_semconv_stability_opt_in = "gen_ai_latest_experimental" if latest else ""
        with stage.case(name, **limits) as case:
            _use(case)
            asyncio.run(_turns(stage))


def _use(case: Case) -> None:
    """The framework asks the global providers each time, and they can be set only once."""
    trace._TRACER_PROVIDER = case.tracer_provider
    af.otel_event_logger = case.logger_provider.get_logger("agent_framework")
    _logs._internal._LOGGER_PROVIDER = case.logger_provider


async def _turns(stage: Stage) -> None:
    client = OpenAIChatCompletionClient(model="gpt-test", api_key="k", base_url=stage.model.url)
    agent = Agent(client, "You keep Zoë's locker 🦊.", name="keeper", tools=[lookup])
    session = agent.create_session()
    await agent.run(QUESTION, session=session)
    await agent.run("ありがとう", session=session)


@tool(approval_mode="never_require")
def lookup(key: str) -> str:
    """Looks a thing up."""
    return f'{{"{key}": "quokka"}}'
