"""The tiny memory with a second agent that the first may hand over to."""

from __future__ import annotations

import json
from typing import Any, ClassVar, Final

from memtrace.broken.tiny import Key, TinyMemory, assistant_message, tool_result
from memtrace.model import Caller, Reply, ToolCall

HANDOFF: Final = "handoff_to_expert"


class TinySwarm(TinyMemory):
    """The correct one: however many agents it took, what the user asked and what was answered in the end are stored."""

    capabilities: ClassVar[frozenset[str]] = TinyMemory.capabilities | {"handoff"}

    def handoff_call(self, text: str) -> ToolCall:
        """What the first agent's model says to hand over."""
        return ToolCall("call-handoff", HANDOFF, json.dumps({"reason": text}))

    def handoff(self, caller: Caller, text: str) -> Reply:
        """One turn of the two."""
        key = self.resolve(caller)
        with self.tracer.start_as_current_span("turn"):
            self.guard(text, "input")
            messages = self.prompt(caller, key, text)
            said, calls = self.ask(messages)
            for call in calls:
                said = self.take_over(caller, key, call, [*messages, assistant_message(said, calls)])
            return self.finish(caller, key, text, said)

    def take_over(self, caller: Caller, key: Key | None, call: ToolCall, messages: list[dict[str, Any]]) -> str:
        """The second agent answers, told why it was called."""
        said, _ = self.ask([*messages, tool_result(call, reason_of(call))])
        return said


def reason_of(call: ToolCall) -> str:
    """What the first agent's model told the second."""
    return str(json.loads(call.arguments)["reason"])
