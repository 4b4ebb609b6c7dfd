"""What the calls of a wrapped function say: their arguments open a span, their result is told to it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from memtrace.capture import safely, text_of
from memtrace.errors import UsageError
from memtrace.model import Level, Record, Reply, Scope, ToolCall
from memtrace.operation import Operation
from memtrace.spans import STORE_OPERATIONS, ModelSpan, ReadSpan, TurnSpan, WriteSpan
from memtrace.tracing import Tracing

OPERATIONS: Final = (*STORE_OPERATIONS, "model_call", "tool", "turn")
USUAL_NAMES: Final = {
    "query": ("query", "question", "text", "input"),
    "user": ("user_id", "user"),
    "session": ("session_id", "session", "thread_id"),
    "messages": ("messages", "input", "prompt"),
    "system": ("system", "instructions"),
    "model": ("model",),
}
"""What a parameter is called that holds what a span says, where its name is not told."""

_READS: Final = frozenset({"read", "retrieve"})
_LISTS: Final = ("results", "memories", "facts", "records")
_NOTHING: Final = Operation(None)

Arguments = tuple[tuple[Any, ...], Mapping[str, Any]]


class Call:
    """One wrapped function: how the spans of its calls are opened, and what they are told."""

    __slots__ = ("_name", "_operation", "_pick", "_tracing")

    def __init__(
        self,
        function: Callable[..., Any],
        operation: str,
        *,
        tracing: Tracing,
        name: str,
        parameters: Mapping[str, str],
    ) -> None:
        if operation not in OPERATIONS:
            raise UsageError(f"{operation!r} is not an operation; it is one of {', '.join(OPERATIONS)}")
        self._operation, self._tracing = operation, tracing
        self._name = name or ("" if operation == "model_call" else getattr(function, "__name__", operation))
        self._pick = {role: _picker(function, role, parameters.get(role, "")) for role in USUAL_NAMES}

    @property
    def idle(self) -> bool:
        """Whether there is nowhere to record anything."""
        return self._tracing.outlet() is None

    def open(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Operation:
        """The span of a call with these arguments, to be entered."""
        return safely(self._open, (args, kwargs)) or _NOTHING

    def tell(self, span: Operation, result: object) -> None:
        """Tell the span what the call returned."""
        if span.recording:
            safely(_tell, span, result)

    def tell_pieces(self, span: Operation, pieces: Sequence[object]) -> None:
        """Tell the span what the call gave piece by piece."""
        if span.recording and isinstance(span, ModelSpan):
            safely(_replied, span, pieces)
        elif span.recording:
            safely(_tell, span, pieces)

    def _open(self, arguments: Arguments) -> Operation:
        tracing, pick = self._tracing, self._pick
        if self._operation == "turn":
            user, session = _id(pick["user"](arguments)), _id(pick["session"](arguments))
            return tracing.turn(self._name, user=user, session=session)
        if self._operation == "tool":
            return tracing.tool(self._name)
        if self._operation == "model_call":
            model = pick["model"](arguments)
            name = model if isinstance(model, str) and model else self._name
            return tracing.model_call(name, pick["messages"](arguments), system=pick["system"](arguments))
        user = _id(pick["user"](arguments))
        scope = Scope(Level.USER, user) if user else None
        if self._operation in _READS:
            return tracing.read(pick["query"](arguments), operation=self._operation, scope=scope)
        return tracing.write(operation=self._operation, scope=scope)


def _picker(function: Callable[..., Any], role: str, told: str) -> Callable[[Arguments], Any]:
    """Finds an argument by its parameter's name without binding the whole call; ``None`` where there is none."""
    parameters, is_open = _parameters(function)
    if told and told not in parameters and not is_open:
        raise UsageError(f"{role}={told!r}: {getattr(function, '__qualname__', function)} has no such parameter")
    names = [name for name in ((told,) if told else USUAL_NAMES[role]) if is_open or name in parameters]
    places = {
        name: place for place, name in enumerate(n for n, p in parameters.items() if p.kind is not p.KEYWORD_ONLY)
    }
    candidates = [(name, places.get(name, len(parameters) + 1)) for name in names]
    defaults = [parameters[name].default for name in names if name in parameters]
    default = next((value for value in defaults if isinstance(value, str)), None)

    def pick(arguments: Arguments) -> Any:
        args, kwargs = arguments
        for name, place in candidates:
            if name in kwargs:
                return kwargs[name]
            if place < len(args):
                return args[place]
        return default

    return pick


def _parameters(function: Callable[..., Any]) -> tuple[Mapping[str, inspect.Parameter], bool]:
    """The named parameters, and whether any other name may be given."""
    try:
        all_of_them = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return {}, True
    named = {p.name: p for p in all_of_them if p.kind not in {p.VAR_KEYWORD, p.VAR_POSITIONAL}}
    return named, any(p.kind is p.VAR_KEYWORD for p in all_of_them)


def _id(value: object) -> str:
    """Text and numbers are ids. What anything else prints as may be someone else's too."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else ""


def _tell(span: Operation, result: object) -> None:
    if isinstance(span, ReadSpan):
        items = _items(result)
        if items is not None:
            span.rendered(items)
    elif isinstance(span, WriteSpan):
        records = [item for item in _items(result) or () if isinstance(item, Record)]
        if records:
            span.stored(len(records), records=records)
    elif isinstance(span, ModelSpan) and result is not None:
        _replied(span, [result])
    elif isinstance(span, TurnSpan) and isinstance(result, Reply):
        span.outcome(result.outcome)


def _items(result: object) -> Sequence[object] | None:
    """The list in what a memory returned; ``None`` where there is none to be seen."""
    if isinstance(result, (str, Record)):
        return [result] if result else []
    if isinstance(result, Mapping):
        return next((found for name in _LISTS if (found := _items(result.get(name))) is not None), None)
    return result if isinstance(result, Sequence) else [] if result is None else None


def _replied(span: ModelSpan, pieces: Sequence[object]) -> None:
    answers = [answer for piece in pieces if (answer := _answer(piece)) is not None]
    if not answers:
        return
    calls = [call for answer in answers for call in _get(answer, "tool_calls") or () if _get(call, "id")]
    usage = next((found for piece in reversed(pieces) if (found := _get(piece, "usage"))), None)
    span.replied(
        "".join(map(_text, answers)),
        tool_calls=[_tool_call(call) for call in calls],
        finish=next((reason for piece in reversed(pieces) if (reason := _finish(piece))), ""),
        input_tokens=_get(usage, "prompt_tokens", "input_tokens"),
        output_tokens=_get(usage, "completion_tokens", "output_tokens"),
    )


def _answer(piece: object) -> object | None:
    """The message in a chat completion or in a chunk of one, in what other APIs return, or the text itself."""
    choices = _get(piece, "choices")
    if choices is not None:
        return _get(choices[0], "message", "delta") if choices else None
    answer = _get(piece, "output_text", "message") or piece
    return answer if isinstance(answer, str) or _get(answer, "content", "text") is not None else None


def _finish(piece: object) -> Any:
    choices = _get(piece, "choices")
    return _get(choices[0], "finish_reason") if choices else _get(piece, "stop_reason")


def _text(answer: object) -> str:
    content = _get(answer, "content")
    if isinstance(content, Sequence) and not isinstance(content, str):
        return "".join(map(text_of, content))
    return text_of(answer)


def _tool_call(call: object) -> ToolCall:
    function = _get(call, "function")
    return ToolCall(_get(call, "id"), _get(function, "name") or "", _get(function, "arguments") or "")


def _get(thing: object, *names: str) -> Any:
    """The first of these fields, of an object or a mapping, that is there."""
    for name in names:
        value = thing.get(name) if isinstance(thing, Mapping) else getattr(thing, name, None)
        if value is not None:
            return value
    return None
