"""What redaction may change: what leaves the process, not what is kept."""

from __future__ import annotations

from memtrace.harness.findings import Judgement, accuse, check, clipped, held, shown, untested, violated
from memtrace.harness.record.events import FactsRead
from memtrace.harness.record.history import Call, History, canaries_in
from memtrace.harness.seen.conversation import EMAIL, conversations, exchange, replays
from memtrace.model import Author, Evidence, Message


@check("turns.redaction-is-for-the-model")
def redaction_is_for_the_model(history: History) -> Judgement:
    """No request holds an e-mail address that somebody said; what the user said is kept with it."""
    secrets = _secrets(history)
    calls = [call for call in history.all_calls if _on(history, call.at)]
    if not calls or not secrets:
        return untested("redaction was not on, or nobody said an e-mail address")
    for call in calls:
        if leaked := next((word for word in secrets if word in call.prompt.text.lower()), None):
            reason = f"an e-mail address left the process in a request to the {_receiver(call)}"
            return accuse(call, reason, shown(call, leaked))
    control = _sent(history, calls, secrets)
    return _altered(history, secrets) or held(
        when=control, otherwise="no request held the rest of what was said with an e-mail address"
    )


def _receiver(call: Call) -> str:
    return {"answer": "model", "memory": "memory model"}.get(call.purpose, "embedder")


def _on(history: History, at: int) -> bool:
    opening = history.opening(at)
    return opening is not None and bool(opening.options.get("redaction"))


def _secrets(history: History) -> set[str]:
    """The planted words that were said as part of an e-mail address, and never otherwise."""
    inside: set[str] = set()
    outside: set[str] = set()
    for source, text in history.spoken():
        if source.way != "call":  # the model wrote it itself
            inside.update(word for address in EMAIL.findall(text) for word in canaries_in(address))
        outside.update(canaries_in(EMAIL.sub(" ", text)))
    return inside - outside


def _sent(history: History, calls: list[Call], secrets: set[str]) -> bool:
    """Whether a text with an e-mail address reached the model, but for the address."""
    texts = [text for _, text in history.spoken() if secrets.intersection(canaries_in(text))]
    words = {word for text in texts for word in canaries_in(text)} - secrets
    return any(word in call.prompt.text.lower() for call in calls for word in words)


def _altered(history: History, secrets: set[str]) -> Judgement | None:
    """A stored text that is not as it should be: the user's without the address, the model's with it."""
    for conversation in conversations(history):
        for view in (view for view in conversation.views if view.call is None):
            for turn in (turn for turn in conversation.before(view) if turn.ok):
                said = exchange(history, turn)
                if any(_lacks(message, said.question, secrets) for message in view.messages):
                    return view.accuse(f"what the user said in turn {turn} is kept redacted")
                if any(_has(message, said.answer, secrets) for message in view.messages):
                    return view.accuse(f"the answer of turn {turn} is kept as it was before redaction")
    return _altered_fact(history, secrets)


def _lacks(message: Message, question: str, secrets: set[str]) -> bool:
    """Whether a message is the user's question without its address."""
    if message.author is not Author.USER or not replays(message.text, question):
        return False
    return not secrets.intersection(canaries_in(question)) <= set(canaries_in(message.text))


def _has(message: Message, answer: str, secrets: set[str]) -> bool:
    """Whether a message is the model's answer with its address."""
    if message.author is not Author.ASSISTANT or not replays(message.text, answer):
        return False
    return not secrets.isdisjoint(canaries_in(message.text))


def _altered_fact(history: History, secrets: set[str]) -> Judgement | None:
    """A fact that was written with an address, and that a listing shows without it only."""
    written = [text for source, text in history.spoken() if source.way == "fact"]
    for read in (read for read in history.of(FactsRead) if read.op == "facts"):
        for fact in written:
            address = secrets.intersection(canaries_in(fact))
            listed = [text for text in read.texts if replays(text, fact)]
            if listed and not any(address <= set(canaries_in(text)) for text in listed):
                reason = "a fact that was written with an e-mail address is kept redacted"
                return violated(reason, Evidence("what facts gave", clipped(listed[0])))
    return None
