"""The scripted model: what it answers in which turn, and the witness of what it was sent.

The answer model takes its steps from the script of the turn a request belongs to, then says ``Noted.``. The memory
model (extraction, summary) is *greedy*: it keeps every utterance it is shown, whoever made it. The harness knows every
utterance and finds them in the memory prompt, so the adapter only encodes the reply its library expects.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from memtrace.harness.record.attribution import TURN, current_span
from memtrace.harness.record.events import Exported, ModelCalled, ModelReplied
from memtrace.harness.record.recorder import Recorder
from memtrace.harness.running import embedding
from memtrace.harness.running.callbacks import Callbacks
from memtrace.harness.running.holds import Holds
from memtrace.harness.scripted_model.openai_api import Step, chat_response, parse_chat
from memtrace.harness.scripted_model.upstream import Upstream
from memtrace.harness.system import EMBEDDING_MODEL, MEMORY_MODEL, TOOL, ModelRequest
from memtrace.model import Author, Message, Prompt, ToolCall

_EMAIL = re.compile(r"[\w.+-]+@[\w-]+\.[\w.]*\w")

Extract = Callable[[ModelRequest, list[str]], "list[str] | str"]
"""What the memory model keeps, given its request and the utterances found in it; a string is its raw reply."""


class ScriptedFailure(Exception):
    """The script makes this model call fail with an HTTP status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"the scripted model answered {status}")
        self.status = status


def use_tool(query: str, *, name: str = TOOL, say: str = "") -> Step:
    """A step in which the model calls a tool, perhaps saying something first."""
    return call_tool(name, {"query": query}, say=say)


def call_tool(name: str, arguments: Mapping[str, Any], *, say: str = "") -> Step:
    """A step in which the model calls any tool with any arguments."""
    number = next(_CALL_NUMBERS)
    return Step(text=say, calls=(ToolCall(f"call_{number}", name, json.dumps(dict(arguments))),))


def fails(status: int = 500) -> Step:
    """A step in which the model call fails."""
    return Step(status=status)


_CALL_NUMBERS = itertools.count(1)


_LONGEST: Final = 100_000
"""Characters of an utterance that is looked for in prompts."""


class ScriptedModel:
    """One script's model: the server's `memtrace.harness.scripted_model.calls.Script`, and what an `Environment` has.

    ``in_process`` and ``embed_in_process`` are the latter: the same model and embedder without a wire.
    """

    def __init__(
        self, recorder: Recorder, holds: Holds, callbacks: Callbacks, upstream: Upstream | None = None
    ) -> None:
        self._upstream = upstream
        self._recorder = recorder
        self._holds = holds
        self._callbacks = callbacks
        self._steps: dict[str, deque[Step]] = defaultdict(deque)
        self._utterances: dict[str, re.Pattern[str]] = {}
        self._extractions: deque[Extract | Step] = deque()
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self.purpose: Callable[[ModelRequest], str] = lambda request: (
            "memory" if request.model == MEMORY_MODEL else "answer"
        )
        self.encode: Callable[[ModelRequest, list[str]], str] = lambda _request, facts: json.dumps(facts)

    # What the script sets up

    def script(self, turn: str, steps: Iterable[str | Step]) -> None:
        """The answers of one turn, in order; a string is said."""
        for step in steps:
            plan = Step(text=step) if isinstance(step, str) else step
            self._steps[turn].append(plan)
            self.heard(plan.text, *(text for call in plan.calls for text in _texts(call)))

    def heard(self, *texts: str) -> None:
        """Utterances that a greedy memory model keeps when it is shown them."""
        for text in texts:
            if text.strip() and len(text) <= _LONGEST and text not in self._utterances:
                self._utterances[text] = _pattern(text)

    def extract_next(self, *keeps: Extract | Step) -> None:
        """What the memory model does at its next calls, instead of keeping everything."""
        self._extractions.extend(keeps)

    # What the server and the environment ask

    def exported(self, signal: str, body: bytes) -> None:
        """Telemetry came, as to a collector."""
        self._recorder.add(Exported, signal=signal, body=base64.b64encode(body).decode())

    def complete(
        self,
        request: ModelRequest,
        *,
        turn: str,
        span: str,
        api: str,  # noqa: ARG002  what the request came over does not matter to the answer
        streamed: bool,
        wire: bool,
    ) -> Step:
        """Record the request, wait where held, answer as scripted."""
        owner, attribution = self._recorder.attribute(turn)
        purpose = self.purpose(request)
        call = self._record(owner, attribution, purpose, request, span, wire=wire, streamed=streamed)
        self._holds.pass_by("model" if purpose == "answer" else "memory", owner)
        step = self._answer(owner, request) if purpose == "answer" else self._remember(request)
        self._recorder.add(ModelReplied, call=call, text=step.text, tool_calls=step.calls, status=step.status)
        return step

    def embed(self, texts: Sequence[str], *, turn: str, span: str, wire: bool) -> list[list[float]]:
        """Record the texts, wait where held, embed them."""
        owner, attribution = self._recorder.attribute(turn)
        request = ModelRequest(EMBEDDING_MODEL, tuple(Message(Author.USER, text) for text in texts), {})
        call = self._record(owner, attribution, "embedding", request, span, wire=wire, streamed=False)
        self._holds.pass_by("embed", owner)
        vectors = embedding.embed(texts)
        self._recorder.add(ModelReplied, call=call)
        return vectors

    def callback(self, name: str, payload: Any, *, turn: str) -> Any:
        """A callback asked for by another process."""
        return self._callbacks.call(name, payload, turn)

    def in_process(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The model without a wire: a chat-completions body to a response body."""
        request = parse_chat(dict(body))
        step = self.complete(request, turn=TURN.get(), span=current_span(), api="chat", streamed=False, wire=False)
        if step.status != 200:
            raise ScriptedFailure(step.status)
        return chat_response(request, step)

    def embed_in_process(self, texts: Sequence[str]) -> list[list[float]]:
        """The embedder without a wire."""
        return self.embed(list(texts), turn=TURN.get(), span=current_span(), wire=False)

    def _record(
        self, turn: str, attribution: str, purpose: str, request: ModelRequest, span: str, *, wire: bool, streamed: bool
    ) -> str:
        call = f"call{next(self._numbers)}"
        self._recorder.add(
            ModelCalled, call=call, turn=turn, attribution=attribution, purpose=purpose, model=request.model,
            prompt=Prompt(request.messages), span=span, wire=wire, streamed=streamed,
        )  # fmt: skip
        return call

    def _answer(self, turn: str, request: ModelRequest) -> Step:
        with self._lock:
            steps = self._steps.get(turn)
            step = steps.popleft() if steps else Step(text="Noted.")
        return step if self._upstream is None or not _plain(step) else self._upstream.answer(request)

    def _remember(self, request: ModelRequest) -> Step:
        with self._lock:
            extract = self._extractions.popleft() if self._extractions else None
        if isinstance(extract, Step):
            return extract
        if self._upstream is not None and extract is None:
            return self._upstream.answer(request)
        shown = self._shown(request)
        kept = shown if extract is None else extract(request, shown)
        return Step(text=kept if isinstance(kept, str) else self.encode(request, kept))

    def _shown(self, request: ModelRequest) -> list[str]:
        """The utterances in a memory prompt, as they stand in it, in order."""
        text = "\n".join(message.text for message in request.messages)
        found = [
            (match.start(), match.group()) for pattern in self._utterances.values() if (match := pattern.search(text))
        ]
        return [utterance for _, utterance in sorted(found)]


def _plain(step: Step) -> bool:
    """An answer that anybody could give: no tool call, no failure."""
    return step.status == 200 and not step.calls and step.break_after is None


def _texts(call: ToolCall) -> list[str]:
    """The texts that a model wrote into a tool call."""
    return [value for value in json.loads(call.arguments).values() if isinstance(value, str)]


def _pattern(text: str) -> re.Pattern[str]:
    """Finds an utterance in a prompt, also where e-mail addresses were redacted or the text was JSON-quoted."""
    forms = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    return re.compile(
        "|".join(r"\S{1,60}".join(map(re.escape, _EMAIL.split(form))) for form in sorted(forms, key=len, reverse=True))
    )
