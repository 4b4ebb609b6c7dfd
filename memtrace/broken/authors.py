"""Memories that do not keep apart who said what."""

from __future__ import annotations

import threading
from contextvars import copy_context
from dataclasses import replace
from typing import Any

from memtrace.broken import broken, lawful
from memtrace.broken.tiny import Key, Row, TinyMemory
from memtrace.broken.tiny_offline import TinyOffline
from memtrace.harness.system import Environment
from memtrace.model import Caller


@broken("authors.reply-never-a-fact", report="https://github.com/mem0ai/mem0/issues/5642")
class LearnsFromBoth(TinyMemory):
    """Shows the extractor both sides of the turn, without saying whose is whose."""

    def learn(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        self.keep(key, self.extracted(f"{text}\n{answer}"))


@broken("authors.tool-output-never-a-fact", report="https://github.com/CortexReach/memory-lancedb-pro/issues/912")
class LearnsFromTools(TinyMemory):
    """Takes a tool's result for something the user said."""

    def ask(self, messages: list[dict[str, Any]]) -> Any:
        self.results = [str(message["content"]) for message in messages if message["role"] == "tool"]
        return super().ask(messages)

    def learn(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        self.keep(key, self.extracted("\n".join([text, *self.results])))


@broken("authors.no-relearning", report="https://github.com/mem0ai/mem0/issues/4573")
class LearnsFromItself(TinyMemory):
    """Shows the extractor the memory block that it had put into the prompt itself."""

    def learn(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        blocks = [message["content"] for message in self.prompt(caller, key, text) if message["role"] == "system"]
        self.keep(key, self.extracted("\n".join([*blocks, text])))


@broken("authors.learned-is-marked")
class TrustsWhatItLearned(TinyMemory):
    """Files what a machine extracted with the confidence of what a person wrote."""

    def put(self, key: Key, text: str, *, source: str = "", confidence: float = 1.0) -> str:
        return super().put(key, text, source=source, confidence=1.0)


@broken("authors.few-per-message")
class OneTooMany(TinyMemory):
    """Stops after the eleventh fact of a message, not after the tenth."""

    def extracted(self, shown: str) -> list[str]:
        return self.offered(shown)[:11]


@broken("authors.cap-spares-persisted")
class PrunesByAge(TinyMemory):
    """The cap removes the oldest facts, whoever wrote them."""

    def keep(self, key: Key, facts: list[str]) -> None:
        for fact in facts:
            self.put(key, fact, source="learned", confidence=0.6)
        gone = {row.id for row in self.rows_of(key)[self.option("cap", 200) :]}
        self.change(lambda rows: [row for row in rows if row.id not in gone])


@broken("authors.persisted-stays-in-prompt")
class ShowsTheNewest(TinyMemory):
    """The prompt has room for fifty facts, and shows the newest fifty."""

    def facts_shown(self, key: Key) -> list[str]:
        return [row.text for row in self.rows_of(key)][:50]


@broken("authors.once-in-prompt", report="https://github.com/NousResearch/hermes-agent/issues/88471")
class SaysItTwice(TinyMemory):
    """Knows the agent's facts from the user's, and shows one that is both under both headings."""

    def prompt(self, caller: Caller, key: Key | None, text: str) -> list[dict[str, Any]]:
        first, *rest = super().prompt(caller, key, text)
        agents = [m for m in rest if m["content"].startswith("Facts of the agent:")]
        users = self.block("Facts of the user:", self.facts_shown(key)) if key else []
        return [first, *agents, *users, *(m for m in rest if not m["content"].startswith("Facts of the"))]


@broken("authors.text-stays-data", report="https://github.com/crewAIInc/crewAI/issues/5057")
class TrustsText(TinyMemory):
    """Puts a fact into its block as it stands, line breaks and all."""

    def line(self, text: str) -> str:
        return text


@broken("authors.update-supersedes")
class NeverTwice(TinyMemory):
    """Back to a text it had before, it finds the old row, which stays superseded."""

    def update(self, caller: Caller, record: str, text: str) -> str:
        key = self.own(caller)
        old = next((row for row in self.rows() if row.key == key and row.text == text and row.superseded_by), None)
        if old is None:
            return super().update(caller, record, text)
        self.change(lambda rows: [self.superseded(row, record, old.id) for row in rows])
        return old.id

    def superseded(self, row: Row, record: str, by: str) -> Row:
        return replace(row, superseded_by=by) if row.id == record else row


@broken("authors.restated-is-relearned")
class ThinksItKnows(TinyMemory):
    """Remembers in the process what it has learned, and does not store it again; forgetting does not tell it."""

    def __init__(self, env: Environment) -> None:
        super().__init__(env)
        self.known: set[tuple[Key, str]] = set()

    def keep(self, key: Key, facts: list[str]) -> None:
        super().keep(key, [fact for fact in facts if (key, fact) not in self.known])
        self.known.update((key, fact) for fact in facts)


@broken("authors.offline-mines-users-only")
class TellsEverybody(TinyOffline):
    """Whatever one user said becomes a fact of the agent's, for everybody."""

    least_users = 1


@broken("authors.offline-mines-users-only")
class MinesItsOwnAnswers(TinyOffline):
    """Mines whole turns: the model's answers are read along with the user's words."""

    def logged(self, key: Key, text: str, answer: str) -> tuple[Key, str]:
        return key, f"{text}\n{answer}"


@lawful("a line that memory indents is no line of memory's own", rules=("authors.text-stays-data",))
class IndentsLines(TinyMemory):
    """Shows a fact of several lines as several lines, all but the first indented."""

    def line(self, text: str) -> str:
        return "\n    ".join(text.splitlines())


@lawful(
    "what is learned after the turn has ended is learned all the same, once it has settled",
    rules=("authors.learned-is-marked", "authors.reply-never-a-fact", "authors.restated-is-relearned"),
)
class LearnsLater(TinyMemory):
    """Extracts in the background."""

    def __init__(self, env: Environment) -> None:
        super().__init__(env)
        self.work: list[threading.Thread] = []

    def learn(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        learn, context = super().learn, copy_context()
        self.work.append(threading.Thread(target=context.run, args=(learn, caller, key, text, answer)))
        self.work[-1].start()

    def settle(self) -> None:
        while self.work:
            self.work.pop().join()
