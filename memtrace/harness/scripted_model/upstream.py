"""A real model behind the scripted one: what the script does not say itself, the real model says.

Scripted failures and tool calls stay as scripted; a plain answer, an extraction and a summary are asked of the real
model, with the very messages that the system sent. The witness records them as ever.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import httpx

from memtrace.errors import UsageError
from memtrace.harness.scripted_model.openai_api import Step
from memtrace.harness.system import ModelRequest
from memtrace.model import Author, Message


class Upstream:
    """An OpenAI-compatible endpoint. The key is read from ``OPENAI_API_KEY``, where it is set."""

    def __init__(self, url: str, model: str) -> None:
        key = os.environ.get("OPENAI_API_KEY", "")
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self._url = f"{url.rstrip('/')}/chat/completions"
        self._model = model
        self._client = httpx.Client(headers=headers, timeout=60)

    def answer(self, request: ModelRequest) -> Step:
        """What the real model answers, as text.

        Raises:
            UsageError: it cannot be reached, or answers with an error; the message names the URL.
        """
        body = {"model": self._model, "messages": [_sent(message) for message in request.messages]}
        try:
            response = self._client.post(self._url, json=body)
            response.raise_for_status()
            return Step(text=str(response.json()["choices"][0]["message"]["content"] or ""))
        except (httpx.HTTPError, KeyError, ValueError) as error:
            raise UsageError(f"the model at {self._url}: {type(error).__name__}: {error}") from error

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()


def _sent(message: Message) -> Mapping[str, Any]:
    """A message as any chat API takes it; tool traffic as text, since the tools' definitions are not known here."""
    if message.author is Author.TOOL:
        return {"role": "user", "content": f"(tool result) {message.text}"}
    asked = " ".join(f"(tool call) {call.name} {call.arguments}" for call in message.tool_calls)
    return {"role": message.author.value, "content": f"{message.text} {asked}".strip()}
