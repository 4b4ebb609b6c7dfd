"""What stands in a prompt, and in which order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from memtrace.harness.findings import Judgement, accuse, check, held, outline, shown, untested
from memtrace.harness.record.history import Call, History, Source, canaries_in
from memtrace.harness.seen.conversation import exchange, led_to, marks, own_input, question, replays
from memtrace.model import Author, Message

_LEARNED: Final = {"learn": "user-facts", "summary": "summary", "recall": "recall"}
"""What a system message may be that holds words of an earlier turn, by the option that turns it on."""


@dataclass(frozen=True, slots=True)
class _Placed:
    """A word in a prompt: where it stands, and what it may be there, as ranks in the declared order."""

    place: tuple[int, int]
    ranks: frozenset[int]
    kinds: frozenset[str]
    word: str


@check("turns.prompt-order")
def prompt_order(history: History) -> Judgement:
    """What is known to be memory of one kind stands where the declared order has that kind."""
    if not any(history.declared("prompt_order", call.at) for call in _firsts(history)):
        return untested("the system declares no order")
    seen = False
    for call in _firsts(history):
        placed = sorted(_placed(history, call), key=lambda item: item.place)
        for one, other in combinations(placed, 2):
            if min(one.ranks) > max(other.ranks):
                return _out_of_order(history, call, one, other)
        seen = seen or len({item.kinds for item in placed if item.kinds != {"input"}}) > 1
    return held(when=seen, otherwise="no prompt held memory of two kinds")


def _out_of_order(history: History, call: Call, one: _Placed, other: _Placed) -> Judgement:
    order = ", ".join(history.declared("prompt_order", call.at))
    reason = f"{_named(one)} stands before {_named(other)}; the declared order is {order}"
    return accuse(call, reason, outline(call))


def _named(item: _Placed) -> str:
    return f"{item.word or 'a message'} ({' or '.join(sorted(item.kinds))})"


def _placed(history: History, call: Call) -> Iterator[_Placed]:
    order = [_name(kind) for kind in history.declared("prompt_order", call.at) or ()]
    fixed, twice = _system_prompt(history, call), _in_two_blocks(call)
    for number, message in enumerate(call.prompt.messages):
        found = [("", frozenset({"system"}))] if number == fixed else _kinds_in(history, call, message, twice)
        for word, kinds in found:
            if kinds and kinds.issubset(order):
                offset = message.text.lower().find(word)
                yield _Placed((number, offset), frozenset(map(order.index, kinds)), kinds, word)


def _name(kind: str) -> str:
    return kind.replace(" ", "-").replace("_", "-")


def _system_prompt(history: History, call: Call) -> int | None:
    """The place of the system message that began the first prompt of all, where every prompt since has it."""
    prompts = [other.prompt.messages for other in _firsts(history)]
    if len(prompts) < 2 or not prompts[0]:
        return None
    first = prompts[0][0]
    constant = first.author is Author.SYSTEM and all(first in messages for messages in prompts)
    return call.prompt.messages.index(first) if constant and not canaries_in(first.text) else None


def _in_two_blocks(call: Call) -> set[str]:
    """The words that several system messages hold: one of them is a copy, and which one cannot be told."""
    blocks = [set(canaries_in(m.text)) for m in call.prompt.messages if m.author is Author.SYSTEM]
    return {word for one, other in combinations(blocks, 2) for word in one & other}


def _kinds_in(history: History, call: Call, message: Message, twice: set[str]) -> list[tuple[str, frozenset[str]]]:
    known = set(canaries_in(message.text)) - (twice if message.author is Author.SYSTEM else set())
    return [(word, _kinds(history, call, message, word)) for word in sorted(known)]


def _kinds(history: History, call: Call, message: Message, word: str) -> frozenset[str]:
    """What a word may be where it stands; nothing where that cannot be told."""
    sources = [source for source in history.sources(word) if source.at < call.at]
    if call.turn is None or not sources or any(source.way == "system" for source in sources):
        return frozenset()
    own = set(led_to(history, call.turn))
    if any(source.turn in own for source in sources):
        mine = all(source.turn in own for source in sources) and message.author is Author.USER
        kept = {"window"} if _kept_already(history, call, own) else set()
        return frozenset({"input"} | kept) if mine else frozenset()
    on = _switched_on(history, call.at)
    if message.author is not Author.SYSTEM:
        again = any(_replayed(history, source, message) for source in sources)
        return frozenset({"window", *({"recall"} & on)}) if again else frozenset()
    kinds = [_block(source, on if _speaks(history, call) else on | {"window"}) for source in sources]
    return frozenset().union(*kinds) if all(kinds) else frozenset()


def _kept_already(history: History, call: Call, own: set[str]) -> bool:
    """Whether another run that went on with the same paused one has ended well, and so kept the same question."""
    others = (turn for turn in history.turns.values() if turn.id not in own and turn.ok and turn.ended < call.at)
    return any(not own.isdisjoint(led_to(history, turn)) for turn in others)


def _block(source: Source, on: frozenset[str]) -> frozenset[str]:
    """What a system message may be that holds words from there."""
    match source.way, source.shared:
        case "fact", "agent":
            return frozenset({"agent-facts"})
        case "fact", "":
            return frozenset({"user-facts"})
        case "plane", _:
            return frozenset({"plane-facts"})
        case (("turn" | "reply"), _):
            return on
    return frozenset()


def _speaks(history: History, call: Call) -> bool:
    """Whether a conversation, if there is one, is replayed as messages, and not told in a block."""
    earlier = call.prompt.messages[: own_input(history, call)]
    return not history.can("conv") or any(message.author is Author.ASSISTANT for message in earlier)


def _switched_on(history: History, at: int) -> frozenset[str]:
    opening = history.opening(at)
    defaults = {"learn": True}
    return frozenset(
        kind
        for claim, kind in _LEARNED.items()
        if opening is not None and claim in opening.capabilities and opening.options.get(claim, defaults.get(claim))
    )


def _replayed(history: History, source: Source, message: Message) -> bool:
    if source.turn not in history.turns:
        return False
    kept = exchange(history, history.turns[source.turn])
    return replays(message.text, kept.question) or replays(message.text, kept.answer)


@check("turns.prompt-holds-its-input")
def prompt_holds_its_input(history: History) -> Judgement:
    """What a turn was asked stands in its prompt, as the last thing the user says."""
    calls = _firsts(history)
    for call in calls:
        if call.turn is not None and not _asked(history, call):
            asked = question(history, call.turn)
            reason = f"the prompt of turn {call.turn} does not end with what it was asked"
            known = next((word for word in marks(asked) if word in call.prompt.text.lower()), "")
            return accuse(call, reason, shown(call, known) if known else outline(call))
    return held(when=calls, otherwise="no turn called the model") if history.turns else untested("no turn was run")


def _asked(history: History, call: Call) -> bool:
    """Whether the question stands after the last answer of an earlier turn."""
    messages, place = call.prompt.messages, own_input(history, call)
    if place is None:
        return False
    last_said = [n for n, m in enumerate(messages) if m.author is Author.ASSISTANT and not m.tool_calls]
    return not last_said or place > last_said[-1]


def _firsts(history: History) -> tuple[Call, ...]:
    """The first answer prompt of each turn."""
    return tuple(turn.answers[0] for turn in history.turns.values() if turn.answers)
