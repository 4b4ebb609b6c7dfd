"""What leaves the process, on the bytes that did: for a collector, a log, standard error, somebody else's exporter."""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Iterator
from typing import Any

from memtrace import semconv
from memtrace.harness.checks.export.spans import foreign, memtraces
from memtrace.harness.findings import Judgement, check, held, untested, violated
from memtrace.harness.record.events import Exported, FactsRead, FactWritten, Opened, Printed, SpanEnded
from memtrace.harness.record.excerpts import excerpt
from memtrace.harness.record.history import History, canaries_in
from memtrace.harness.seen.sweep import found_in
from memtrace.model import Evidence

_NOTHING = "the system exported nothing to the collector"
_LET_OUT = "payloads were let out on purpose"
_SHORTEST = 6
"""Shorter ids are in any bytes by chance."""


@check("export.no-payload-leaves")
def no_payload_leaves(history: History) -> Judgement:
    """With payloads off no canary is in the exported bytes, in any form."""
    return untested(_LET_OUT) if _payloads(history) else _swept(history, history.canaries, "what somebody said")


@check("export.no-payload-in-logs")
def no_payload_in_logs(history: History) -> Judgement:
    """With payloads off no canary is in a log record from INFO up, a warning, or standard error, of any process."""
    printed = list(history.of(Printed))
    if not printed or _payloads(history):
        return untested(_LET_OUT if printed else "nobody listened to its logs and to standard error")
    for each in printed:
        if found := _found(each.text.encode(), history.canaries):
            word, how = found
            where = "its log or on standard error" + (f", in {each.process}" if each.process != "main" else "")
            return violated(f"what somebody said is in {where}: {how}", _around(where, each.text, word))
    return held(when=history.canaries, otherwise="nothing was there that could have been told")


def _payloads(history: History) -> bool:
    return any(opening.payloads for opening in history.of(Opened))


@check("export.no-id-in-clear")
def no_id_in_clear(history: History) -> Judgement:
    """No user, session or record id leaves in clear."""
    return _swept(history, dict.fromkeys(filter(_telling, _ids(history))), "an id")


def _swept(history: History, words: Collection[str], what: str) -> Judgement:
    exported = [(each.signal, base64.b64decode(each.body)) for each in history.of(Exported)]
    if not exported:
        return untested(_NOTHING)
    for signal, body in exported:
        if found := _found(body, words):
            word, how = found
            evidence = _around(f"exported {signal}", body.decode("utf-8", "replace"), word)
            return violated(f"{what} left the process in its {signal}: {how}", evidence)
    return held(when=words, otherwise="nothing was there that could have left")


def _found(body: bytes, words: Collection[str]) -> tuple[str, str] | None:
    """The first of these words that is in there, and how."""
    return next(((word, how) for word in words if (how := found_in(body, word))), None)


def _around(where: str, text: str, word: str) -> Evidence:
    shown = "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in text)
    return Evidence(f"{where}, {word!r} in there", excerpt(shown, word))


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
    spans = memtraces(history)
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


@check("export.safe-under-a-foreign-exporter")
def safe_under_a_foreign_exporter(history: History) -> Judgement:
    """An application with an exporter of its own gets no content and no raw id on memtrace's spans."""
    if not foreign(history):
        return untested("no exporter of the application's own")
    spans = memtraces(history)
    if not spans:
        return untested("the system has no spans of memtrace's")
    ids = {i for turn in history.turns.values() for i in (turn.caller.user, turn.caller.session) if i}
    for span in spans:
        text = _everything_on(span)
        for secret in [*canaries_in(text), *(i for i in ids if i.lower() in text.lower())]:
            what = "an id in clear" if secret in ids else "what somebody said"
            return violated(f"a foreign exporter got {what}", Evidence(f"span {span.name}", excerpt(text, secret)))
    return held(when=ids and history.canaries, otherwise="nobody said anything that could have been exported")


def _everything_on(span: SpanEnded) -> str:
    parts: list[Any] = [span.name, span.status_text, span.attributes, list(span.events)]
    return json.dumps(parts, ensure_ascii=False, default=str)
