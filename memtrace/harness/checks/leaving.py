"""Checks of what leaves the process for a collector, on the bytes that did, and of what stays."""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterator

from memtrace import semconv
from memtrace.harness.events import Exported, FactsRead, FactWritten, SpanEnded
from memtrace.harness.findings import Judgement, check, held, untested, violated
from memtrace.harness.history import History, excerpt
from memtrace.harness.sweep import found_in
from memtrace.model import Evidence

_NOTHING = "the system exported nothing to the collector"
_SHORTEST = 6
"""Shorter ids are in any bytes by chance."""


@check("export.no-payload-leaves")
def no_payload_leaves(history: History) -> Judgement:
    """With payloads off no canary is in the exported bytes, in any form."""
    return _swept(history, history.canaries, "what somebody said")


@check("export.no-id-in-clear")
def no_id_in_clear(history: History) -> Judgement:
    """No user, session or record id leaves in clear."""
    return _swept(history, dict.fromkeys(filter(_telling, _ids(history))), "an id")


def _swept(history: History, words: Collection[str], what: str) -> Judgement:
    exported = [(each.signal, base64.b64decode(each.body)) for each in history.of(Exported)]
    if not exported:
        return untested(_NOTHING)
    for signal, body in exported:
        for word in words:
            if how := found_in(body, word):
                return violated(f"{what} left the process in its {signal}: {how}", _around(signal, body, word))
    return held(when=words, otherwise="nothing was there that could have left")


def _around(signal: str, body: bytes, word: str) -> Evidence:
    text = "".join(letter if letter.isprintable() else " " for letter in body.decode("utf-8", "replace"))
    return Evidence(f"exported {signal}, {word!r} in them", excerpt(text, word))


def _ids(history: History) -> Iterator[str]:
    for turn in history.turns.values():
        yield from (turn.caller.user, turn.caller.session)
    for written in history.of(FactWritten):
        yield from (written.caller.user, written.caller.session, written.record, written.returned)
    for read in history.of(FactsRead):
        yield from (fact.id for fact in read.facts)


def _telling(word: str) -> bool:
    """Whether an id is unlike a number or a plain word, which are in any bytes for reasons of their own."""
    return len(word) >= _SHORTEST and not word.isalpha() and not word.isdecimal()


@check("export.local-is-complete")
def local_is_complete(history: History) -> Judgement:
    """The local record keeps reads, snippets, prompt and user id."""
    if not any(history.of(Exported)):
        return untested(_NOTHING)
    spans = [span for span in history.spans if span.scope.partition(".")[0] == "memtrace"]
    for span in spans:
        if lacking := _lacking(span):
            return violated(f"the local record lacks {lacking}", Evidence("the span", f"{span.name}: {_keys(span)}"))
    kept = any(span.prompt is not None for span in spans)
    return held(when=kept, otherwise="no model call has a span of memtrace's")


def _lacking(span: SpanEnded) -> str:
    said = span.attributes
    if span.prompt is not None and not span.prompt.messages:
        return "the prompt"
    if said.get(semconv.MEMORY_RENDERED_COUNT) and semconv.MEMORY_SNIPPETS not in said:
        return "what a read rendered"
    if semconv.REQUESTER_DIGEST in said and semconv.USER_ID not in said:
        return "the user's id"
    return ""


def _keys(span: SpanEnded) -> str:
    return ", ".join(span.attributes)
