"""openai-agents, through OpenInference's instrumentor of it."""

from __future__ import annotations

import asyncio
from typing import Any

from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool
from openai import AsyncOpenAI
from openinference.instrumentation.openai_agents import OpenAIAgentsInstrumentor
from stage import Stage, instrumented

QUESTION = "Żółw? What is my locker code?"


def record(stage: Stage) -> None:
    for name, kind, echoes in (
        ("chat", OpenAIChatCompletionsModel, True),
        ("responses", OpenAIResponsesModel, True),
        ("instructions not echoed", OpenAIResponsesModel, False),
    ):
        stage.model.echoes_instructions = echoes
        with (
            stage.case(name) as case,
            instrumented(OpenAIAgentsInstrumentor(), tracer_provider=case.tracer_provider, exclusive_processor=True),
        ):
            asyncio.run(_turns(stage, kind))


async def _turns(stage: Stage, kind: Any) -> None:
    client = AsyncOpenAI(base_url=stage.model.url, api_key="k", max_retries=0)
    agent = Agent(
        name="keeper", instructions="You keep Zoë's locker 🦊.", model=kind("gpt-test", client),
        model_settings=ModelSettings(), tools=[lookup] if kind is OpenAIChatCompletionsModel else [],
    )  # fmt: skip
    first = await Runner.run(agent, QUESTION)
    await Runner.run(agent, [*first.to_input_list(), {"role": "user", "content": "ありがとう"}])


@function_tool
def lookup(key: str) -> str:
    """Looks a thing up."""
    return f'{{"{key}": "quokka"}}'
