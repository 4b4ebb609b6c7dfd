"""fastaiagent, through its own HTTP client: `gen_ai.request.messages`."""

from __future__ import annotations

import tempfile
from types import SimpleNamespace

from stage import Case, Stage

QUESTION = "Żółw? What is my locker code?"


def record(stage: Stage) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, limits in (
            ("tools", {}),
            ("cut", {"max_span_attribute_length": 150}),
            ("crowded", {"max_span_attributes": 3}),
        ):
            with stage.case(name, **limits) as case:
                _turn(stage, case, f"{folder}/{name}")


def _turn(stage: Stage, case: Case, folder: str) -> None:
    from fastaiagent import Agent, FunctionTool, LLMClient, Memory, RunContext
    from fastaiagent.learn import MemoryStore
    from fastaiagent.trace import otel

    otel._provider = case.tracer_provider
    client = LLMClient(provider="openai", model="gpt-test", api_key="k", base_url=stage.model.url, max_retries=0)
    memory = Memory(
        location=MemoryStore(db_path=f"{folder}.facts.db"),
        agent_id="keeper",
        user_id=lambda context: context.state.user_id,
    )
    memory.persist("the locker code is quokka 🦊", tier="user", id="zoe")
    agent = Agent(
        name="keeper", system_prompt="You keep Zoë's locker.", llm=client, memory=memory,
        tools=[FunctionTool(name="lookup", fn=lookup)],
    )  # fmt: skip
    context = RunContext(state=SimpleNamespace(user_id="zoe"))
    agent.run(QUESTION, context=context)
    if not case.limits:
        agent.run("ありがとう", context=context)


def lookup(key: str) -> str:
    """Looks a thing up."""
    return f'{{"{key}": "quokka"}}'
