"""What a crash in the middle of a write leaves behind: the old facts, or the new ones."""

from __future__ import annotations

from collections import Counter

from memtrace.harness.findings import Judgement, accuse, check, clipped, held, outline, undecided, violated
from memtrace.harness.record.events import FactsRead, FactWritten
from memtrace.harness.record.history import History, canaries_in
from memtrace.harness.seen.crashed_writes import Crashed, Stretch, around, crashed_writes
from memtrace.model import Evidence


@check("backends.add-is-atomic")
def add_is_atomic(history: History) -> Judgement:
    """After a crash the facts are those before the write or those after it, and the same call made again makes it.

    So each process finds, not only the one that made the call: that one may say what it remembers.
    """
    crashes = list(crashed_writes(history))
    forgets = _forgets(history, crashes)
    unread = ""
    for crashed in crashes:
        found = _left(crashed) or _made_again(crashed) or _shown(crashed) or (_forgotten(crashed) if forgets else None)
        if found is not None:
            return found
        unread = unread or _unread(crashed)
    if unread:
        return undecided(unread)
    return held(when=crashes, otherwise="no process was killed in the middle of an add or an update")


def _left(crashed: Crashed) -> Judgement | None:
    read, stored = crashed.left.first_listing, crashed.left.stored
    if read is None:
        return None
    if (found := Counter(read.texts)) not in (crashed.old, crashed.new):
        return violated(f"a crash in an {crashed.write.op} left {_what(crashed, found)}", *_evidence(crashed, read))
    if stored is not None and Counter(stored.texts) != found:
        reason = f"what a crash in an {crashed.write.op} left is not what another process finds later"
        return violated(reason, *_evidence(crashed, read, stored))
    return None


def _what(crashed: Crashed, found: Counter[str]) -> str:
    if crashed.replaced and found[crashed.replaced] and found[crashed.write.text]:
        return "both the old fact and the new one"
    if crashed.replaced and not found[crashed.replaced] and not found[crashed.write.text]:
        return "neither the old fact nor the new one"
    if crashed.old - found - Counter([crashed.replaced]):
        return "less than there was before"
    return "facts that are neither those before it nor those after"


def _made_again(crashed: Crashed) -> Judgement | None:
    again = crashed.again
    if again is None:
        return None
    return _not_made(crashed, again.first_listing) or _not_made(crashed, again.first_listing, again.stored)


def _not_made(crashed: Crashed, *reads: FactsRead | None) -> Judgement | None:
    """The last of these reads does not show the write that was made again."""
    *before, read = reads
    if read is None or (found := Counter(read.texts)) == crashed.new:
        return None
    many = found[crashed.write.text]
    what = "is not among the facts" if not many else "is there twice" if many > 1 else "is not all there is"
    where = " for another process" if before else ""
    reason = f"after a crash the same {crashed.write.op} was made again and returned, and its fact {what}{where}"
    return violated(reason, *_evidence(crashed, *before, read))


def _shown(crashed: Crashed) -> Judgement | None:
    """The prompt shows what a listing does, where it shows the caller's other facts."""
    stretch = crashed.again or crashed.left
    read = stretch.first_listing
    if read is None or Counter(read.texts) != crashed.new or not stretch.prompts:
        return None
    call = stretch.prompts[0]
    shown = set(canaries_in(call.prompt.text))
    new, old = set(canaries_in(crashed.write.text)), set(canaries_in(crashed.replaced))
    others = {word for text in crashed.before.texts for word in canaries_in(text)} - new - old
    if stale := (old - new) & shown:
        reason = f"after a crash in an update, {min(stale)} is listed no more and in the prompt"
        return accuse(call, reason, outline(call))
    if others and others <= shown and (gone := new - shown):
        reason = f"after a crash in an {crashed.write.op}, {min(gone)} is listed and not in the prompt"
        return accuse(call, reason, outline(call))
    return None


def _forgotten(crashed: Crashed) -> Judgement | None:
    stretch = crashed.forgotten
    if stretch is None or stretch.write.error:
        return None
    for read, where in ((stretch.first_listing, ""), (stretch.stored, " for another process")):
        if read is not None and crashed.write.text in read.texts:
            reason = f"a fact whose {crashed.write.op} a crash had cut short was forgotten, and is still there{where}"
            return violated(reason, *_evidence(crashed, read))
    return None


def _forgets(history: History, crashes: list[Crashed]) -> bool:
    """Whether forgetting a record works, for the processes after it too, where there was no crash."""
    touched = [crashed.write.caller for crashed in crashes]
    writes = [write for write in history.of(FactWritten) if write.op == "forget" and write.record and not write.error]
    for write in writes:
        if not any(history.same(write.caller, caller) for caller in touched):
            earlier, later = around(history, write)
            if earlier is not None and _fewer(earlier, later[0]):
                return True
    return False


def _fewer(earlier: Stretch, later: Stretch) -> bool:
    before, after = earlier.last_listing, [read for read in (later.first_listing, later.stored) if read is not None]
    return before is not None and bool(after) and all(len(read.texts) < len(before.texts) for read in after)


def _unread(crashed: Crashed) -> str:
    """Why nothing can be said of a crash."""
    read = crashed.left.first_listing
    if read is None:
        return "after a crash the facts could not be listed"
    if crashed.write.text not in read.texts and crashed.again is None:
        return "after a crash the same call was not made again with success"
    return ""


def _evidence(crashed: Crashed, *reads: FactsRead | None) -> tuple[Evidence, ...]:
    write = crashed.write
    call = f"{write.op}({f'{crashed.replaced!r}, ' if crashed.replaced else ''}{write.text!r})"
    return (
        Evidence("the facts before", _lines(crashed.before.texts)),
        Evidence(f"killed in it: {write.process}", call),
        *(Evidence(f"the facts then: {read.process}", _lines(read.texts)) for read in reads if read is not None),
    )


def _lines(texts: tuple[str, ...]) -> str:
    return "\n".join(f"- {clipped(text)}" for text in texts) or "(none)"
