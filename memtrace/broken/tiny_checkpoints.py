"""The tiny memory with paused runs on disk: they can be forked, and resumed in another process."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar

from memtrace.broken.tiny import Paused, Refused, TinyMemory, tool_result
from memtrace.model import Caller, Outcome, Reply, ToolCall


class TinyCheckpoints(TinyMemory):
    """The correct one: whoever's run it is may go on with it, once, or try it again and again from where it paused."""

    capabilities: ClassVar[frozenset[str]] = TinyMemory.capabilities | {"fork", "resume-elsewhere"}

    @property
    def runs(self) -> Path:
        """Where paused runs are kept, one file each."""
        directory = self.env.dir / "runs"
        directory.mkdir(exist_ok=True)
        return directory

    def pause(self, paused: Paused) -> Reply:
        """Keep the run in a file."""
        token = f"{self.env.agent}-{len(list(self.runs.iterdir()))}"
        (self.runs / token).write_text(json.dumps(asdict(paused)))
        return Reply(Outcome.PAUSED, token=token)

    def resume(self, caller: Caller, token: str, approved: bool) -> Reply:
        """Go on with the run; it is not there to be resumed again."""
        reply = self.fork(caller, token, approved)
        (self.runs / token).unlink()
        return reply

    def fork(self, caller: Caller, token: str, approved: bool) -> Reply:
        """Go on with the run, and leave it there."""
        paused, key = self.kept(token), self.resolve(caller)
        if key != paused.key:
            raise Refused("the run is another caller's")
        result = self.use(key, paused.call) if approved else "not approved"
        with self.tracer.start_as_current_span("turn"):
            return self.run(caller, key, paused.question, [*paused.traffic, tool_result(paused.call, result)])

    def kept(self, token: str) -> Paused:
        """A run as it paused."""
        saved = json.loads((self.runs / token).read_text())
        key, call = tuple(saved["key"]), ToolCall(**saved["call"])
        return Paused(key, Caller(**saved["caller"]), saved["question"], saved["traffic"], call)

    def erase(self, caller: Caller) -> None:
        """Remove the caller's runs too."""
        super().erase(caller)
        for path in self.runs.iterdir():
            if self.kept(path.name).key == self.own(caller):
                path.unlink()
