"""One answer of the scripted model, and what every encoding of it shares."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Final

from memtrace.harness.system import ModelRequest
from memtrace.model import Prompt, ToolCall

_ERROR_TYPES: Final = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_PIECES: Final = 4
_SERVER_ERROR: Final = 500


@dataclass(frozen=True, slots=True)
class Step:
    """One answer of the scripted model.

    Attributes:
        text: what it says; of an error, the error's message.
        calls: the tools it asks for.
        status: the HTTP status; anything but 200 is answered with an error of the API's shape.
        break_after: drop the connection: of a stream, after so many pieces of it; otherwise before the body.
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    status: int = 200
    break_after: int | None = None


@dataclass(frozen=True, slots=True)
class Stream:
    """A streamed answer in server-sent events.

    ``opening`` says nothing yet; each of ``pieces`` carries a part of the text or of a tool call; without ``closing``
    a client knows that the answer was cut short.
    """

    opening: bytes
    pieces: tuple[bytes, ...]
    closing: bytes

    def sent(self, break_after: int | None) -> list[bytes]:
        """What goes over the wire, in order; all of it where ``break_after`` is ``None``."""
        if break_after is None:
            return [self.opening, *self.pieces, self.closing]
        return [self.opening, *self.pieces[:break_after]]


def pieces(text: str) -> list[str]:
    """The text in a few pieces of whole words; joined they are the text again, to the last blank."""
    words = re.findall(r"\s*\S+|\s+", text)
    size = math.ceil(len(words) / _PIECES) or 1
    return ["".join(words[start : start + size]) for start in range(0, len(words), size)]


def halves(text: str) -> tuple[str, str]:
    """The text in two pieces, cut anywhere: tool arguments arrive so, and must be joined before they are read."""
    return text[: len(text) // 2], text[len(text) // 2 :]


def tokens(request: ModelRequest, step: Step) -> tuple[int, int]:
    """Words in, words out: never zero, so that nobody's cost or budget code divides by it."""
    answered = " ".join((step.text, *(call.arguments for call in step.calls)))
    return len(Prompt(request.messages).text.split()) or 1, len(answered.split()) or 1


def error_body(status: int, message: str) -> dict[str, Any]:
    """An error as the API words it."""
    kind = _ERROR_TYPES.get(status, "server_error" if status >= _SERVER_ERROR else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}
