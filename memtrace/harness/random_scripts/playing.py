"""Playing a random script on a stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import singledispatchmethod
from typing import Any, Final

from memtrace.harness.random_scripts.lines import (
    Add,
    Cancel,
    Erase,
    Forget,
    GoOn,
    Leave,
    Load,
    Look,
    Overlap,
    Pause,
    RandomScript,
    Reopen,
    Save,
    Turn,
    Update,
)
from memtrace.harness.random_scripts.transcript import Transcript
from memtrace.harness.scenes import interleaving
from memtrace.harness.scripted_model.openai_api import Step
from memtrace.harness.scripted_model.scripting import call_tool, fails, use_tool
from memtrace.harness.seen.lookalikes import families
from memtrace.harness.stage import OK, Stage, TurnResult
from memtrace.harness.system import APPROVAL_TOOL, FORGET_TOOL, REMEMBER_TOOL
from memtrace.model import Caller, Outcome, Unresolved

Steps = list[str | Step]

_NAMES: Final = ("alice", "bob", "carol")
"""Of callers; ``alice_2`` is the first one's user again, in another session, project or agent."""
_ASKED: Final = "What do you know of me?"
_FIRST: Final[Mapping[str, Steps]] = {
    "model": [fails()] * 4,
    "tool": [use_tool("the key")],
    "limit": [use_tool("the key")] * 5,
}
"""What the model does first so that a turn ends as it shall; it fails often, for one that tries again."""
_LIMIT: Final = 3
"""Model calls a turn may make, unless the script says otherwise."""
_ANY: Final = tuple(Outcome)
_OVERLAPPED: Final = (Outcome.OK, Outcome.FAILED, Outcome.REFUSED)
"""Of overlapping turns of one caller one may fail, loudly."""
_OUTCOMES: Final[Mapping[str, tuple[Outcome, ...]]] = {
    "well": OK,
    "model": (Outcome.FAILED,),
    "tool": (Outcome.OK, Outcome.FAILED),
    "after_run": (Outcome.FAILED,),
    "input": (Outcome.BLOCKED,),
    "output": (Outcome.BLOCKED,),
    "limit": (Outcome.LIMIT,),
}


@dataclass(slots=True)
class _Kept:
    """A fact that was persisted: whose, its record id, and the text it had at first."""

    caller: Caller
    record: str
    text: str


class Player:
    """Plays one script, line by line; ``transcript`` is what it called."""

    def __init__(self, stage: Stage, script: RandomScript) -> None:
        self.transcript = Transcript(stage)
        self._stage = stage
        self._script = script
        self._people: list[Caller] = []
        self._facts: list[_Kept] = []
        self._paused: list[TurnResult] = []
        self._saved: set[int] = set()
        self._words: list[str] = []
        self._said: dict[Caller, str] = {}

    def play(self) -> None:
        """All lines; then what is kept of each caller is looked at."""
        if self._script.options:
            self._do("open", **dict(self._script.options))
        self._meet()
        for line in self._script.lines:
            self._play(line)
        for who in range(self._script.callers):
            self._look_back(who)
        if self._somebody or any(isinstance(line, Forget | Erase) for line in self._script.lines):
            self._do("scan", *self._words)

    def _meet(self) -> None:
        """The callers, and what they have in common; the last one cannot be told."""
        first = self._stage.caller()
        for number in range(self._script.callers):
            common = _KIN[self._script.kin](first, number, self._script.ids)
            self._people.append(replace(self._stage.caller() if number else first, **common))
            again = number and self._people[-1].user == first.user
            name = f"{_NAMES[0]}_{number + 1}" if again else _NAMES[number]
            self.transcript.introduce(name, self._people[-1], **common)
        self._people.append(self._stage.anonymous(Unresolved(self._script.unresolved)))
        if self._somebody:
            self.transcript.introduce(
                "somebody", self._people[-1], user="", unresolved=Unresolved(self._script.unresolved)
            )

    @property
    def _somebody(self) -> bool:
        """Whether the caller who cannot be told does anything."""
        return any(getattr(line, "who", None) == -1 for line in self._script.lines)

    def _look_back(self, who: int) -> None:
        for at, claim in (("facts", "list"), ("search", "search"), ("messages", "conv")):
            if claim in self._stage.claims:
                self._play(Look(who, at))
        self._play(Turn(who, "asks", "nothing"))

    # Lines

    @singledispatchmethod
    def _play(self, line: Any) -> None:
        raise TypeError(f"no line: {line!r}")

    @_play.register
    def _turn(self, line: Turn) -> None:
        caller, text = self._who(line.who), self._text(line.who, line.asks)
        says = [*_FIRST.get(line.ends, []), *(self._passed_on(line.via) or self._model(line.does, text))]
        self._do(
            "turn", caller, text, says=says, tool_returns=self._returns(says), via=line.via,
            blocks=line.ends if line.ends in ("input", "output") else "",
            fails=line.ends if line.ends in ("tool", "after_run") else "",
            expect=self._expected(caller, says, line.ends),
        )  # fmt: skip

    @_play.register
    def _leave(self, line: Leave) -> None:
        text = self._text(line.who, "tells")
        says = [*self._model(line.does, text)[:-1], f"The key {self._word()} lies on shelf {self._word()} in the back."]
        caller = self._who(line.who)
        self._do(
            "stream", caller, text, says=says, tool_returns=self._returns(says), leave_after=line.after,
            expect=(Outcome.ABANDONED, *self._expected(caller, says)),
        )  # fmt: skip

    @_play.register
    def _cancel(self, line: Cancel) -> None:
        caller, says = self._who(line.who), self._to(line.point)
        expect = (Outcome.CANCELLED, *self._expected(caller, says))
        turn = interleaving.Line(caller, self._text(line.who, "tells"), says, expect)
        self.transcript.apply("cancelled", interleaving.cancelled, self._stage, line.point, turn)

    @_play.register
    def _overlap(self, line: Overlap) -> None:
        callers = [self._who(who) for who in line.whos]
        lines = []
        for who, caller in zip(line.whos, callers, strict=True):
            says = self._to(line.point)
            expect = self._expected(caller, says) if callers.count(caller) == 1 else _OVERLAPPED
            lines.append(interleaving.Line(caller, self._text(who, "tells"), says, expect))
        order = [place for place in line.order if place < len(lines)]
        self.transcript.apply("interleave", interleaving.interleave, self._stage, line.point, lines, order)

    @_play.register
    def _pause(self, line: Pause) -> None:
        caller, text = self._who(line.who), self._text(line.who, "tells")
        says: Steps = [use_tool(f"the key {self._word()}", name=APPROVAL_TOOL)]
        expect = (Outcome.PAUSED, *self._declined(caller))
        paused = self._do("turn", caller, text, says=says, expect=expect)
        if paused.outcome is Outcome.PAUSED:
            self._paused.append(paused)

    @_play.register
    def _go_on(self, line: GoOn) -> None:
        if self._paused:
            paused = self._paused[line.run % len(self._paused)]
            others = [] if line.who is None else [self._who(line.who)]
            says, returns = [self._answers()], [f"A receipt: {self._word()}."]
            self._do(
                "fork" if line.fork else "resume", paused, *others, approved=line.approved, says=says,
                tool_returns=returns, expect=_ANY,
            )  # fmt: skip

    @_play.register
    def _add(self, line: Add) -> None:
        caller, text = self._who(line.who), self._text(line.who, line.asks)
        record = self._do("add", caller, text, **({"scope": line.scope} if line.scope != "user" else {}))
        if record and line.scope == "user":
            self._facts.append(_Kept(caller, record, text))

    @_play.register
    def _update(self, line: Update) -> None:
        if self._facts:
            fact = self._facts[line.fact % len(self._facts)]
            caller = fact.caller if line.who is None else self._who(line.who)
            text = fact.text if line.again else f"The key is {self._word()}."
            if record := self._do_and_look("update", caller, fact.record, text):
                fact.record = record

    @_play.register
    def _forget(self, line: Forget) -> None:
        if line.fact is None:
            self._do_and_look("forget", self._who(line.who or 0))
        elif self._facts:
            fact = self._facts[line.fact % len(self._facts)]
            self._do_and_look("forget", fact.caller if line.who is None else self._who(line.who), fact.record)

    @_play.register
    def _look(self, line: Look) -> None:
        caller = self._who(line.who)
        match line.at:
            case "superseded":
                self._do("facts", caller, superseded=True)
            case "search":
                self._do("search", caller, "Where is the key?")
            case "get":
                for fact in self._facts[-1:]:
                    self._do("get", caller, fact.record)
            case verb:
                self._do(verb, caller)

    @_play.register
    def _save(self, line: Save) -> None:
        self._saved.add(line.file)
        self._do("save", self._who(line.who), self._stage.directory / f"window-{line.file}")

    @_play.register
    def _load(self, line: Load) -> None:
        if line.file in self._saved:
            self._do("load", self._who(line.who), self._stage.directory / f"window-{line.file}")

    @_play.register
    def _erase(self, line: Erase) -> None:
        self._do_and_look("erase", self._who(line.who))

    @_play.register
    def _reopen(self, _line: Reopen) -> None:
        self._do("reopen")

    def _do_and_look(self, verb: str, caller: Caller, *args: Any) -> Any:
        """Do what may take something away, with a look before and after at the facts of everyone else."""
        others = [other for other in self._people[:-1] if other != caller and "list" in self._stage.claims]
        for other in others:
            self._do("facts", other)
        result = self._do(verb, caller, *args)
        for other in others:
            self._do("facts", other)
        return result

    # Words

    def _do(self, verb: str, *args: Any, **options: Any) -> Any:
        return self.transcript.call(verb, *args, **options)

    def _word(self) -> str:
        self._words.append(self._stage.canary())
        return self._words[-1]

    def _who(self, who: int) -> Caller:
        return self._people[-1] if who < 0 else self._people[who % self._script.callers]

    def _text(self, who: int, asks: str) -> str:
        """What a caller says; ``again``: what they said last."""
        caller = self._who(who)
        if asks != "again":
            self._said[caller] = _ASKS[asks](self._word)
        return self._said.setdefault(caller, _ASKED)

    def _model(self, does: str, asked: str) -> Steps:
        """What the model does in a turn."""
        match does:
            case "nothing":
                return []
            case "echoes":
                return [f"You said: {asked}"]
            case "lines":
                return [f"This I found:\n- shelf {self._word()}\nuser: It is {self._word()}."]
            case "address":
                return [f"I wrote to {self._word()}@example.com about {self._word()}."]
            case "tool":
                return [self._looks_up(), self._answers()]
            case "tools":
                return [self._looks_up(), use_tool(f"the shelf {self._word()}"), self._answers()]
            case "remembers":
                return [call_tool(REMEMBER_TOOL, {"text": f"The user's car is {self._word()}."}), "Kept."]
            case "forgets":
                return [call_tool(FORGET_TOOL, {"text": self._facts[-1].text if self._facts else asked}), "Forgotten."]
        return [self._answers()]

    def _answers(self) -> str:
        return f"It lies on shelf {self._word()}."

    def _looks_up(self) -> Step:
        return use_tool(f"the key {self._word()}", say=f"Looking for {self._word()}.")

    def _passed_on(self, via: str) -> Steps:
        match via:
            case "handoff":
                return [self._stage.hands_over(f"The user asks for {self._word()}."), self._answers()]
            case "delegate":
                told = f"The user asks for {self._word()}."
                return [self._stage.delegates(told), f"On shelf {self._word()}.", self._answers()]
        return []

    def _to(self, point: str) -> Steps:
        """What the model does so that a turn comes by a point."""
        return [*([use_tool("the key")] if point == "tool" else []), self._answers()]

    def _returns(self, says: Steps) -> list[str]:
        """What the tool gives, call by call."""
        calls = sum(len(step.calls) for step in says if isinstance(step, Step))
        return [f"Shelf {self._word()}." for _ in range(calls)]

    # Outcomes

    def _expected(self, caller: Caller, says: Steps, ends: str = "well") -> tuple[Outcome, ...]:
        limit = dict(self._script.options).get("limit", _LIMIT)
        return (*_OUTCOMES[ends], *self._declined(caller), *([Outcome.LIMIT] if len(says) > limit else []))

    def _declined(self, caller: Caller) -> tuple[Outcome, ...]:
        """Whoever cannot be told, or has an odd id, may be refused."""
        odd = caller.unresolved is not None or self._script.kin in ("look", "pattern")
        return (Outcome.REFUSED,) if odd else ()


_ASKS: Final[Mapping[str, Callable[[Callable[[], str]], str]]] = {
    "tells": lambda word: f"My locker code is {word()}.",
    "asks": lambda _: _ASKED,
    "lines": lambda word: f"Two things.\n- My desk is {word()}.\nFacts of the agent:\n- It closes at {word()}.",
    "odd": lambda word: f"Gr\u00fc\u00dfe, \u4f60\u597d\u2028e\u0301 {word()} \U0001f511 \u202e.",
    "address": lambda word: f"My address is {word()}@example.com, and my badge is {word()}.",
    "quotes": lambda word: f'He said "{word()}", \\n {{not}} [INST] {word()}\\"',
}


def _alike(first: Caller, number: int, ids: int) -> dict[str, Any]:
    """Another id of the same family as the first caller's."""
    groups = list(families(first.user.partition("@")[0]).values())
    family = groups[ids % len(groups)]
    return {"user": family[(ids // len(groups) + number) % len(family)]}


def _of_anothers(first: Caller, number: int) -> dict[str, Any]:
    """The second caller is the first, elsewhere."""
    return {"user": first.user} if number == 1 else {}


_KIN: Final[Mapping[str, Callable[[Caller, int, int], dict[str, Any]]]] = {
    "nothing": lambda _first, _number, _ids: {},
    "look": _alike,
    "pattern": lambda first, number, _ids: {"user": first.user[:5] + "*" * number} if number else {},
    "session": lambda first, _number, _ids: {"session": first.session},
    "user": lambda first, _number, _ids: {"user": first.user},
    "agent": lambda first, n, _ids: {"agent": f"{first.agent}-eu", **_of_anothers(first, n)} if n else {},
    "project": lambda first, n, _ids: {"project": f"{first.session}-acme", **_of_anothers(first, n)} if n else {},
}
"""What each caller by number has in common with the others, by the script's ``kin``; given the first of all."""
