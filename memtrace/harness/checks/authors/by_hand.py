"""Facts that an application persisted, updated or forgot, beside the learned ones."""

from __future__ import annotations

from memtrace.harness.findings import Judgement, check, held, undecided, untested, violated
from memtrace.harness.record.events import FactsRead, FactWritten
from memtrace.harness.record.history import History, canaries_in
from memtrace.harness.seen.expectations import met
from memtrace.harness.seen.facts import learned, listings, seen_facts
from memtrace.model import Caller, Evidence


@check("authors.cap-spares-persisted")
def cap_spares_persisted(history: History) -> Judgement:
    """The cap keeps the newest learned facts, and never removes one persisted by hand."""
    cap = history.declared("cap")
    if cap is None:
        return untested("the system declares no cap of learned facts")
    full, reads = False, listings(history)
    for read in reads:
        listed = [word for fact in read.facts if not fact.superseded for word in canaries_in(fact.text)]
        by_hand, taught = _given_by(history, read)
        if gone := [word for word in by_hand if word not in listed]:
            return violated("a fact persisted by hand is gone", _listing(read), Evidence("the fact", gone[0]))
        kept = [word for word in taught if word in listed]
        if len(kept) > cap:
            return violated(f"{len(kept)} learned facts are kept, where the cap is {cap}", _listing(read))
        if len(taught) > cap:
            full = True
            if kept != taught[-len(kept) :] or not kept:
                return violated("the learned facts that were kept are not the newest", _listing(read))
    if not reads:
        return untested("no facts were listed")
    return held(when=full, otherwise="no user was taught more than the cap holds")


def _given_by(history: History, read: FactsRead) -> tuple[list[str], list[str]]:
    """The words a caller's application had persisted by then, and those that only their turns had taught; in order."""
    by_hand: list[str] = []
    taught: list[str] = []
    for word, sources in history.canaries.items():
        own = [s for s in sources if s.at < read.at and history.same(s.caller, read.caller)]
        if any(source.way == "fact" and not source.shared for source in own):
            by_hand.append(word)
        elif any(source.way == "turn" and history.turns[source.turn].ok for source in own):
            taught.append(word)
    return by_hand, sorted(taught, key=lambda word: history.sources(word)[0].at)


def _listing(read: FactsRead) -> Evidence:
    return Evidence("what facts gave", "\n".join(f"{fact.source or 'by hand':<8} {fact.text}" for fact in read.facts))


@check("authors.persisted-stays-in-prompt")
def persisted_stays_in_prompt(history: History) -> Judgement:
    """A fact persisted by hand is not pushed out of the prompt by learned ones."""
    judgement = met(history, "authors.persisted-stays-in-prompt")
    if judgement.reason or not history.expected("authors.persisted-stays-in-prompt"):
        return judgement
    return held(when=learned(history), otherwise="nothing was learned that could have pushed it out")


@check("authors.update-supersedes")
def update_supersedes(history: History) -> Judgement:
    """An update keeps the old fact, marked superseded; back again leaves the first text active."""
    books: dict[Caller, _Book] = {}
    judged = False
    for event in history.events:
        if isinstance(event, FactWritten) and event.op in ("add", "update", "forget", "erase"):
            if event.error:
                return undecided(f"{event.op} raised {event.error}")
            books.setdefault(event.caller, _Book()).write(event)
        elif isinstance(event, FactsRead) and event.op == "facts" and event.caller in books and event.limit is None:
            book = books[event.caller]
            if book.updates:
                judged = True
                if fault := book.fault(event):
                    return violated(fault, _listing(event))
    return held() if judged else untested("no fact was updated and listed")


class _Book:
    """What a caller's active facts should be, as the application wrote them."""

    def __init__(self) -> None:
        self.active: dict[str, str] = {}
        self.old: set[str] = set()
        self.updates = 0

    def write(self, event: FactWritten) -> None:
        match event.op:
            case "add":
                self.active[event.record] = event.text
            case "update":
                self._update(event)
            case _ if event.record:
                self.active.pop(event.record, None)
                self.old.clear()
            case _:
                self.active.clear()
                self.old.clear()

    def _update(self, event: FactWritten) -> None:
        self.updates += 1
        before = self.active.pop(event.record, "")
        if before != event.text:
            self.old.add(before)
        self.active[event.returned] = event.text
        self.old.discard(event.text)

    def fault(self, read: FactsRead) -> str:
        """What a listing shows that should not be, or does not show that should."""
        active = [fact.text for fact in read.facts if not fact.superseded]
        if missing := [text for text in self.active.values() if active.count(text) != 1]:
            return f"an active fact is listed {active.count(missing[0])} times: {missing[0]}"
        if still := [text for text in self.old if text in active]:
            return f"a superseded fact is still active: {still[0]}"
        if read.superseded:
            kept = {fact.text for fact in read.facts if fact.superseded}
            if gone := [text for text in self.old if text and text not in kept]:
                return f"the old fact was not kept, marked superseded: {gone[0]}"
        return ""


@check("authors.restated-is-relearned")
def restated_is_relearned(history: History) -> Judgement:
    """A forgotten fact that the user states again is stored again."""
    judged = False
    for forgotten in history.of(FactWritten):
        if forgotten.op != "forget" or forgotten.error:
            continue
        for word in _known_before(history, forgotten):
            again = [s for s in history.sources(word) if s.way == "turn" and s.at > forgotten.at]
            later = [read for read in listings(history) if again and read.at > history.turns[again[0].turn].ended]
            if not later or not history.turns[again[0].turn].ok:
                continue
            judged = True
            if not any(word in text.lower() for text in later[0].texts):
                return violated("a forgotten fact that was stated again was not stored", _listing(later[0]))
    return held() if judged else untested("nothing that was forgotten was stated again")


def _known_before(history: History, forgotten: FactWritten) -> set[str]:
    """The words of a caller's that were seen as facts before they were forgotten."""
    return {
        seen.word
        for seen in seen_facts(history)
        if seen.at < forgotten.at and any(history.same(s.caller, forgotten.caller) for s in history.sources(seen.word))
    }
