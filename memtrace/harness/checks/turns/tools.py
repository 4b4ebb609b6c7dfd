"""What becomes of tool calls, of their results, and of what the model asks the memory tools to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from memtrace.harness.findings import Judgement, accuse, check, held, outline, untested
from memtrace.harness.record.history import Call, History, Turn
from memtrace.harness.seen.conversation import marks, own_input
from memtrace.harness.seen.sightings import TRAFFIC, UNKEPT, Sighting, remembered, sightings, unlearned_traffic
from memtrace.harness.system import FORGET_TOOL, REMEMBER_TOOL
from memtrace.model import Author, Message, Outcome


@check("turns.tool-traffic-never-a-fact")
def tool_traffic_never_a_fact(history: History) -> Judgement:
    """No word that only a tool call or its result held is in a fact or a recalled message."""
    for sighting in _traffic(history):
        if _in_block_or_read(sighting) and unlearned_traffic(history, sighting.word, sighting.at):
            return sighting.accuse(f"{sighting.word} was tool traffic, and yet it became memory")
    return _with_control(history, _in_block_or_read)


@check("turns.tool-traffic-not-replayed")
def tool_traffic_not_replayed(history: History) -> Judgement:
    """No word that only an earlier turn's tool call or result held is among the messages of a later prompt."""
    for sighting in _traffic(history):
        call = sighting.call
        if call is not None and call.purpose == "answer" and not _in_block(sighting):
            return sighting.accuse(f"{sighting.word} was tool traffic of an earlier turn, and yet it was sent again")
    return _with_control(history, lambda sighting: sighting.call is not None and not _in_block(sighting))


def _traffic(history: History) -> Iterator[Sighting]:
    """Sightings of words that were nothing but tool traffic of turns that ended well."""
    asked = remembered(history)
    for sighting in sightings(history):
        own_rules = any(turn.via in ("handoff", "delegate") for turn in sighting.said)
        kept_turn = any(turn.outcome not in UNKEPT for turn in sighting.said)
        if sighting.said and sighting.ways <= TRAFFIC and kept_turn and not own_rules and sighting.word not in asked:
            yield sighting


def _in_block(sighting: Sighting) -> bool:
    """Whether the word stands in messages of the system's only."""
    if sighting.call is None or sighting.call.purpose != "answer":
        return False
    holding = [m for m in sighting.call.prompt.messages if _says(m, sighting.word)]
    return bool(holding) and all(message.author is Author.SYSTEM for message in holding)


def _in_block_or_read(sighting: Sighting) -> bool:
    return _in_block(sighting) or (sighting.read is not None and sighting.read.op != "messages")


def _says(message: Message, word: str) -> bool:
    return word in "\n".join([message.text, *(call.arguments for call in message.tool_calls)]).lower()


def _with_control(history: History, where: Callable[[Sighting], bool]) -> Judgement:
    """Held, if a turn with tool traffic was remembered: what its user said was seen where its traffic must not be."""
    used = {turn.id for turn in history.turns.values() if turn.ok and any(call.tool_calls for call in turn.answers)}
    if not used:
        return untested("no turn that ended well used a tool")
    seen = any(
        "turn" in sighting.ways and any(turn.id in used for turn in sighting.said) and where(sighting)
        for sighting in sightings(history)
    )
    return held(when=seen, otherwise="what the user said in a turn with tools was not seen again either")


@check("turns.tool-pairs-intact")
def tool_pairs_intact(history: History) -> Judgement:
    """In every prompt each tool result follows its call, and each call is followed by its result."""
    seen = False
    for call in history.answers():
        if fault := _unpaired(call.prompt.messages):
            return accuse(call, f"the prompt of turn {call.turn} holds {fault}", outline(call))
        seen = seen or any(message.author is Author.TOOL for message in call.prompt.messages)
    return held() if seen else untested("no prompt held tool messages")


def _unpaired(messages: Sequence[Message]) -> str:
    waiting: list[str] = []
    for message in messages:
        if message.author is Author.TOOL:
            if message.tool_call_id not in waiting:
                return f"a tool result without its call ({message.tool_call_id or 'no id'})"
            waiting.remove(message.tool_call_id)
        elif waiting:
            break
        waiting += [tool_call.id for tool_call in message.tool_calls]
    return f"a tool call without its result ({waiting[0]})" if waiting else ""


@check("turns.queued-writes-wait")
def queued_writes_wait(history: History) -> Judgement:
    """What the model asks to remember or forget is done after its turn, before the next, and not if the turn failed."""
    asked = [request for turn in history.turns.values() for request in _requests(history, turn)]
    seen = False
    for request in asked:
        if early := _early(history, request):
            return accuse(early, f"{request} took effect while that turn still ran", outline(early))
        following = _next(history, request.turn)
        if following is None:
            continue
        if _in_memory(history, following, request.word) is not request.leaves:
            how = "had no effect" if request.turn.ok else "had an effect, although that turn did not end well"
            return accuse(following, f"{request} {how}", outline(following))
        seen = seen or (request.turn.ok and request.leaves)
    if not asked:
        return untested("the model asked the memory tools for nothing")
    return held(when=seen, otherwise="nothing that was remembered was seen again")


@dataclass(frozen=True, slots=True)
class _Request:
    """What the model asked of a memory tool."""

    turn: Turn
    call: Call
    tool: str
    word: str

    @property
    def leaves(self) -> bool:
        """Whether the word is to be in memory afterwards."""
        return (self.tool == REMEMBER_TOOL) is self.turn.ok

    def __str__(self) -> str:
        return f"{self.tool} of {self.word}, asked for in turn {self.turn},"


def _requests(history: History, turn: Turn) -> Iterator[_Request]:
    for call in turn.answers if turn.ok or turn.outcome in UNKEPT - {Outcome.PAUSED} else ():
        for tool_call in call.tool_calls:
            for word in marks(tool_call.arguments):
                known = _in_memory(history, call, word)
                if tool_call.name == (FORGET_TOOL if known else REMEMBER_TOOL):
                    yield _Request(turn, call, tool_call.name, word)


def _early(history: History, request: _Request) -> Call | None:
    """A prompt that shows the effect before the turn has ended."""
    turn, before = request.turn, request.tool == FORGET_TOOL
    meanwhile = (call for call in history.answers() if request.call.replied_at < call.at < turn.ended)
    mine = (call for call in meanwhile if call.turn is not None and history.same(call.turn.caller, turn.caller))
    return next((call for call in mine if _in_memory(history, call, request.word) is not before), None)


def _next(history: History, turn: Turn) -> Call | None:
    """The first prompt of the same caller's next turn."""
    later = (other for other in history.turns.values() if other.started > turn.ended and other.answers)
    return next((other.answers[0] for other in later if history.same(other.caller, turn.caller)), None)


def _in_memory(history: History, call: Call, word: str) -> bool:
    """Whether a prompt holds the word, apart from what is said in its own turn."""
    messages, own = call.prompt.messages, own_input(history, call)
    blocks = [message for message in messages if message.author is Author.SYSTEM]
    return any(word in message.text.lower() for message in [*messages[: own or 0], *blocks])
