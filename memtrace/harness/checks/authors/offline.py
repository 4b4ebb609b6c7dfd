"""Offline learning: what it is shown, how often, and whom its facts reach."""

from __future__ import annotations

from collections.abc import Iterator

from memtrace.harness.findings import Judgement, check, held, shown, undecided, untested, violated
from memtrace.harness.record.events import FactWritten
from memtrace.harness.record.history import Call, History, canaries_in
from memtrace.harness.seen.leaks import accuse_leak, blamed
from memtrace.model import Author, Evidence

RULE = "authors.offline-mines-users-only"


@check(RULE)
def offline_mines_users_only(history: History) -> Judgement:
    """It is shown users' words only, each trace once; one user's facts reach another only where a flag says so."""
    runs = list(_runs(history))
    if not runs:
        return untested("nothing was learned offline")
    if leaks := blamed(history, RULE):
        return accuse_leak(leaks[0], "offline learning carried one user's words to another")
    mined: list[Call] = []
    for run, calls in runs:
        if _ungated(run) and not _refused(run, calls):
            return violated("personal data was mined without the flag that asks for it", *_first(calls))
        for call in calls:
            if judgement := _shown_others_words(history, call) or _mined_before(call, mined):
                return judgement
        mined += calls
        if run.error and not run.refused and not _ungated(run):
            return undecided(f"offline learning raised {run.error}")
    return held(when=mined, otherwise="offline learning read no turn")


def _runs(history: History) -> Iterator[tuple[FactWritten, list[Call]]]:
    """Each run of offline learning, with the memory model's calls in it."""
    since = 0
    for event in history.events:
        if isinstance(event, FactWritten):
            if event.op == "learn_offline":
                yield event, [c for c in history.memory_calls() if since < c.at < event.at and c.turn is None]
            since = event.at


def _ungated(run: FactWritten) -> bool:
    """Personal data was asked for without saying so."""
    return run.scope in ("user", "project") and not run.personal


def _refused(run: FactWritten, calls: list[Call]) -> bool:
    return run.refused or (not run.count and not calls)


def _shown_others_words(history: History, call: Call) -> Judgement | None:
    for word in canaries_in(call.prompt.text):
        sources = [source for source in history.sources(word) if source.at < call.at]
        if sources and all(source.author is not Author.USER or source.way == "fact" for source in sources):
            whose = "what an application had filed" if sources[0].way == "fact" else f"{sources[0].author} words"
            return violated(f"offline learning was shown {whose}", shown(call, word))
    return None


def _mined_before(call: Call, mined: list[Call]) -> Judgement | None:
    words = set(canaries_in(call.prompt.text))
    for earlier in mined:
        if again := words.intersection(canaries_in(earlier.prompt.text)):
            return violated("a trace was mined twice", shown(call, min(again)))
    return None


def _first(calls: list[Call]) -> list[Evidence]:
    words = canaries_in(calls[0].prompt.text) if calls else []
    return [shown(calls[0], words[0])] if words else []
