"""The rules: what a memory promises, each with its id, kind, statement, needs and source.

A rule's id is stable: it is in the test, the report, the broken memory that breaks it and its page. Sources: ``H`` the
page *How memory works*, ``B`` *Agent Memory Breaks at the Boundaries*, ``L`` the facts-and-rules page, ``S`` the
scoping page, ``R`` public reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any, Final, TypeVar

from memtrace.errors import UsageError


class Kind(StrEnum):
    """When a rule is judged."""

    INVARIANT = "invariant"
    """On every history."""
    EXPECTATION = "expectation"
    """Where the script declared what it expects."""
    SCENARIO = "scenario"
    """In its own scripts."""
    COMPARISON = "comparison"
    """On declared twins: the same script run twice in two ways."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A promise about memory that can be judged from a history.

    ``needs`` are capabilities a system must claim for the rule to apply; ``a|b`` is either. A *declared* rule compares
    a system with values of its own ``declares``. A *timed* one is judged only where that was asked for (``--timed``).
    """

    id: str
    kind: Kind
    statement: str
    needs: tuple[str, ...]
    source: str
    declared: bool = False
    timed: bool = False

    @property
    def boundary(self) -> str:
        """The part of the id before the dot."""
        return self.id.partition(".")[0]

    def unmet(self, capabilities: Iterable[str]) -> list[str]:
        """The needs that these capabilities leave open."""
        return unmet(self.needs, capabilities)


def unmet(needs: Iterable[str], capabilities: Iterable[str]) -> list[str]:
    """The needs (``a`` or ``a|b``) that these capabilities leave open."""
    claimed = set(capabilities)
    return [need for need in needs if claimed.isdisjoint(need.split("|"))]


# fmt: off
_TABLE = (
    Rule("turns.prompt-order", Kind.INVARIANT, "the prompt is in the declared order; the reference's: system prompt, agent facts, plane facts, user facts, summary, recalled messages, window, history passed in, this turn's input", ("facts",), "HB", declared=True),
    Rule("turns.prompt-holds-its-input", Kind.INVARIANT, "the prompt of a turn holds that turn's input (after redaction, if on)", ("turns",), "R"),
    Rule("turns.input-and-answer", Kind.INVARIANT, "among user and assistant messages, a successful turn stores exactly the user's input and the final answer, in that order, once", ("turns", "conv"), "HB"),
    Rule("turns.recalled-next-turn", Kind.EXPECTATION, "what a successful turn stored is in the next prompt", ("turns", "conv"), "R"),
    Rule("turns.failed-writes-nothing", Kind.INVARIANT, "what only failed turns said is in no later prompt and no record: failing before, at and after the answer (an after-run step)", ("turns",), "HBR"),
    Rule("turns.blocked-writes-nothing", Kind.INVARIANT, "what only turns said that a guardrail blocked, on the input or on the answer, is in no later prompt and no record", ("turns", "guardrails"), "HBR"),
    Rule("turns.limit-writes-nothing", Kind.INVARIANT, "what only turns said that ended at the iteration limit is in no later prompt and no record", ("turns", "tools"), "HB"),
    Rule("turns.paused-writes-nothing", Kind.INVARIANT, "what a turn said that is paused for an approval is in no other prompt and no record meanwhile", ("turns", "resume"), "HB"),
    Rule("turns.resumed-records-its-question", Kind.EXPECTATION, "a resumed or forked run stores the question it resumed, once, also from another process", ("resume",), "HB"),
    Rule("turns.resume-belongs-to-its-caller", Kind.SCENARIO, "a paused run resumed under another caller gives neither caller's memory to the other", ("resume", "ids"), "R"),
    Rule("turns.cancelled-whole-or-nothing", Kind.INVARIANT, "a cancelled or abandoned turn stores nothing or the whole turn, never half", ("stream|cancel",), "R"),
    Rule("turns.abandoned-leaves-no-context", Kind.SCENARIO, "after an abandoned stream the next turn has its own caller, trace and prompt", ("stream",), "R"),
    Rule("turns.stream-equals-run", Kind.COMPARISON, "the same turn streamed and run sends the same prompt and stores the same messages; text said before a tool call is not stored", ("stream",), "HB"),
    Rule("turns.tool-traffic-never-a-fact", Kind.INVARIANT, "no tool call or result becomes a fact or a recalled message", ("tools", "facts"), "HB"),
    Rule("turns.tool-traffic-not-replayed", Kind.INVARIANT, "no tool call or result of an earlier turn is in a later prompt (systems that keep transcripts declare it ALLOWED)", ("tools", "conv"), "HB"),
    Rule("turns.tool-pairs-intact", Kind.INVARIANT, "where a prompt holds tool messages, every result has its call and every call its result, after trimming, failing and cancelling too", ("tools", "conv"), "R"),
    Rule("turns.handoff-recorded-once", Kind.SCENARIO, "a hand-off run is stored once: the user's request and the final answer, no hand-off text", ("handoff",), "HB"),
    Rule("turns.retry-stores-once", Kind.COMPARISON, "a model retry, or a run repeated after a failure, stores the turn once", ("turns",), "R"),
    Rule("turns.overlapping-turns-both-kept", Kind.SCENARIO, "two overlapping turns of one user are both kept, whole, or one fails loudly", ("turns", "conv"), "R"),
    Rule("turns.redaction-is-for-the-model", Kind.SCENARIO, "every request that leaves the process (answer, extractor, summary, embeddings) gets the redacted text; memory keeps the user's words; the stored reply is the one after redaction", ("redaction",), "HBR"),
    Rule("turns.window-is-bounded", Kind.INVARIANT, "never more than the window's n messages are replayed, the newest, whole turns; 0 means none", ("window",), "HR", declared=True),
    Rule("turns.growth-is-linear", Kind.COMPARISON, "for 2n turns, bytes stored ≤ 2.2 × those for n; once the window is full the prompt stops growing", ("turns", "conv"), "R"),
    Rule("turns.queued-writes-wait", Kind.SCENARIO, "remember/forget called by the model take effect after the turn, always in the next, never when the turn failed", ("memory-tools",), "L"),

    Rule("users.own-memory-recalled", Kind.EXPECTATION, "the owner gets their own memory back", ("ids",), "R"),
    Rule("users.no-foreign-memory", Kind.INVARIANT, "no prompt and no read holds what only another user said or was told, by run, stream, resume, hand-off", ("ids",), "HBR"),
    Rule("users.reply-goes-to-its-caller", Kind.INVARIANT, "the text a caller gets is what the (scripted) model returned in that caller's turn", ("turns", "ids"), "R"),
    Rule("users.concurrent-turns-apart", Kind.INVARIANT, "isolation while turns overlap, for every order in which model, embedder, resolver and tool can answer, over threads and tasks", ("ids",), "HBR"),
    Rule("users.similar-ids-apart", Kind.INVARIANT, "ids that differ by a prefix, case, accents, Unicode forms, spaces, separators (: / . _ - |), a single character that a pattern would let pass (? _), quotes, .., or far behind in a very long id do not read, overwrite or delete each other", ("ids",), "R"),
    Rule("users.wildcard-is-not-a-user", Kind.INVARIANT, "a caller whose id is * or any pattern is that user and nobody else", ("ids",), "HR"),
    Rule("users.unresolved-sees-only-agent-facts", Kind.INVARIANT, "no context, None, empty id, a resolver that raises or returns something that is not an id: only the agent's and the plane's facts are in the prompt", ("resolver",), "HB"),
    Rule("users.unresolved-writes-nothing", Kind.INVARIANT, "nothing that a caller says who cannot be told is stored; two such callers share nothing", ("resolver",), "HB"),
    Rule("users.resolved-once-per-turn", Kind.SCENARIO, "one turn is read and written as one caller even if the context changes while it runs", ("resolver",), "R"),
    Rule("users.same-session-id-apart", Kind.INVARIANT, "two users with the same session or thread id share nothing", ("ids", "session"), "R"),
    Rule("users.recall-namespaced", Kind.INVARIANT, "recall in one shared index returns only the caller's messages, and a busy user cannot crowd out a quiet one", ("recall",), "HB"),
    Rule("users.evicted-keeps-facts", Kind.SCENARIO, "past the limit of windows the least recently used user loses the window, never the facts; saving afterwards destroys nothing", ("window",), "HBR", declared=True),
    Rule("users.agent-facts-stay-with-agent", Kind.INVARIANT, "an agent's facts reach that agent's prompts and no other's, nor those of a user who has its name", ("agent-facts",), "H"),
    Rule("users.project-partitions", Kind.INVARIANT, "nothing crosses between two projects, even with equal ids and ids that concatenate alike", ("project",), "HR"),
    Rule("users.id-not-in-prompt", Kind.INVARIANT, "memory never adds a user's id to a prompt", ("facts", "ids"), "HB"),
    Rule("users.foreign-record-untouchable", Kind.INVARIANT, "naming the id of another user's record, or of the agent's, reads, updates and deletes nothing of theirs", ("record-ids",), "R"),
    Rule("users.empty-id-reads-nothing", Kind.INVARIANT, "at user scope an empty id reads, and forgets, nothing; it is no way to say everyone", ("facts", "ids"), "H"),
    Rule("users.forget-one-leaves-others", Kind.INVARIANT, "forgetting one user leaves every other user's records and conversation, and the agent's facts", ("forget", "ids"), "R"),

    Rule("authors.reply-never-a-fact", Kind.INVARIANT, "nothing but the extractor's judgement ever kept a model's words out of a user's facts: with an extractor that keeps all it is shown, none becomes a fact", ("learn",), "HBR"),
    Rule("authors.tool-output-never-a-fact", Kind.INVARIANT, "no tool output, retrieved document, system prompt, injected memory, delegated or handed-off text becomes a fact of a user, even with an extractor that keeps all it is shown", ("learn",), "BR"),
    Rule("authors.no-relearning", Kind.INVARIANT, "recalled or injected memory is not stored again", ("learn",), "R"),
    Rule("authors.learned-is-marked", Kind.INVARIANT, "a learned fact is filed under the user it came from, with the declared confidence (reference 0.6), marked learned, linked to the run that taught it", ("learn", "list"), "HB", declared=True),
    Rule("authors.few-per-message", Kind.SCENARIO, "at most the declared number of facts per message (reference 10)", ("learn", "list"), "B", declared=True),
    Rule("authors.cap-spares-persisted", Kind.SCENARIO, "the cap (reference 200) keeps the newest learned facts and never removes one persisted by hand, also when it was learned first, also with tracing off", ("learn", "facts"), "HBR", declared=True),
    Rule("authors.persisted-stays-in-prompt", Kind.SCENARIO, "a fact persisted by hand is not pushed out of the prompt by learned ones", ("learn", "facts"), "BR"),
    Rule("authors.once-in-prompt", Kind.INVARIANT, "each fact reaches a prompt once, under its heading", ("facts",), "B"),
    Rule("authors.text-stays-data", Kind.INVARIANT, "no stored text can forge a heading, a role or another author's line in a prompt (newlines, role markers, headings)", ("facts|conv",), "R"),
    Rule("authors.update-supersedes", Kind.SCENARIO, "an update keeps the old fact, marked superseded; A→B→A leaves A active; updating a fact with its own text changes nothing", ("update", "list"), "HBR"),
    Rule("authors.restated-is-relearned", Kind.SCENARIO, "a forgotten fact that the user states again is stored again", ("learn", "forget"), "R"),
    Rule("authors.offline-mines-users-only", Kind.SCENARIO, "offline learning is shown users' words only, each trace once; its default scope never carries one user's facts to another; personal scope needs the explicit flag", ("learn-offline",), "HB"),

    Rule("processes.facts-survive", Kind.EXPECTATION, "durable facts are in the prompt of a fresh process, also after SIGKILL during a write: the whole record or none of it", ("reopen", "facts"), "HB"),
    Rule("processes.search-after-restart", Kind.EXPECTATION, "search by meaning works in a fresh process on its first query", ("reopen", "search"), "HB"),
    Rule("processes.recall-survives-own-store", Kind.EXPECTATION, "recall kept in the user's own vector store survives a restart", ("reopen", "own-recall"), "H"),
    Rule("processes.other-process-seen", Kind.EXPECTATION, "an add, update or forget in one process is seen by the next turn of another that already searched", ("shared", "facts"), "BR"),
    Rule("processes.forget-fact", Kind.INVARIANT, "a forgotten fact is in no fact block, row (superseded ones too), vector, index or cache, here and in a fresh process", ("forget",), "BR"),
    Rule("processes.forget-user", Kind.INVARIANT, "a forgotten user's words are in no prompt (extractor's and summary's included), window, summary, recall or saved file", ("erase",), "BR"),
    Rule("processes.forget-stays-forgotten", Kind.SCENARIO, "no turn in flight, stale process, re-index or offline learning brings it back", ("forget",), "R"),
    Rule("processes.search-survives-forget", Kind.EXPECTATION, "deleting one user leaves every other's search right", ("forget", "search"), "B"),
    Rule("processes.window-round-trip", Kind.SCENARIO, "save and load give the same window to the same user, refuse another user's, and answer a truncated file with a clear error", ("save-load",), "HBR"),
    Rule("processes.fork-safe", Kind.SCENARIO, "a system opened before fork works in parent and child", ("shared",), "B"),
    Rule("processes.two-writers", Kind.SCENARIO, "two processes writing at once lose nothing, or one fails loudly", ("shared",), "R"),

    Rule("backends.lifecycle", Kind.EXPECTATION, "add, update, retrieve, forget and isolation work on each backend", ("facts", "turns"), "B"),
    Rule("backends.same-answers", Kind.COMPARISON, "the same calls give the same answers on each backend: limits None/0/1/n, equal times, another time zone, NUL, 1 MB, every Unicode plane, odd ids", ("facts", "list"), "R"),
    Rule("backends.newest-means-newest", Kind.INVARIANT, "the newest n are the newest n, newest first, with a defined order for ties", ("list",), "BR"),
    Rule("backends.read-is-flat", Kind.SCENARIO, "the time of reading a user's newest does not grow with what they have stored: a slope with its confidence interval; inconclusive where the machine is too noisy to tell (run with `--timed`, and by proof 5)", ("facts", "list"), "B", timed=True),
    Rule("backends.add-is-atomic", Kind.SCENARIO, "a crash at any point of an add or an update leaves the old or the new state: all facts as they were, or with the change, and the same call made again makes it", ("facts", "reopen"), "R"),
    Rule("backends.outage-is-bounded", Kind.SCENARIO, "with the store refused, black-holed, slow, locked or damaged, a turn ends within twice the declared deadline, so do the turns beside it, and what was known is still served", ("facts",), "R", declared=True),
    Rule("backends.outage-is-visible", Kind.INVARIANT, "where an outage kept a turn from stored facts, the turn fails or a span of its read says so: an outage never looks like an empty memory", ("facts", "memory-spans"), "R"),

    Rule("export.no-payload-leaves", Kind.INVARIANT, "with payloads off no canary is in the exported bytes: any attribute, event, exception, status, link, name, resource, log or metric; plain, escaped, base64, hex, split or cut", (), "HR"),
    Rule("export.no-payload-in-logs", Kind.INVARIANT, "with payloads off no canary is in a log record from INFO up, in a warning, or on standard error, of any process that runs the system", (), "R"),
    Rule("export.no-id-in-clear", Kind.INVARIANT, "no user, session or record id leaves in clear", (), "HR"),
    Rule("export.local-is-complete", Kind.INVARIANT, "what stays on this machine keeps reads, snippets, prompt and user id", (), "H"),
    Rule("export.safe-under-a-foreign-exporter", Kind.SCENARIO, "an app with an exporter of its own gets no content and no raw id on memtrace's spans", (), "R"),
    Rule("export.span-equals-wire", Kind.INVARIANT, "the recorded prompt is what was sent", (), "BR"),
    Rule("export.every-call-has-one-span", Kind.INVARIANT, "one ended span per model call and per memory operation, whichever way it ended", (), "R"),
    Rule("export.one-trace-per-turn", Kind.INVARIANT, "a turn's spans are one tree over threads, tasks, generators and forks, streamed or not", (), "R"),

    Rule("plane.facts-reach-everyone", Kind.INVARIANT, "each approved fact is in every caller's prompt, once, even if it is served twice", ("plane", "turns"), "B"),
    Rule("plane.read-only", Kind.INVARIANT, "facts are only ever asked for with GET, and the plane holds the same ones after a run as before", ("plane",), "B"),
    Rule("plane.question-stays-home", Kind.INVARIANT, "with payloads off the user's question is not sent to the plane at all; with payloads on it is redacted first, and is in a URL only where the plane's protocol requires it, and never in a log", ("plane", "turns"), "HBR"),
    Rule("plane.outage-serves-last", Kind.SCENARIO, "while the plane is unreachable, answers 5xx, 429, 401, 403, 404 or a redirect, or with what is malformed, empty, too large or drips, the turn goes on with the facts that were last read, also for a user not seen before", ("plane", "turns"), "BR"),
    Rule("plane.one-warning", Kind.SCENARIO, "one warning an outage, and one retry a declared interval (reference 30 s, or what Retry-After says)", ("plane", "advance"), "B", declared=True),
    Rule("plane.turn-is-bounded", Kind.SCENARIO, "whatever the plane does, a turn ends within twice the declared total timeout, and so do the turns beside it", ("plane", "turns"), "R", declared=True),
    Rule("plane.recovers", Kind.EXPECTATION, "after the outage the new facts are served", ("plane", "turns"), "B"),
    Rule("plane.retired-is-gone", Kind.INVARIANT, "a fact that was retired or never approved is in no later prompt", ("plane", "turns"), "B"),
    Rule("plane.agents-apart", Kind.INVARIANT, "one agent's curated facts reach no other agent", ("plane", "agents"), "R"),
    Rule("plane.staleness-is-visible", Kind.SCENARIO, "the read's span says whether curated facts are fresh, stale (and how old) or missing, and where the system offers it the prompt says that they are missing", ("plane", "turns", "own-spans"), "B"),
)
# fmt: on

RULES: Final[Mapping[str, Rule]] = MappingProxyType({rule.id: rule for rule in _TABLE})
"""Every rule, by id, in the order of the report."""

_Test = TypeVar("_Test", bound=Callable[..., Any])


def find_rule(rule_id: str) -> Rule:
    """The rule of that id; `UsageError` names the nearest ids otherwise."""
    if rule_id in RULES:
        return RULES[rule_id]
    near = "".join(f", {known}" for known in _near(rule_id))
    raise UsageError(f"there is no rule {rule_id!r}; {f'near it: {near[2:]}' if near else 'memtrace rules lists them'}")


def _near(rule_id: str) -> list[str]:
    """Ids that hold the last part of one that does not exist, or else that are spelled much like it."""
    name = rule_id.rpartition(".")[2].strip("*?")
    return [known for known in RULES if name and name in known][:5] or get_close_matches(rule_id, RULES, 3)


def as_glob(text: str) -> str:
    """The glob over ids that a boundary's name, an id or a glob stands for; `UsageError` where no rule matches it."""
    glob = f"{text}.*" if any(rule.boundary == text for rule in RULES.values()) else text
    if not matching(glob):
        find_rule(text)
    return glob


def matching(glob: str) -> list[Rule]:
    """The rules whose ids match a glob, in the order of the report."""
    return [rule for rule in RULES.values() if fnmatchcase(rule.id, glob)]


def rule(*ids: str, needs: Iterable[str] = (), options: Mapping[str, Any] | None = None) -> Callable[[_Test], _Test]:
    """Mark a boundary test as a script of these rules.

    ``needs`` are capabilities this script wants beyond the rules' own; ``options`` go to the system's environment. A
    script that needs ``plane`` gets one.
    """
    wanted = {need for rule_id in ids for need in find_rule(rule_id).needs} | set(needs)
    plane = {"plane": True} if "plane" in wanted else {}
    import pytest  # Only the suite needs it: the rules can be read without.

    return pytest.mark.rule(*ids, needs=tuple(needs), options={**plane, **(options or {})})
