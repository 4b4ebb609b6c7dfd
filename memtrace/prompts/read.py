"""Where each emitter records the prompt, in one table, and how the best record on a span is chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from memtrace.model import Message, Prompt
from memtrace.prompts import readers
from memtrace.prompts.lost import Lost
from memtrace.prompts.readers import Reader, Span


@dataclass(frozen=True, slots=True)
class Source:
    """A place where a prompt may be: its key, who writes it, and how it is read.

    ``whole`` says whether the place is meant for all that was sent. What is not is never taken for complete.
    ``in_events`` says whether it is in events, of which a full span drops the oldest.
    """

    key: str
    written_by: str
    read: Reader
    whole: bool = True
    in_events: bool = False


SOURCES: Final = (
    Source(
        "gen_ai.input.messages", "OpenTelemetry 1.37 on, OpenLLMetry, pydantic-ai, agent-framework", readers.standard
    ),
    Source(readers.DETAILS, "OpenTelemetry 1.37 on, Strands: an event", readers.details, in_events=True),
    Source("gen_ai.request.messages", "FastAIAgent, Sentry", readers.request_messages),
    Source(
        "gen_ai.*.message",
        "OpenTelemetry 1.28 to 1.36, Strands: an event a message",
        readers.message_events,
        in_events=True,
    ),
    Source("llm.input_messages.N.", "OpenInference", readers.openinference),
    Source("llm.prompts.N.", "OpenInference, completion models", readers.completion_prompts),
    Source("gen_ai.prompt.N.", "OpenLLMetry before 0.5x", readers.openllmetry),
    Source(
        "gen_ai.content.prompt",
        "OpenTelemetry to 1.27: an event",
        readers.event("gen_ai.content.prompt", "gen_ai.prompt"),
        in_events=True,
    ),
    Source("ai.prompt.messages", "Vercel AI SDK, the provider's call", readers.attribute("ai.prompt.messages")),
    Source("request_data", "Logfire", readers.attribute("request_data")),
    Source("gcp.vertex.agent.llm_request", "Google ADK, schema 1", readers.attribute("gcp.vertex.agent.llm_request")),
    Source("pydantic_ai.all_messages", "pydantic-ai, a run's history", readers.all_messages, whole=False),
    Source("ai.prompt", "Vercel AI SDK, the caller's call", readers.attribute("ai.prompt"), whole=False),
    Source("ai.input_messages", "Sentry, older", readers.attribute("ai.input_messages"), whole=False),
    Source("gen_ai.prompt", "LangSmith", readers.attribute("gen_ai.prompt"), whole=False),
    Source("langfuse.observation.input", "Langfuse", readers.attribute("langfuse.observation.input"), whole=False),
    Source("mlflow.spanInputs", "MLflow", readers.attribute("mlflow.spanInputs"), whole=False),
    Source("input.value", "OpenInference, beside the messages", readers.attribute("input.value"), whole=False),
    Source("gen_ai.system_instructions", "anyone who records them alone", readers.instructions, whole=False),
)
"""Every place, in the order in which they are believed."""


def read_prompt(
    attributes: Mapping[str, Any],
    *,
    events: Sequence[tuple[str, Mapping[str, Any]]] = (),
    dropped: int = 0,
    dropped_events: int = 0,
    length_limit: int | None = None,
) -> Prompt | None:
    """The prompt that a span records, with what is known to be lost of it; ``None``: it records none.

    ``None`` says nothing of what was sent, and neither does a prompt with losses. Of two records on one span the
    first without a loss is taken, else the one that holds most. A span that dropped something is never ``None``.

    Args:
        attributes: the span's; nested values may be structured or JSON text.
        events: name and fields of the span's events in order, and of the log records made under it: their attributes
            and their body's fields together.
        dropped: how many attributes the span's limits dropped.
        dropped_events: likewise its events.
        length_limit: the limit of a text's length in force, if any.
    """
    span = Span(
        {key: value for key, value in attributes.items() if isinstance(key, str)},
        tuple((str(name), fields or {}) for name, fields in events),
        dropped_events,
        length_limit,
    )
    evicted = _evicted(dropped, "attributes")
    records = [(source, prompt) for source in SOURCES if (prompt := _record(source, span))]
    if not records:
        lost = (*evicted, *_evicted(dropped_events, "events"))
        return Prompt(lost=lost) if lost else None
    whole = next((prompt for _, prompt in records if not prompt.lost), None)
    best = whole or max((prompt for _, prompt in records), key=lambda prompt: len(prompt.text))
    lost = tuple(reason for source, prompt in records for reason in prompt.lost if source.whole or prompt is best)
    return Prompt(best.messages, tuple(dict.fromkeys((*(() if whole else lost), *evicted))))


def _record(source: Source, span: Span) -> Prompt | None:
    found = list(source.read(span))
    if not found:
        return None
    lost = [item.reason for item in found if isinstance(item, Lost)]
    if source.in_events:
        lost += _evicted(span.dropped_events, "events")
    if not source.whole:
        lost.append(f"partial: {source.key} need not hold all that was sent")
    return Prompt(tuple(item for item in found if isinstance(item, Message)), tuple(dict.fromkeys(lost)))


def _evicted(count: int, what: str) -> tuple[str, ...]:
    return (f"evicted: {count} {what} of the span were dropped",) if count > 0 else ()
