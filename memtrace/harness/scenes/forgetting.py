"""What a script wrote to a store of the adopter's own is removed again, when the script is over and unrecorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from memtrace.errors import AdapterError
from memtrace.harness.record.events import FactWritten, TurnStarted
from memtrace.harness.record.history import History
from memtrace.harness.running.host import LocalHost, answer_of, open_system
from memtrace.harness.stage import Stage
from memtrace.harness.verdicts.left import Left
from memtrace.model import Caller

_SECONDS: Final = 30.0
_VERBS: Final = ("erase", "forget")
_NO_VERB: Final = "the memory claims neither 'erase' nor 'forget'"
_NOBODYS: Final = "no capability removes facts that are no user's; an adapter's vacate(callers) may"
_NOT_OURS: Final = "an id like that may be another's, or match others', so it is not forgotten"


def forget_all(stage: Stage) -> list[Left]:
    """Let go of every caller of a script that is over; what could not be removed.

    Only of ids that the script has drawn: another may be somebody's.
    """
    history = stage.history()
    acted = list(dict.fromkeys(event.caller for event in history.of(TurnStarted, FactWritten)))
    known = [caller for caller in acted if caller.unresolved is None and _shown(history, caller)]
    ours = [caller for caller in known if _is_ours(stage, history, caller)]
    left = _named(history, [caller for caller in known if caller not in ours], _NOT_OURS)
    alone = [caller for caller in acted if (caller in ours or not caller.user) and _alone(stage, caller)]
    if not ours and not alone:
        return left
    with stage.recorder.paused():
        try:
            host = LocalHost(open_system(stage.factory, stage.environment()))
        except AdapterError as error:
            return left + _named(history, ours or alone, str(error))
        left += _forgotten(host, history, ours)
        left += _vacated(host, alone, _scopes(history))
        with suppress(AdapterError):  # that it does not close was seen as the script ended
            host.close()
    return left


def _scopes(history: History) -> list[str]:
    """The agents and projects for which facts were written that are no user's."""
    facts = [e for e in history.of(FactWritten) if e.scope != "user" and not e.error and e.count != 0]
    return list(dict.fromkeys(e.caller.project if e.scope == "project" else e.caller.agent for e in facts))


def _alone(stage: Stage, caller: Caller) -> bool:
    """Whether a caller's project and agent are nobody else's."""
    return all(not name or stage.drew(name) for name in (caller.project, caller.agent))


def _is_ours(stage: Stage, history: History, caller: Caller) -> bool:
    """Whether a caller is nobody else: by id, or by a project of the script's own, where there are any."""
    claims = history.opened.capabilities if history.opened else ()
    return stage.drew(_shown(history, caller)) or ("project" in claims and stage.drew(caller.project))


def _forgotten(host: LocalHost, history: History, callers: Sequence[Caller]) -> Iterator[Left]:
    claims = host.system.capabilities
    verb = next((verb for verb in _VERBS if verb in claims), "")
    if not verb:
        yield from _named(history, callers, _NO_VERB)
        return
    for place, caller in enumerate(callers):
        try:
            error = answer_of(host.submit(verb, (caller,)), _SECONDS).error
            if not error and "list" in claims and answer_of(host.submit("facts", (caller,)), _SECONDS).value:
                error = f"facts are listed still after {verb}"
        except AdapterError as never:  # and so would none of the others
            yield from _named(history, callers[place:], str(never))
            return
        if error:
            yield from _named(history, [caller], error)


def _vacated(host: LocalHost, callers: Sequence[Caller], scopes: Sequence[str]) -> Iterator[Left]:
    """What forgetting leaves by design, and facts that are no user's: an adapter may remove them for the suite."""
    vacate: Callable[..., object] | None = getattr(host.system, "vacate", None)
    if vacate is None:
        if scopes:
            yield Left("agents or projects with facts", tuple(scopes), _NOBODYS)
        return
    try:
        error = answer_of(host.submit("vacate", (list(callers),)), _SECONDS).error
    except AdapterError as never:
        error = str(never)
    if error:
        names = tuple(scopes) or tuple(caller.user for caller in callers)
        yield Left("agents, projects or callers", names, f"vacate() failed: {' '.join(error.split())}")


def _named(history: History, callers: Sequence[Caller], why: str) -> list[Left]:
    return [Left("callers", tuple(_shown(history, c) for c in callers), " ".join(why.split()))] if callers else []


def _shown(history: History, caller: Caller) -> str:
    """What tells a caller from others; ``""`` of one who is nobody."""
    opened = history.opened
    values = [str(getattr(caller, name)) for name in (opened.identity if opened else ("user",))]
    return "/".join(values) if all(values) else ""
