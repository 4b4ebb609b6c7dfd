"""pydantic-ai's own instrumentation, in each of its data formats."""

from __future__ import annotations

import warnings
from typing import Any

from openai import AsyncOpenAI
from pydantic_ai import Agent, BinaryContent, ImageUrl
from pydantic_ai.models.instrumented import InstrumentationSettings
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from stage import Stage

QUESTION = "Żółw? What is my locker code?"


def record(stage: Stage) -> None:
    warnings.simplefilter("ignore")
    client = AsyncOpenAI(base_url=stage.model.url, api_key="k", max_retries=0)
    model = OpenAIChatModel("gpt-test", provider=OpenAIProvider(openai_client=client))

    def run(name: str, question: Any = QUESTION, *, again: bool = False, limits: Any = None, **settings: Any) -> None:
        with stage.case(name, **(limits or {})) as case:
            instrument = InstrumentationSettings(
                tracer_provider=case.tracer_provider, include_model_request_parameters=False, **settings
            )
            agent = Agent(model, system_prompt="You keep Zoë's locker.", instructions="Be brief 🦊.", name="keeper")
            agent.instrument = instrument
            agent.tool_plain(lookup)
            first = agent.run_sync(question)
            if again:
                agent.run_sync("ありがとう", message_history=first.all_messages())

    for version in (2, 3, 4, 5, 6):
        run(f"format {version}", again=version == 6, version=version)
    picture = BinaryContent(b"\x89PNG", media_type="image/png")
    for version in (3, 5):
        question = ["Look at this:", ImageUrl("https://images.test/fox.png"), picture, "Is it a fox?"]
        run(f"parts in format {version}", question, version=version)
    run("cut", limits={"max_span_attribute_length": 150})
    run("off", include_content=False)


def lookup(key: str) -> dict[str, str]:
    """Looks a thing up."""
    return {key: "quokka"}
