"""What may become a fact, and how a learned one is filed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from memtrace.harness.findings import Judgement, check, held, told, untested, violated
from memtrace.harness.record.events import FactsRead
from memtrace.harness.record.history import Call, History, Source, canaries_in
from memtrace.harness.seen.conversation import led_to
from memtrace.harness.seen.facts import Seen, first_offline, learned, listings, seen_facts, seen_in_reads
from memtrace.harness.seen.sightings import remembered, unlearned_traffic
from memtrace.model import Author, Evidence, Fact

_NOTHING_LEARNED = "nothing that a user said became a fact"
_OTHERS_WORDS = {"tool": "a tool's output", "call": "what one agent told another", "system": "the system prompt"}


@check("authors.reply-never-a-fact")
def reply_never_a_fact(history: History) -> Judgement:
    """No word of the model's own became a fact about the user."""
    if not any(source.way == "reply" for sources in history.canaries.values() for source in sources):
        return untested("no model said a planted word")
    for seen, first in _not_from_users(history):
        if first.way == "reply":
            return seen.accuse("what the model said was stored as a fact", *_told(history, first))
    return held(when=learned(history), otherwise=_NOTHING_LEARNED)


@check("authors.tool-output-never-a-fact")
def tool_output_never_a_fact(history: History) -> Judgement:
    """Nor tool output, system prompt, injected memory, delegated or handed-off text."""
    if not any(source.way in _OTHERS_WORDS for sources in history.canaries.values() for source in sources):
        return untested("no tool, system prompt or other agent said a planted word")
    for seen, first in _not_from_users(history):
        spared = _is_prompt_of_its_own(seen, first) or unlearned_traffic(history, seen.word, seen.at)
        if first.way in _OTHERS_WORDS and not spared:
            return seen.accuse(f"{_OTHERS_WORDS[first.way]} was stored as a fact", *_told(history, first))
    return held(when=learned(history), otherwise=_NOTHING_LEARNED)


def _not_from_users(history: History) -> Iterator[tuple[Seen, Source]]:
    """Facts with words that no user and no application had given by then, with where those words came from first.

    What is seen once something was learned offline is left to the rule about that.
    """
    asked, offline = remembered(history), first_offline(history)
    for seen in seen_facts(history):
        if seen.at > offline:
            continue
        sources = [source for source in history.sources(seen.word) if source.at < seen.at]
        if sources and seen.word not in asked and all(source.author is not Author.USER for source in sources):
            yield seen, sources[0]


def _is_prompt_of_its_own(seen: Seen, first: Source) -> bool:
    return first.way == "system" and seen.read is None


def _told(history: History, source: Source) -> list[Evidence]:
    turn = history.turns.get(source.turn)
    return [told(turn)] if turn is not None else []


@check("authors.no-relearning")
def no_relearning(history: History) -> Judgement:
    """Recalled or injected memory is not stored again."""
    judged = False
    for read in listings(history):
        for word, count in _counted(read).items():
            times = _given(history, word, read)
            judged = judged or times > 0
            if 0 < times < count:
                texts = "\n".join(fact.text for fact in read.facts if word in fact.text.lower())
                reason = (
                    f"said {times} time{'s' if times > 1 else ''}, stored as {count} facts: memory was learned again"
                )
                return violated(reason, Evidence("what facts gave", texts))
    if not judged:
        return untested("no fact was listed")
    return held(when=learned(history), otherwise=_NOTHING_LEARNED)


def _counted(read: FactsRead) -> Counter[str]:
    """In how many active facts of a listing each planted word is."""
    return Counter(word for fact in read.facts if not fact.superseded for word in canaries_in(fact.text))


def _given(history: History, word: str, read: FactsRead) -> int:
    """How often the reader themselves had said a word, or an application had filed it under them."""
    own = [s for s in history.sources(word) if s.at < read.at and history.same(s.caller, read.caller)]
    return sum(1 for source in own if source.author is Author.USER and source.shared != "agent")


@check("authors.learned-is-marked")
def learned_is_marked(history: History) -> Judgement:
    """A learned fact carries the declared confidence and the mark, under its user, and names the run that taught it."""
    confidence = history.declared("confidence")
    if confidence is None:
        return untested("the system declares no confidence of learned facts")
    judged = False
    for seen in seen_in_reads(history):
        turns = [source for source in history.sources(seen.word) if source.way == "turn" and source.at < seen.at]
        if seen.fact is None or not turns or _by_hand(history, seen) or _learned_again(history, seen):
            continue
        if seen.at > first_offline(history):
            break  # offline learning may mark in a way of its own what it learns
        judged = True
        if fault := _mark_fault(history, seen.fact, seen, confidence, _teaching(history, turns)):
            return seen.accuse(f"a learned fact {fault}", Evidence("the fact", repr(seen.fact)))
    return held() if judged else untested("no learned fact was listed")


def _teaching(history: History, said: list[Source]) -> set[str]:
    """The turns that may have taught what was said: those it was said in, and those that went on with one of them."""
    turns = {source.turn for source in said}
    return {turn.id for turn in history.turns.values() if not turns.isdisjoint(led_to(history, turn))}


def _by_hand(history: History, seen: Seen) -> bool:
    return any(source.way == "fact" and source.at < seen.at for source in history.sources(seen.word))


def _learned_again(history: History, seen: Seen) -> bool:
    """Then it is not known which of the facts the user's own words taught, and another rule says so."""
    return seen.read is not None and _counted(seen.read)[seen.word] > _given(history, seen.word, seen.read)


def _mark_fault(history: History, fact: Fact, seen: Seen, confidence: float, turns: set[str]) -> str:
    if fact.source != "learned":
        return f"is marked {fact.source or 'as persisted by hand'!r}"
    if fact.confidence is not None and abs(fact.confidence - confidence) > 1e-9:
        return f"has confidence {fact.confidence}, where the system declares {confidence}"
    if seen.read is not None and fact.owner and fact.owner != seen.read.caller.user:
        return "is filed under somebody else"
    traces = {span.trace for span in history.spans if span.turn in turns}
    if traces and fact.source_trace_id not in traces:
        return "does not name the trace of the run that taught it"
    return ""


@check("authors.few-per-message")
def few_per_message(history: History) -> Judgement:
    """At most the declared number of facts per message."""
    most = history.declared("per_message")
    if most is None:
        return untested("the system declares no number of facts a message")
    offered = 0
    for call in history.memory_calls():
        words = _offered(history, call)
        offered = max(offered, len(words))
        kept = max((_kept(read, words) for read in listings(history) if read.at > call.at), default=0)
        if len(words) > most and kept > most:
            return violated(f"one message left {kept} facts, where the system declares at most {most}")
    if offered <= most:
        return untested(f"no message offered more than {most} facts")
    return held(when=learned(history), otherwise=_NOTHING_LEARNED)


def _offered(history: History, call: Call) -> set[str]:
    """The planted words that the memory model returned, and the user had said in that turn."""
    said = canaries_in(call.turn.text) if call.turn is not None else []
    return {word for word in canaries_in(call.reply) if word in said and len(history.sources(word)) == 1}


def _kept(read: FactsRead, words: set[str]) -> int:
    return sum(1 for fact in read.facts if words.intersection(canaries_in(fact.text)))
