"""Sentry's OpenAI integration: the `data` of its spans, caught by a transport that sends nothing."""

from __future__ import annotations

from typing import Any

import openai
import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.integrations.openai import OpenAIIntegration
from sentry_sdk.transport import Transport
from stage import PARTS, PLAIN, RESPONSES, TOOLS, Stage


def record(stage: Stage) -> None:
    client = openai.OpenAI(base_url=stage.model.url, api_key="k", max_retries=0)
    for streamed in (False, True):
        _start(streamed=streamed)
        kept = "whole" if streamed else "last only"
        for name, messages in (("plain", PLAIN), ("tools", TOOLS), ("parts", PARTS)):
            _case(
                stage,
                f"{name}, {kept}",
                lambda m=messages: client.chat.completions.create(model="gpt-test", messages=m),
            )
        _case(stage, f"responses, {kept}", lambda: client.responses.create(model="gpt-test", **RESPONSES))


class _Kept(Transport):
    """Keeps what would be sent."""

    def __init__(self, options: Any = None) -> None:
        super().__init__(options)
        self.envelopes: list[Envelope] = []

    def capture_envelope(self, envelope: Envelope) -> None:
        self.envelopes.append(envelope)


def _start(*, streamed: bool) -> None:
    sentry_sdk.init(
        dsn="http://k@127.0.0.1:9/1", traces_sample_rate=1.0, send_default_pii=True, transport=_Kept,
        default_integrations=False, integrations=[OpenAIIntegration()], stream_gen_ai_spans=streamed,
    )  # fmt: skip


def _case(stage: Stage, name: str, call: Any) -> None:
    first = len(stage.model.sent)
    with sentry_sdk.start_transaction(op="task", name="turn"):
        call()
    sentry_sdk.flush()
    transport = sentry_sdk.get_client().transport
    spans = [span for envelope in transport.envelopes for span in _spans(envelope)]
    transport.envelopes.clear()
    stage.add(name, spans, first=first)


# What a span says of the machine.
_MACHINE = {"server.address", "sentry.release", "process.runtime.name", "process.runtime.version", "sentry.segment.id"}


def _spans(envelope: Envelope) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for item in envelope.items:
        payload = item.payload.json or {}
        for span in payload.get("spans", ()) or payload.get("items", ()):
            data = span.get("data") or {key: cell["value"] for key, cell in span.get("attributes", {}).items()}
            data = {key: value for key, value in data.items() if key not in _MACHINE} | {"thread.id": "1"}
            found.append(
                {
                    "name": span.get("description") or span.get("name"),
                    "scope": span.get("op") or "",
                    "attributes": data,
                    "events": [],
                    "logs": [],
                    "dropped_attributes": 0,
                    "dropped_events": 0,
                }
            )
    return found
