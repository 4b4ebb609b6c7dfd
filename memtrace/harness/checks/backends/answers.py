"""What a store answers: all that was put into it, the newest first, and the same as another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from memtrace.harness.findings import Judgement, check, clipped, held, undecided, untested, violated
from memtrace.harness.record.events import FactsRead, FactWritten, Noted
from memtrace.harness.record.history import History
from memtrace.harness.seen.expectations import met
from memtrace.harness.seen.moments import moment
from memtrace.model import Evidence

_RULE = "backends.same-answers"
_ORDERED = 2


@check("backends.lifecycle")
def lifecycle(history: History) -> Judgement:
    """What was added, replaced and forgotten is seen so, and by its owner alone."""
    return met(history, "backends.lifecycle")


@check("backends.newest-means-newest")
def newest_means_newest(history: History) -> Judgement:
    """A listing of n facts shows the newest n, newest first, and those of one moment in the same order each time."""
    ordered = False
    before: FactsRead | None = None
    for read in _listings(history):
        written = _written(history, read)
        places = [written[text] for text in read.texts if text in written]
        if found := _out_of_order(read, written) or _left_out(history, read, written):
            return violated(found, Evidence(f"facts with limit={read.limit}", _shown(read.texts)))
        if before is not None and _unchanged(history, before, read) and not _agree(before.texts, read.texts):
            return violated(
                "two listings with nothing between them have different orders",
                Evidence("the first", _shown(before.texts)), Evidence("the second", _shown(read.texts)),
            )  # fmt: skip
        ordered = ordered or len(places) >= _ORDERED
        before = read
    return held(when=ordered, otherwise="no listing showed two facts that were added one after the other")


def _listings(history: History) -> Iterator[FactsRead]:
    return (e for e in history.of(FactsRead) if e.op == "facts" and not e.superseded and not e.error)


def _written(history: History, read: FactsRead) -> dict[str, int]:
    """The texts of the reader's facts that were added in the reader's process, each once, by when."""
    events = [e for e in history.of(FactWritten) if e.at < read.at and e.op in ("add", "update") and not e.error]
    mine = [e for e in events if history.same(e.caller, read.caller) and e.scope == "user"]
    texts = [event.text for event in mine]
    return {
        e.text: moment(history, e.at)
        for e in mine
        if texts.count(e.text) == 1 and e.process == read.process and e.op == "add"
    }


def _out_of_order(read: FactsRead, written: dict[str, int]) -> str:
    stamps = {fact.text: fact.created_at or 0.0 for fact in read.facts}
    shown = [text for text in read.texts if text in written]
    for earlier, later in pairwise(shown):
        # Facts of one moment may stand in any order that is always the same.
        tie = stamps.get(earlier) and stamps.get(earlier) == stamps.get(later)
        if written[earlier] < written[later] and not tie:
            return f"{clipped(earlier, 30)!r} is listed before {clipped(later, 30)!r}, which was added after it"
    if read.limit is not None and len(read.texts) > read.limit:
        return f"{len(read.texts)} facts are listed where {read.limit} were asked for"
    return ""


def _left_out(history: History, read: FactsRead, written: dict[str, int]) -> str:
    """A fact that is newer than one that a listing with a limit shows, and is not in it."""
    taken = ("update", "forget", "erase")
    if read.limit is None or any(
        e.op in taken and history.same(e.caller, read.caller) for e in history.of(FactWritten)
    ):
        return ""
    stamps = {fact.text: fact.created_at for other in _listings(history) for fact in other.facts}
    oldest = min((text for text in read.texts if text in written), key=written.__getitem__, default=None)
    for text, at in written.items():
        tie = oldest is not None and stamps.get(oldest) and stamps.get(text, stamps[oldest]) == stamps[oldest]
        if oldest is not None and at > written[oldest] and text not in read.texts and not tie:
            return (
                f"with limit={read.limit} {clipped(oldest, 30)!r} is listed, and {clipped(text, 30)!r}, newer, is not"
            )
    return ""


def _unchanged(history: History, one: FactsRead, other: FactsRead) -> bool:
    happened = [event for event in history.events if one.at < event.at < other.at]
    quiet = all(isinstance(event, FactsRead | Noted) for event in happened)
    return quiet and one.caller == other.caller and one.process == other.process


def _agree(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether the shorter of two listings is how the longer begins."""
    return all(mine == theirs for mine, theirs in zip(one, other, strict=False))


def _shown(texts: Sequence[str]) -> str:
    return "\n".join(clipped(text) for text in texts[:10]) or "(nothing)"


@check(_RULE)
def same_answers(history: History) -> Judgement:
    """What the same calls gave on one store, call by call, they gave on the other."""
    parts = _parts(history)
    if len(parts) != 2:
        return untested("the script was not played on two stores")
    (one, mine), (other, theirs) = parts.items()
    if len(mine) != len(theirs):
        return undecided(f"{len(mine)} calls on {one}, {len(theirs)} on {other}")
    for here, there in zip(mine, theirs, strict=True):
        if _answer(here) != _answer(there):
            return violated(
                f"{here.op} gave one thing on {one} and another on {other}",
                Evidence(f"on {one}", _said(here)), Evidence(f"on {other}", _said(there)),
            )  # fmt: skip
    listed = any(isinstance(event, FactsRead) and event.texts for event in mine)
    return held(when=listed, otherwise="nothing that was stored was ever listed")


def _parts(history: History) -> dict[str, list[FactsRead | FactWritten]]:
    """What was asked of each of the two stores, in order."""
    parts: dict[str, list[FactsRead | FactWritten]] = {}
    current: list[FactsRead | FactWritten] = []
    for event in history.events:
        if isinstance(event, Noted) and event.name == "store":
            current = parts.setdefault(str(event.value), [])
        elif isinstance(event, FactsRead | FactWritten):
            current.append(event)
    return parts


def _answer(event: FactsRead | FactWritten) -> tuple[object, ...]:
    went_well = not event.error
    if isinstance(event, FactsRead):
        return event.op, went_well, event.texts
    return event.op, went_well, event.count if event.op == "forget" else None


def _said(event: FactsRead | FactWritten) -> str:
    if event.error:
        return clipped(event.error, 200)
    if isinstance(event, FactsRead):
        return f"limit={event.limit}: {len(event.texts)} texts\n{_shown(event.texts)}"
    return f"{event.op} of {len(event.text)} characters: done"
