"""A window that is saved and loaded again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from memtrace.harness.findings import Judgement, accuse, check, held, outline, undecided, untested, violated
from memtrace.harness.record.events import FactWritten, Noted, ProcessEnded
from memtrace.harness.record.history import History, Turn
from memtrace.harness.seen.conversation import exchange, listed, own_input, replays
from memtrace.harness.seen.leaks import accuse_leaks, blamed
from memtrace.model import Author, Evidence, Message

_RULE: Final = "processes.window-round-trip"
_UNCLEAR: Final = frozenset({"AssertionError", "AttributeError", "IndexError", "KeyError", "TypeError"})
"""Exceptions that tell of code that was surprised, not of a file that is damaged."""

Window = list[Message]


@check(_RULE)
def window_round_trip(history: History) -> Judgement:
    """A loaded window is the one its user saved; a file of another's, or one cut short, changes nothing."""
    if found := blamed(history, _RULE):
        return accuse_leaks(found, "a saved window was loaded by another user")
    loads = [_Load(history, event) for event in history.of(FactWritten) if event.op == "load"]
    if not loads:
        return untested("no window was loaded")
    for load in loads:
        if fault := load.fault():
            return fault
    restored = any(load.restored for load in loads)
    return held(when=restored, otherwise="no window that held anything was loaded by its own user")


@dataclass(frozen=True, slots=True)
class _Load:
    """One load of a file, with what was known of the file by then."""

    history: History
    event: FactWritten

    def fault(self) -> Judgement | None:
        """What is wrong with it, if anything."""
        if self.cut_short:
            return self._answer_to_half() or self._changed()
        if not self._own:
            return self._no_refusal() or self._changed()
        return self._refused_to_its_own() if self.event.error else self._not_the_same()

    @property
    def restored(self) -> bool:
        """Whether it gave its own user a window that holds something."""
        view = self._view()
        return self._own and not self.event.error and view is not None and bool(view[1])

    @property
    def cut_short(self) -> bool:
        """Whether the file was damaged since it was saved."""
        notes = (n.at for n in self.history.of(Noted) if n.name == "truncated" and n.value == self.event.file)
        last = self._saves[-1].at if self._saves else 0
        return any(last < at < self.event.at for at in notes)

    @property
    def _saves(self) -> list[FactWritten]:
        """The saves of this file, up to the last that ended well, and one that was cut short after it."""
        saves = [e for e in self.history.of(FactWritten) if e.op == "save" and e.file == self.event.file]
        before = [save for save in saves if save.at < self.event.at]
        whole = [save for save in before if not save.error]
        since = whole[-1].at if whole else 0
        return [*whole[-1:], *(save for save in before if save.at > since and self._killed(save))]

    def _killed(self, save: FactWritten) -> bool:
        died = any(e.process == save.process and e.how == "kill" for e in self.history.of(ProcessEnded))
        return died and bool(save.error)

    @property
    def _own(self) -> bool:
        return bool(self._saves) and self.history.same(self._saves[-1].caller, self.event.caller)

    def _answer_to_half(self) -> Judgement | None:
        kind = self.event.error.partition(":")[0]
        evidence = Evidence("what load answered", self.event.error or "nothing: no error")
        if not self.event.error:
            return violated(f"{self.event.file} had been cut short, and was loaded without an error", evidence)
        if kind.rpartition(".")[2] in _UNCLEAR:
            return violated(f"{self.event.file} had been cut short; {kind} does not tell its user so", evidence)
        return None

    def _no_refusal(self) -> Judgement | None:
        if not self.event.error or self.event.refused:
            return None
        kind = self.event.error.partition(":")[0]
        reason = f"load raised {kind} for another's window, which the adapter does not list as a refusal"
        return undecided(reason, Evidence("load", self.event.error))

    def _refused_to_its_own(self) -> Judgement | None:
        erased = (e for e in self.history.of(FactWritten) if e.op == "erase" and e.at < self.event.at)
        if any(e.at > self._saves[0].at and self.history.same(e.caller, self.event.caller) for e in erased):
            return None
        killed = " while another save was killed" if any(save.error for save in self._saves) else ""
        reason = f"the window that was saved in {self.event.file}{killed} is not given back to its user"
        return violated(reason, Evidence("what load answered", self.event.error))

    def _changed(self) -> Judgement | None:
        """A window that is not as it was, after a load that failed."""
        before, view = _window(self.history, self.event), self._view()
        if before is None or view is None or not self.event.error or _same(view[1], before):
            return None
        return self._differs(view, [before], "after a load that failed the window is not as it was")

    def _not_the_same(self) -> Judgement | None:
        windows, view = [_window(self.history, save) for save in self._saves], self._view()
        known = [window for window in windows if window is not None]
        if view is None or len(known) < len(windows) or any(_same(view[1], window) for window in known):
            return None
        shown_there = (_next_view(self.history, save) for save in self._saves)
        if any(there is not None and _texts(there[1]) == _texts(view[1]) for there in shown_there):
            return None
        return self._differs(view, known, "the window that was loaded is not the one that was saved")

    def _differs(self, view: tuple[Turn, Window], expected: Sequence[Window], reason: str) -> Judgement:
        turn, messages = view
        evidence = [Evidence(f"replayed in turn {turn}", listed(messages) or "(nothing)")]
        evidence += [Evidence("expected", listed(window) or "(nothing)") for window in expected]
        call = turn.answers[0]
        return accuse(call, reason, *evidence, outline(call))

    def _view(self) -> tuple[Turn, Window] | None:
        return _next_view(self.history, self.event)


def _next_view(history: History, event: FactWritten) -> tuple[Turn, Window] | None:
    """What the next turn of the same caller there replays, if nothing else was done to the window before it."""
    for turn in history.turns.values():
        if turn.started > event.at and turn.process == event.process and history.same(turn.caller, event.caller):
            if not turn.answers or history.sitting(event.process, event.at) != history.sitting(
                event.process, turn.started
            ):
                return None
            between = (e for e in history.of(FactWritten) if event.at < e.at < turn.started)
            if any(e.op in _RESETS and history.same(e.caller, event.caller) and not e.error for e in between):
                return None
            own = own_input(history, turn.answers[0])
            spoken = turn.answers[0].prompt.messages[: own or 0]
            return turn, [message for message in spoken if message.author is not Author.SYSTEM]
    return None


_RESETS: Final = frozenset({"load", "erase"})


def _window(history: History, event: FactWritten) -> Window | None:
    """The window that a caller has there at a moment: their turns so far; ``None`` where that cannot be told."""
    sitting = history.sitting(event.process, event.at)
    resets = (e for e in history.of(FactWritten) if e.op in _RESETS and e.process == event.process and not e.error)
    if any(sitting < e.at < event.at and history.same(e.caller, event.caller) for e in resets):
        return None
    turns = [t for t in _turns(history, event) if sitting <= t.started and t.ended < event.at]
    said = [exchange(history, turn) for turn in turns if turn.ok]
    pairs = [((Author.USER, kept.question), (Author.ASSISTANT, kept.answer)) for kept in said]
    messages = [Message(author, text) for pair in pairs for author, text in pair]
    size = history.declared("window", event.at)
    return messages[max(0, len(messages) - size // 2 * 2) :] if isinstance(size, int) else messages


def _turns(history: History, event: FactWritten) -> Iterator[Turn]:
    return (
        turn
        for turn in history.turns.values()
        if turn.process == event.process and history.same(turn.caller, event.caller)
    )


def _same(view: Window, expected: Window) -> bool:
    return len(view) == len(expected) and all(
        message.author is wanted.author and replays(message.text, wanted.text)
        for message, wanted in zip(view, expected, strict=True)
    )


def _texts(window: Window) -> list[str]:
    return [message.text for message in window]
