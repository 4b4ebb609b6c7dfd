"""The protocol between the harness and a system under test: what it is given, what it claims, how it is loaded.

A system is a plain object that a factory makes from an `Environment`; no base class. It must have ``capabilities``
(names of `CAPABILITIES`), ``close()``, and ``turn(caller, text) -> Reply`` or a store's methods. It may have
``identity`` (the `Caller` fields that tell users apart; default ``("user",)``), ``declares`` (values that rules marked
*declared* compare it with; ``telemetry``: globs of the files in ``env.dir`` that hold spans and logs, which are no
memory), ``refusals`` (exception types that are refusals), ``allowed`` (rule id -> reason),
``outcome_of(exception) -> Outcome | None``, ``settle()``, ``purpose(call)``, ``vacate(callers)`` (removes what is left
of a script's callers once they were erased, their agents' and projects' facts too; called only on a store of the
adopter's own, which is to be left as it was) and the methods its capabilities name.
Methods may be plain or ``async def``.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from opentelemetry.sdk.trace import SpanProcessor

from memtrace.errors import AdapterError, UsageError
from memtrace.model import Caller

TOOL: Final = "lookup"
"""The one tool an agent under test has; its one argument is ``query``, its body is ``env.tool``."""
APPROVAL_TOOL: Final = "transfer"
"""A tool, same argument, that pauses the run for approval before its body (``env.tool``) runs."""
ANSWER_MODEL: Final = "answer-model"
MEMORY_MODEL: Final = "memory-model"
EMBEDDING_MODEL: Final = "embedding-model"
"""The names under which the scripted model is asked: by them it knows what a call is for."""
REMEMBER_TOOL: Final = "remember"
FORGET_TOOL: Final = "forget"
"""The memory tools of the capability *memory-tools*; their one argument is ``text``."""
SQLITE_URL: Final = "sqlite:///"
"""How the URL of a SQLite file begins; its path follows."""


@dataclass(frozen=True, slots=True)
class Environment:
    """What a factory gets. Every callback belongs to the harness: it is recorded, and can be held or made to fail.

    Attributes:
        model_url: base URL of an OpenAI-compatible server, ``http://127.0.0.1:PORT/SCRIPT/v1``: chat completions,
            responses and embeddings, plain and streamed. Any API key will do.
        answer_model, memory_model, embedding_model: the model names to ask it for: for the answer of a turn; for
            extraction and summaries; for embeddings.
        model: the same model in-process: a chat-completions request body to its response body; raises
            `ScriptedFailure` where the server would answer with an error status.
        embed: texts to unit vectors of `DIMENSION` floats, deterministic, close where words are shared.
        tool: the body of `TOOL`: query to result text.
        guard: ``(text, "input" | "output") -> bool``; false means the guardrail blocks.
        after_run: an application step after the answer, given the answer; may raise, and then the turn has failed.
        resolve: reads the user from a caller, as a resolver would; may raise or return something that is no id.
        clock: seconds since the epoch; moved by ``advance``.
        store_url: ``sqlite:///PATH``, ``postgresql://…`` or ``redis://…``.
        plane_url: base URL of a plane of curated facts, or ``""``.
        plane_key: the API key that it is read with.
        span_processor: add it to the tracer provider that the system's spans go to.
        dir: a directory of this script's own, the same for every process of the script.
        agent: the agent's id and name.
        options: what a script asks for: see `OPTIONS`.
    """

    model_url: str
    model: Callable[[Mapping[str, Any]], dict[str, Any]] = field(repr=False)
    embed: Callable[[Sequence[str]], list[list[float]]] = field(repr=False)
    tool: Callable[[str], str] = field(repr=False)
    guard: Callable[[str, str], bool] = field(repr=False)
    after_run: Callable[[str], None] = field(repr=False)
    resolve: Callable[[Caller], object] = field(repr=False)
    clock: Callable[[], float] = field(repr=False)
    store_url: str
    dir: Path
    span_processor: SpanProcessor = field(repr=False)
    plane_url: str = ""
    plane_key: str = field(default="", repr=False)
    agent: str = "agent"
    answer_model: str = ANSWER_MODEL
    memory_model: str = MEMORY_MODEL
    embedding_model: str = EMBEDDING_MODEL
    options: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def collector_url(self) -> str:
        """Base URL of an OTLP/HTTP collector (``…/v1/traces`` follows): export to it as in production, flush on close."""
        return f"{self.model_url.rstrip('/').removesuffix('/v1')}/otlp"


DIMENSION: Final = 64

OPTIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "window": "messages of conversation kept verbatim (int)",
        "learn": "extract facts from each turn (bool; default: true where the system claims learn)",
        "summary": "keep a running summary (bool; default false)",
        "recall": "recall earlier messages by meaning (bool; default false)",
        "cap": "learned facts kept a user (int)",
        "max_users": "windows kept (int)",
        "redaction": "redact e-mail addresses on the way to the model (bool; default false)",
        "limit": "model calls a turn may make (int; default 3)",
        "project": "the project this process serves, where a system is opened for one (str)",
        "foreign_exporter": "the span processor stands for an application's own exporter: record no content (bool)",
        "store_timeout": "seconds that a turn may wait for the store (float; default: the system's own)",
        "plane_timeout": "seconds that a read of the plane may take (float; default: the system's own)",
        "missing_plane": "what happens while curated facts could never be read: nothing, say or raise (str)",
        "tracing": "record spans at all (bool; default true)",
    }
)
"""What ``Environment.options`` may hold. A system ignores an option that its capabilities do not cover."""

DECLARATIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "window": "messages of conversation that a prompt replays at most (int)",
        "cap": "learned facts kept a user (int)",
        "max_users": "windows kept (int)",
        "per_message": "facts learned from one message at most (int)",
        "confidence": "what a learned fact is filed with (float)",
        "deadline": "seconds in which a turn ends while the store fails, the model's time not counted (float)",
        "plane_timeout": "seconds that a read of the plane may take in all (float)",
        "plane_retry": "seconds that a plane which failed is left alone, unless it asks for others (float)",
        "plane_question_in_url": "the plane's protocol wants the user's question in the URL (bool)",
        "missing_plane_says": "what the prompt says while curated facts are missing, with options['missing_plane'] (str)",
        "prompt_order": "the kinds of what a prompt holds, in order (list), of system, agent-facts, plane-facts, "
        "user-facts, summary, recall, window, history, input",
    }
)
"""What a system's ``declares`` may hold. A rule marked *declared* is not exercised where its value is missing."""


@dataclass(frozen=True, slots=True)
class Capability:
    """One thing a system may claim: what the claim means, and the methods and other claims it needs."""

    meaning: str
    methods: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


CAPABILITIES: Final[Mapping[str, Capability]] = MappingProxyType(
    {
        "turns": Capability("the library itself owns the loop: turn(caller, text) -> Reply", ("turn",)),
        "ids": Capability("callers are told apart by `identity`"),
        "conv": Capability("earlier messages of the conversation are replayed verbatim in the next prompt"),
        "window": Capability("at most options['window'] messages are replayed (declares['window'])", needs=("conv",)),
        "stream": Capability("stream(caller, text) yields the answer's text in pieces", ("stream",)),
        "cancel": Capability("a running turn can be cancelled: `turn` is async def, or cancel(caller) exists"),
        "tools": Capability("the model may call `lookup`, and a turn has an iteration limit, options['limit']"),
        "guardrails": Capability("env.guard is asked about the input and about the answer, and can block either"),
        "after-run": Capability("env.after_run runs after the answer as part of the turn, and can fail it"),
        "resume": Capability("`transfer` pauses; resume(caller, token, approved) -> Reply goes on", ("resume",), ("tools",)),
        "resume-elsewhere": Capability("a paused run can be resumed in another process", needs=("resume", "shared")),
        "fork": Capability("fork(caller, token, approved) -> Reply: a second run from where a run paused", ("fork",), ("resume",)),
        "handoff": Capability(
            "handoff(caller, text) -> Reply: a first agent hands over to a second; handoff_call(text) is the tool call "
            "with which the model does it",
            ("handoff", "handoff_call"),
        ),
        "delegate": Capability(
            "delegate(caller, text) -> Reply: a supervisor delegates a task to a worker with a memory of its own; "
            "delegate_call(text) is the tool call with which the model does it",
            ("delegate", "delegate_call"),
        ),
        "facts": Capability("add(caller, text, scope='user') -> record id: durable facts that reach later prompts", ("add",)),
        "update": Capability("update(caller, record id, text) -> record id", ("update",), ("facts",)),
        "forget": Capability("forget(caller, record id | None) -> how many; None forgets all the caller's facts", ("forget",)),
        "list": Capability("facts(caller, limit=None, superseded=False) -> [Fact], newest first", ("facts",)),
        "record-ids": Capability("get(caller, record id) -> Fact | None; update and forget take record ids", ("get",), ("facts",)),
        "agent-facts": Capability("add(caller, text, scope='agent'): true for everyone using caller.agent", ("add",)),
        "agents": Capability("caller.agent chooses the agent; without it the system has the one agent env.agent"),
        "project": Capability("caller.project partitions everything"),
        "session": Capability("caller.session names a conversation of the user's"),
        "resolver": Capability("the user is read from the run's context through env.resolve(caller)", needs=("ids",)),
        "learn": Capability("facts are extracted during a turn; memory_step(call, facts) encodes the extractor's reply", ("memory_step",)),
        "learn-offline": Capability(
            "learn_offline(**options) -> int mines past turns; options: scope, caller, personal (bool), max_traces, dry_run",
            ("learn_offline", "memory_step"),
        ),
        "memory-tools": Capability("the model may call remember(text) and forget(text)", needs=("facts",)),
        "summary": Capability("options['summary'] keeps a running summary; memory_step encodes its reply too", ("memory_step",), ("conv",)),
        "recall": Capability("options['recall'] recalls earlier messages by meaning through env.embed"),
        "own-recall": Capability("recall is kept in a store of the user's own, in env.dir, and survives a restart", needs=("recall",)),
        "search": Capability("search(caller, query) -> [text], by meaning, best first", ("search",)),
        "save-load": Capability("save(caller, path) and load(caller, path) keep and restore the window", ("save", "load"), ("conv",)),
        "erase": Capability("erase(caller) removes everything kept of a user", ("erase",), ("ids",)),
        "redaction": Capability("options['redaction'] redacts e-mail addresses on the way to the model"),
        "reopen": Capability("a new process on the same store finds what the old one kept there"),
        "shared": Capability("several processes may use the same store at once", needs=("reopen",)),
        "plane": Capability("curated facts are read from env.plane_url"),
        "advance": Capability("env.clock is the clock that waits and retries go by"),
        "disposable": Capability("whatever store the system was given may be damaged by a test"),
        "own-spans": Capability("the system emits spans for its model calls to env.span_processor"),
        "memory-spans": Capability("the system emits a span for every memory read and write"),
    }
)  # fmt: skip
"""Every capability there is. A rule's needs are names of this table."""


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A model call as ``purpose`` and ``memory_step`` see it."""

    model: str
    messages: tuple[Any, ...]
    """`memtrace.model.Message` each, in order."""
    body: Mapping[str, Any]
    """The request body as it was sent."""


Factory = Callable[[Environment], Any]


def load_factory(name: str, known: Mapping[str, str] = MappingProxyType({})) -> Factory:
    """The factory that ``name`` stands for: a name in ``known``, or ``package.module:factory``.

    The module may be in the current directory, as it may for ``python -m``.

    Raises:
        UsageError: nothing of that name; the message names what would work.
    """
    path = known.get(name, name)
    module_name, colon, attribute = path.partition(":")
    if not colon or not module_name or not attribute:
        raise UsageError(
            f"memory {name!r} is unknown: give one of {', '.join(sorted(known)) or '(none)'}, or package.module:factory"
            + _near(path)
        )
    _see_here()
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        hint = "" if module_name.startswith(missing) else f" (it needs the package {missing!r}: pip install it)"
        raise UsageError(f"memory {name!r}: cannot import {module_name!r}: {error}{hint}") from error
    except (Exception, SystemExit) as error:
        raise UsageError(f"memory {name!r}: importing {module_name!r} raised {in_one_line(error)}") from error
    factory = getattr(module, attribute, None)
    if not callable(factory):
        raise UsageError(f"memory {name!r}: module {module_name!r} has no callable {attribute!r}")
    return factory  # type: ignore[no-any-return]


def imported_before_forks(factory: str) -> tuple[str, ...]:
    """The modules that a factory's own module, imported already, names as ``IMPORTED_BEFORE_FORKS``.

    Importing them opens nothing, begins nothing that a fork would lose, and asks nothing of the environment; so a
    second process can be forked from one that has them, and is as if it had imported them itself.
    """
    module = sys.modules.get(factory.partition(":")[0])
    return tuple(getattr(module, "IMPORTED_BEFORE_FORKS", ()))


def _see_here() -> None:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)


def _near(name: str) -> str:
    """What somebody meant who gave a module, or a file, and no factory."""
    _see_here()
    module = name.partition(":")[0].removesuffix(".py").replace("/", ".").strip(".")
    try:
        found = find_spec(module) if module else None
    except Exception:  # noqa: BLE001  a package above it is imported, and may raise anything
        found = None
    return f"; did you mean {module}:make, or what its factory is called?" if found else ""


def in_one_line(error: BaseException) -> str:
    """An exception's type and message, without line breaks."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def complaints(system: Any) -> list[str]:
    """What is wrong with a system's claims, one line each; empty when it can be judged."""
    try:
        claims = getattr(system, "capabilities", None)
    except Exception as error:  # noqa: BLE001  it may be a property, and raise anything
        return [f"reading its capabilities raised {in_one_line(error)}"]
    if not isinstance(claims, (set, frozenset)) or not all(isinstance(claim, str) for claim in claims):
        return [f"capabilities must be a set of names, not {type(claims).__name__}"]
    found = [
        f"capability {claim!r} does not exist; known: {', '.join(CAPABILITIES)}"
        for claim in sorted(claims - CAPABILITIES.keys())
    ]
    for claim in sorted(claims & CAPABILITIES.keys()):
        capability = CAPABILITIES[claim]
        found += [
            f"claims {claim!r} but has no method {m!r}"
            for m in capability.methods
            if not callable(getattr(system, m, None))
        ]
        found += [f"claims {claim!r}, which needs {need!r} too" for need in capability.needs if need not in claims]
    if "cancel" in claims and not (
        inspect.iscoroutinefunction(getattr(system, "turn", None)) or callable(getattr(system, "cancel", None))
    ):
        found.append("claims 'cancel' but turn is not async def and there is no method 'cancel'")
    if not callable(getattr(system, "close", None)):
        found.append("has no method 'close'")
    if "turns" not in claims and "facts" not in claims:
        found.append("claims neither 'turns' nor 'facts': there is nothing to drive")
    elif "turns" not in claims and claims.isdisjoint({"list", "search"}):
        found.append("claims no 'turns', and neither 'list' nor 'search': nothing it keeps can reach a prompt")
    return [*found, *_ill_shaped(system)]


def _ill_shaped(system: Any) -> Iterator[str]:
    """What is wrong with what it may say of itself besides."""
    identity, refusals = getattr(system, "identity", ("user",)), getattr(system, "refusals", ())
    known = {each.name for each in fields(Caller)}
    if not isinstance(identity, (tuple, list)) or not identity or not known.issuperset(identity):
        yield f"identity must be a tuple of names of Caller's fields, not {identity!r}"
    if not isinstance(refusals, (tuple, list)) or not all(
        isinstance(kind, type) and issubclass(kind, BaseException) for kind in refusals
    ):
        yield f"refusals must be a tuple of exception types, not {refusals!r}"
    for name in ("allowed", "declares"):
        if not isinstance(said := getattr(system, name, {}), Mapping):
            yield f"{name} must be a dict, not {type(said).__name__}"


def check_claims(system: Any) -> None:
    """Raise `AdapterError`, one line, where a system cannot be judged as it stands."""
    if found := complaints(system):
        raise AdapterError(f"{type(system).__name__}: " + "; ".join(found))
