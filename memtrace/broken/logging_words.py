"""Memories that log more than they should, or as much as they may."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from memtrace.broken import broken, lawful
from memtrace.broken.tiny import TinyMemory
from memtrace.model import Caller, Reply

_log = logging.getLogger("tiny.memory")


@broken("export.no-payload-in-logs", report="https://github.com/mem0ai/mem0/issues/6915")
class LogsWhatItStores(TinyMemory):
    """Says at INFO what each turn was about."""

    def turn(self, caller: Caller, text: str) -> Reply:
        _log.info("turn of %d characters: %.100s", len(text), text)
        return super().turn(caller, text)


@broken("export.no-payload-in-logs", report="https://github.com/littlebearapps/untether/issues/205")
class PrintsItsErrors(TinyMemory):
    """Prints the traceback of a model call that failed, and the error quotes the request."""

    @contextmanager
    def model_span(self, model: str, messages: list[dict[str, Any]]) -> Iterator[None]:
        try:
            with super().model_span(model, messages):
                yield
        except Exception as error:  # whatever fails is quoted: the fault
            quoting = RuntimeError(f"{error}; the request was {messages}")
            traceback.print_exception(quoting, file=sys.stderr)
            raise


@lawful("counts, kinds and DEBUG lines tell nothing to who did not ask", rules=("export.no-payload-in-logs",))
class LogsCounts(TinyMemory):
    """Says at INFO how long a text was, and at DEBUG what it was."""

    def turn(self, caller: Caller, text: str) -> Reply:
        _log.debug("turn: %s", text)
        reply = super().turn(caller, text)
        _log.info("turn of %d characters ended %s", len(text), reply.outcome)
        return reply
