"""Drawing random scripts, of what a system claims and nothing else.

All is made of bits. A number Hypothesis now and then takes from the modules of whoever runs it; bits are the same
everywhere for the same seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, permutations
from typing import Any, Final, TypeVar

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from memtrace.harness.random_scripts.lines import (
    Add,
    AnyLine,
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
from memtrace.harness.rules import unmet
from memtrace.model import Unresolved

Claims = frozenset[str]
Choices = Mapping[str, str]
"""What may be drawn, with the capability it needs (``""``: none; ``a|b``: either)."""

_T = TypeVar("_T")

_PARTS, _PART = 3, 6
"""Hypothesis likes lists short: a script is several."""

_IDS: Final = 64
_KIN: Final[Choices] = {
    "nothing": "", "look": "ids", "pattern": "ids", "session": "session", "user": "session", "agent": "agents",
    "project": "project",
}  # fmt: skip
_ASKS: Final = ("tells", "asks", "again", "lines", "odd", "address", "quotes")
_DOES: Final[Choices] = {
    "answers": "", "echoes": "", "lines": "", "address": "", "tool": "tools", "tools": "tools",
    "remembers": "memory-tools", "forgets": "memory-tools",
}  # fmt: skip
_ENDS: Final[Choices] = {
    "well": "", "model": "", "tool": "tools", "after_run": "after-run", "input": "guardrails", "output": "guardrails",
    "limit": "tools",
}  # fmt: skip
_VIA: Final[Choices] = {"run": "", "stream": "stream", "handoff": "handoff", "delegate": "delegate"}
_POINTS: Final[Choices] = {
    "model": "", "tool": "tools", "guard": "guardrails", "after_run": "after-run", "memory": "learn",
    "resolve": "resolver",
}  # fmt: skip
_LOOKS: Final[Choices] = {
    "facts": "list", "superseded": "list", "get": "record-ids", "search": "search", "messages": "",
}  # fmt: skip
_WINDOWS: Final = (None, 4, 2, 3, 1, 0)
_OPTIONS: Final[Mapping[str, str]] = {
    "learn": "learn", "redaction": "redaction", "recall": "recall", "summary": "summary", "cap": "learn",
    "max_users": "window", "limit": "tools",
}  # fmt: skip
_MODES: Final[Sequence[Mapping[str, Any]]] = (
    {}, {"learn": False}, {"redaction": True}, {"recall": True}, {"summary": True}, {"cap": 2}, {"max_users": 1},
    {"limit": 2}, {"learn": False, "recall": True}, {"redaction": True, "recall": True, "summary": True},
)  # fmt: skip


@lru_cache(maxsize=1)
def scripts(claims: Claims) -> SearchStrategy[RandomScript]:
    """Random scripts for a system that claims this."""
    return st.builds(
        RandomScript,
        lines=st.tuples(*[st.lists(_line(claims), max_size=_PART)] * _PARTS).map(lambda parts: tuple(chain(*parts))),
        callers=_pick((2, 3)),
        kin=_one(_KIN, claims),
        ids=_pick(range(_IDS)),
        unresolved=_pick([why.value for why in Unresolved]),
        options=_options(claims),
    )


def _options(claims: Claims) -> SearchStrategy[tuple[tuple[str, Any], ...]]:
    modes = [mode for mode in _MODES if all(_open(_OPTIONS[name], claims) for name in mode)]
    windows = _WINDOWS if "window" in claims else (None,)
    return st.builds(_pairs, _pick(windows), _pick(modes))


def _pairs(window: int | None, mode: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    options = dict(mode) if window is None else {**mode, "window": window}
    return tuple(sorted(options.items()))


def _line(claims: Claims) -> SearchStrategy[AnyLine]:
    """One line; the commoner ones are named more than once."""
    turn = _turn(claims)
    offered: list[tuple[str, SearchStrategy[AnyLine]]] = [
        *[("", turn)] * 9,
        ("", _overlap(claims)),
        ("stream", st.builds(Leave, _who(claims), _pick((1, 2, 3)), _one(_DOES, claims & {"tools"}))),
        ("cancel", st.builds(Cancel, _NAMED, _one(_POINTS, claims))),
        ("resume", st.builds(Pause, _who(claims))),
        ("resume", _go_on(claims)),
        ("facts", _add(claims)), ("facts", _add(claims)),
        ("update", st.builds(Update, _ANY, _anybody("record-ids", claims), st.booleans())),
        ("forget", st.builds(Forget, _NAMED, st.none())),
        ("forget", st.builds(Forget, _anybody("record-ids", claims), _ANY)),
        ("", st.builds(Look, _NAMED, _one(_LOOKS, claims))),
        ("save-load", st.builds(Save, _NAMED, _FILE)), ("save-load", st.builds(Load, _NAMED, _FILE)),
        ("erase", st.builds(Erase, _NAMED)),
        ("reopen", st.builds(Reopen)),
    ]  # fmt: skip
    lines = [line for need, line in offered if _open(need, claims)]
    return _pick(lines).flatmap(lambda line: line)


def _turn(claims: Claims) -> SearchStrategy[AnyLine]:
    """A turn; half of them end well whatever may happen."""
    who, asks, does = _who(claims), _pick(_ASKS), _one(_DOES, claims)
    runs = _pick(["run", *(["stream"] if "stream" in claims else [])])
    well = st.builds(Turn, who, asks, does, st.just("well"), _one(_VIA, claims))
    return _pick([well, st.builds(Turn, who, asks, does, _one(_ENDS, claims), runs)]).flatmap(lambda turn: turn)


def _overlap(claims: Claims) -> SearchStrategy[AnyLine]:
    whos = st.lists(_NAMED, min_size=2, max_size=3).map(tuple)
    return st.builds(Overlap, whos, _one(_POINTS, claims), _pick(list(permutations(range(3)))))


def _go_on(claims: Claims) -> SearchStrategy[AnyLine]:
    forks = st.booleans() if "fork" in claims else st.just(value=False)
    return st.builds(GoOn, _ANY, _anybody("ids", claims), st.booleans(), forks)


def _add(claims: Claims) -> SearchStrategy[AnyLine]:
    scopes = _pick(["user", "user", *(["agent"] if "agent-facts" in claims else [])])
    return st.builds(Add, _NAMED, _pick(_ASKS), scopes)


def _who(claims: Claims) -> SearchStrategy[int]:
    """A caller; now and then the one who cannot be told."""
    return _pick((0, 1, 2, 0, 1, 2, 0, 1, -1)) if "resolver" in claims else _NAMED


def _anybody(need: str, claims: Claims) -> SearchStrategy[int | None]:
    """Whoever it belongs to, or where the system can tell it apart, now and then another."""
    return _pick((None, None, None, 0, 1, 2)) if _open(need, claims) else st.none()


def _one(choices: Choices, claims: Claims) -> SearchStrategy[str]:
    return _pick([choice for choice, need in choices.items() if _open(need, claims)])


def _open(need: str, claims: Iterable[str]) -> bool:
    return not need or not unmet([need], claims)


def _pick(choices: Sequence[_T]) -> SearchStrategy[_T]:
    """One of these, the first being the simplest; each about as often."""
    size = len(choices).bit_length() + 2
    return st.tuples(*[st.booleans()] * size).map(lambda bits: choices[_number(bits) * len(choices) >> size])


def _number(bits: Iterable[bool]) -> int:
    return int("".join("01"[bit] for bit in bits), 2)


_NAMED: Final = _pick((0, 1, 2))
"""Of two callers the third is the first."""
_ANY: Final = _pick((0, 1, 2, 3))
_FILE: Final = _pick((0, 1))
