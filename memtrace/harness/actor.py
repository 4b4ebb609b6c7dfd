"""The verbs of a script on one process that runs the system: turns, facts, conversations, files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from memtrace.harness.record.events import FactsRead, FactWritten, TurnEnded, TurnStarted
from memtrace.harness.running.holds import Hold, Point
from memtrace.harness.running.host import Host, NeverEnded, Performed, StreamPlan, answer_of, as_facts, result_of
from memtrace.harness.scripted_model.openai_api import Step
from memtrace.model import Caller, Fact, Message, Outcome

if TYPE_CHECKING:
    from memtrace.harness.stage import Stage

_TURN_SECONDS: Final = 30.0
OK: Final = (Outcome.OK,)
OK_OR_REFUSED: Final = (Outcome.OK, Outcome.REFUSED)


class Running:
    """A turn that was started; `result` waits for its end."""

    def __init__(
        self, actor: Actor, turn: str, caller: Caller, future: Future[Performed], expect: tuple[Outcome, ...]
    ) -> None:
        self.turn = turn
        self._actor = actor
        self._caller = caller
        self._future = future
        self._expect = expect
        self._ended: Performed | None = None

    def result(self) -> Performed:
        """How the turn ended; records the end the first time.

        Raises:
            NeverEnded: it has not, though there was time; it is recorded as failed.
        """
        if self._ended is None:
            self._ended = self._actor.ended(self.turn, result_of(self._future, _TURN_SECONDS), self._expect)
        if not self._future.done():
            raise NeverEnded(f"turn {self.turn} {self._ended.error}")
        return self._ended

    def over(self, within: float) -> bool:
        """Whether the turn has ended; waits for it a bounded time, since a lawful system may serialise turns."""
        wait([self._future], within)
        return self._future.done()

    def when_over(self, call: Callable[[], object]) -> None:
        """Call this as soon as the turn has ended."""
        self._future.add_done_callback(lambda _: call())

    def cancel(self, held: Hold | None = None) -> Performed:
        """Cancel it from outside, and wait for its end; what is ``held`` goes on once the turn was told to stop."""
        self._actor.host.cancel(self._future, self._caller)
        if held is not None:
            held.release()
        return self.result()


class TurnResult:
    """A finished turn, as a script may want to go on from it."""

    __slots__ = ("caller", "error", "outcome", "text", "token", "turn")

    def __init__(self, turn: str, caller: Caller, performed: Performed) -> None:
        self.turn = turn
        self.caller = caller
        self.outcome = performed.outcome
        self.text = performed.text
        self.token = performed.token
        self.error = performed.error


class Actor:
    """The verbs of a script, on one process that runs the system."""

    def __init__(self, stage: Stage, host: Host) -> None:
        self._stage = stage
        self.host = host

    # Turns

    def turn(
        self, caller: Caller, text: str, *, says: Sequence[str | Step] = (), tool_returns: Sequence[str] = (),
        blocks: str = "", fails: Point | None = None, expect: Outcome | tuple[Outcome, ...] = OK, via: str = "run",
    ) -> TurnResult:  # fmt: skip
        """Run one turn to its end.

        Args:
            caller: whose turn it is.
            text: what they say.
            says: what the answer model does, step by step; after that it says ``Noted.``.
            tool_returns: what the tool gives, call by call.
            blocks: the guardrail blocks the ``input`` or the ``output``.
            fails: the callback at this point raises.
            expect: the outcomes the script takes for possible; any other makes its rules inconclusive.
            via: ``run``, ``stream``, ``handoff`` or ``delegate``.
        """
        running = self.start(
            caller, text, says=says, tool_returns=tool_returns, blocks=blocks, fails=fails, expect=expect, via=via,
            overlap=False,
        )  # fmt: skip
        return self._stage.finished(running)

    def stream(self, caller: Caller, text: str, *, leave_after: int | None = None, **script: Any) -> TurnResult:
        """Stream one turn, to its end or until it is left after so many pieces."""
        if leave_after is not None:
            script.setdefault("expect", (Outcome.ABANDONED, Outcome.OK))
        running = self.start(caller, text, via="stream", plan=StreamPlan(leave_after), overlap=False, **script)
        return self._stage.finished(running)

    def start(
        self, caller: Caller, text: str, *, says: Sequence[str | Step] = (), tool_returns: Sequence[str] = (),
        blocks: str = "", fails: Point | None = None, expect: Outcome | tuple[Outcome, ...] = OK, via: str = "run",
        plan: StreamPlan | None = None, overlap: bool = True, of: str = "", args: Sequence[Any] | None = None,
    ) -> Running:  # fmt: skip
        """Begin a turn that may overlap others."""
        stage = self._stage
        turn = stage.plan_turn(says, tool_returns, blocks, fails)
        stage.recorder.add(TurnStarted, turn=turn, caller=caller, text=text, via=via, of=of, process=self.host.name)
        stage.recorder.begin(turn)
        stage.model.heard(text)
        method = {"run": "turn"}.get(via, via)
        stream = plan or (StreamPlan() if via == "stream" else None)
        future = self.host.submit(method, args or (caller, text), turn=turn, overlap=overlap, stream=stream)
        return Running(self, turn, caller, future, (expect,) if isinstance(expect, Outcome) else expect)

    def resume(
        self, paused: TurnResult, caller: Caller | None = None, *, approved: bool = True, **script: Any
    ) -> TurnResult:
        """Resume a paused turn, as its own caller or another."""
        return self._go_on("resume", paused, caller, approved, script)

    def fork(
        self, paused: TurnResult, caller: Caller | None = None, *, approved: bool = True, **script: Any
    ) -> TurnResult:
        """Run a second time from where a turn paused."""
        return self._go_on("fork", paused, caller, approved, script)

    def _go_on(
        self,
        via: str,
        paused: TurnResult,
        caller: Caller | None,
        approved: bool,
        script: dict[str, Any],
    ) -> TurnResult:
        who = caller or paused.caller
        args = (who, paused.token, approved)
        return self._stage.finished(self.start(who, "", via=via, of=paused.turn, args=args, overlap=False, **script))

    def ended(self, turn: str, performed: Performed, expect: tuple[Outcome, ...]) -> Performed:
        """Record the end of a turn."""
        self._stage.recorder.end(turn)
        self._stage.recorder.add(
            TurnEnded, turn=turn, outcome=performed.outcome.value, expected=tuple(o.value for o in expect),
            text=performed.text, error=performed.error, token=performed.token, process=self.host.name,
        )  # fmt: skip
        return performed

    # Facts

    def add(self, caller: Caller, text: str, scope: str = "user") -> str:
        """Persist a fact; returns its record id."""
        self._stage.model.heard(text)
        return str(self._write("add", caller, (caller, text, scope), scope=scope, text=text).value or "")

    def update(self, caller: Caller, record: str, text: str) -> str:
        """Put a new text in the place of a record; returns the new record id."""
        self._stage.model.heard(text)
        return str(self._write("update", caller, (caller, record, text), text=text, record=record).value or "")

    def forget(self, caller: Caller, record: str | None = None) -> int:
        """Forget one record, or all the caller's facts; returns how many went."""
        return int(self._write("forget", caller, (caller, record), record=record or "").value or 0)

    def erase(self, caller: Caller) -> None:
        """Remove everything kept of a user."""
        self._write("erase", caller, (caller,))

    def save(self, caller: Caller, path: Path) -> Performed:
        """Save the caller's window to a file."""
        return self._write("save", caller, (caller, str(path)), file=self._stage.name_of(path))

    def load(self, caller: Caller, path: Path) -> Performed:
        """Restore the caller's window from a file."""
        return self._write("load", caller, (caller, str(path)), file=self._stage.name_of(path))

    def learn_offline(self, caller: Caller, **options: Any) -> Performed:
        """Mine past turns for facts."""
        return self._write(
            "learn_offline", caller, (), scope=options.get("scope", "agent"), options={"caller": caller, **options}
        )

    def _write(
        self, op: str, caller: Caller, args: Sequence[Any], *, scope: str = "user", text: str = "", record: str = "",
        options: Mapping[str, Any] | None = None, file: str = "",
    ) -> Performed:  # fmt: skip
        performed = answer_of(self.host.submit(op, args, options=options), _TURN_SECONDS)
        value = performed.value
        self._stage.recorder.add(
            FactWritten, op=op, caller=caller, scope=scope, text=text, error=performed.error,
            record=record or (str(value) if op == "add" and value is not None else ""),
            returned=str(value) if op == "update" and value is not None else "",
            personal=bool((options or {}).get("personal")), file=file,
            count=value if isinstance(value, int) and not isinstance(value, bool) else None,
            refused=performed.outcome is Outcome.REFUSED, process=self.host.name,
        )  # fmt: skip
        self._stage.settle_if_idle(self)
        return performed

    def facts(self, caller: Caller, limit: int | None = None, *, superseded: bool = False) -> tuple[Fact, ...]:
        """List the caller's facts, newest first."""
        performed = self._call("facts", (caller,), {"limit": limit, "superseded": superseded})
        facts = as_facts(performed.value or ())
        texts = tuple(fact.text for fact in facts)
        self._read("facts", caller, performed, texts, facts=facts, limit=limit, superseded=superseded)
        return facts

    def get(self, caller: Caller, record: str) -> Fact | None:
        """Read one record by its id."""
        performed = self._call("get", (caller, record))
        facts = as_facts([performed.value] if performed.value is not None else [])
        self._read("get", caller, performed, tuple(f.text for f in facts), facts=facts, record=record)
        return facts[0] if facts else None

    def search(self, caller: Caller, query: str) -> tuple[str, ...]:
        """Search the caller's facts by meaning."""
        performed = self._call("search", (caller, query))
        texts = tuple(performed.value or ())
        self._read("search", caller, performed, texts, query=query)
        return texts

    def messages(self, caller: Caller) -> tuple[Message, ...] | None:
        """The caller's stored conversation, or ``None`` where the system does not show it."""
        if "messages" not in self._stage.methods:
            return None
        performed = self._call("messages", (caller,))
        found = tuple(performed.value or ())
        self._read("messages", caller, performed, tuple(message.text for message in found), messages=found)
        return found

    def _call(self, method: str, args: Sequence[Any], options: Mapping[str, Any] | None = None) -> Performed:
        return answer_of(self.host.submit(method, args, options=options), _TURN_SECONDS)

    def _read(self, op: str, caller: Caller, performed: Performed, texts: tuple[str, ...], **fields: Any) -> None:
        self._stage.recorder.add(
            FactsRead, op=op, caller=caller, texts=texts, error=performed.error,
            refused=performed.outcome is Outcome.REFUSED, process=self.host.name, **fields,
        )  # fmt: skip

    def settle(self) -> None:
        """Wait until the system has no work in the background."""
        if "settle" in self._stage.methods:
            self._call("settle", ())
