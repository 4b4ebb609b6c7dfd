"""Memories that go wrong between one turn and the next: in what they send, and in what they keep."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from memtrace.broken import broken
from memtrace.broken.tiny import Blocked, Key, Limit, Paused, TinyMemory
from memtrace.broken.tiny_recall import Recalled, TinyRecall, by_distance
from memtrace.broken.tiny_traffic import TinyTraffic
from memtrace.model import Caller, Outcome, Reply

Messages = list[dict[str, Any]]


# What is sent


@broken("turns.prompt-order", report="https://github.com/spring-projects/spring-ai/issues/4170")
class OwnFactsFirst(TinyMemory):
    """Puts the user's facts in front of the agent's, where there are some of both."""

    def prompt(self, caller: Caller, key: Key | None, text: str) -> Messages:
        messages = super().prompt(caller, key, text)
        blocks = [place for place, m in enumerate(messages) if str(m["content"]).startswith("Facts of the")]
        if len(blocks) > 1:
            first, second = blocks
            messages[first], messages[second] = messages[second], messages[first]
        return messages


@broken("turns.prompt-holds-its-input", report="https://github.com/langchain-ai/langmem/issues/111")
class SaysNothingTwice(TinyMemory):
    """Leaves a question out of the prompt where the window holds it already."""

    def prompt(self, caller: Caller, key: Key | None, text: str) -> Messages:
        messages = super().prompt(caller, key, text)
        return messages[:-1] if messages[-1] in messages[:-1] else messages


@broken("turns.redaction-is-for-the-model", report="https://github.com/bytedance/deer-flow/pull/5577")
class ExtractorSeesAll(TinyMemory):
    """Redacts what the answer model is sent, and forgets that the extractor is a model too."""

    redacts = True

    def extracted(self, shown: str) -> list[str]:
        self.redacts = False
        try:
            return super().extracted(shown)
        finally:
            self.redacts = True

    def redacted(self, text: str) -> str:
        return super().redacted(text) if self.redacts else text


@broken("turns.redaction-is-for-the-model")
class EmbedsAddresses(TinyRecall):
    """Redacts what its models are sent, and embeds what is asked as it is."""

    def nearest(self, text: str, entries: Iterable[Recalled]) -> list[str]:
        [vector] = self.env.embed([text])
        return list(dict.fromkeys(entry.text for entry in by_distance(vector, entries)))


# What is kept of a turn that ended well


@broken("turns.input-and-answer")
class KeepsAsides(TinyTraffic):
    """Stores, of a run, all that the model said, also on its way to a tool."""

    def write(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        super().write(caller, key, text, " ".join([*self.asides(text), answer]))


@broken("turns.input-and-answer")
class AnswersFirst(TinyMemory):
    """Keeps the two messages of a turn in the order in which they are written: the answer, then its question."""

    def replayed(self, key: Key | None) -> list[tuple[str, str]]:
        kept = super().replayed(key)
        return [message for pair in zip(kept[1::2], kept[::2], strict=True) for message in pair]


@broken("turns.input-and-answer")
class KeepsAscii(TinyMemory):
    """Stores messages in a column that holds no other letters than English ones."""

    def write(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        super().write(caller, key, text.encode("ascii", "ignore").decode(), answer.encode("ascii", "ignore").decode())


@broken("turns.input-and-answer")
class KeepsOneLine(TinyMemory):
    """Stores each message as one line."""

    def write(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        super().write(caller, key, " ".join(text.split()), " ".join(answer.split()))


@broken("turns.recalled-next-turn", report="https://github.com/aradlein/hass-agent-llm/issues/49")
class LosesTheFirstTurn(TinyMemory):
    """Makes a new user's window when it is first missed, and so loses the turn that missed it."""

    def write(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        if key in self.windows:
            super().write(caller, key, text, answer)
        self.windows.setdefault(key, [])


@broken("turns.window-is-bounded", report="https://github.com/bojieli/ai-agent-book/pull/398")
class EndlessWithoutWindow(TinyMemory):
    """Cuts the window with a slice that keeps everything where nothing was to be kept."""

    def replayed(self, key: Key | None) -> list[tuple[str, str]]:
        size = self.option("window", 20) // 2 * 2
        return self.windows.get(key, [])[-size:] if key else []


@broken("turns.window-is-bounded")
class BeginsWithAnAnswer(TinyMemory):
    """Trims the window message by message, also between a question and its answer."""

    def replayed(self, key: Key | None) -> list[tuple[str, str]]:
        size = self.option("window", 20)
        return self.windows.get(key, [])[-size:] if key and size else []


@broken("turns.window-is-bounded")
class KeepsTheOldest(TinyMemory):
    """Stops replaying new turns when the window is full."""

    def replayed(self, key: Key | None) -> list[tuple[str, str]]:
        return self.windows.get(key, [])[: self.option("window", 20) // 2 * 2] if key else []


@broken("turns.growth-is-linear", report="https://github.com/agno-agi/agno/issues/5741")
class SnapshotsEachTurn(TinyMemory):
    """Keeps, for every turn, a copy of the whole conversation up to it."""

    def write(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        super().write(caller, key, text, answer)
        snapshot = self.env.dir / f"snapshot-{len(list(self.env.dir.glob('snapshot-*')))}.json"
        snapshot.write_text(json.dumps({"owner": key, "messages": self.windows[key]}))


# What is kept of a turn that did not


@broken("turns.failed-writes-nothing", report="https://github.com/mastra-ai/mastra/issues/5842")
class WritesBeforeTheLastStep(TinyMemory):
    """Writes the turn before the application's last step, which may still fail it."""

    def finish(self, caller: Caller, key: Key | None, text: str, said: str) -> Reply:
        answer = self.redacted(said)
        self.guard(answer, "output")
        if key is not None:
            self.write(caller, key, text, answer)
        self.env.after_run(answer)
        return Reply(Outcome.OK, answer)


@broken("turns.failed-writes-nothing")
class KeepsOpenQuestions(TinyMemory):
    """Keeps the question of a failed run in the window until it is asked again."""

    def run(self, caller: Caller, key: Key | None, text: str, traffic: Messages) -> Reply:
        window = self.windows.setdefault(key, []) if key else []
        if ("user", text) in window[-1:]:
            window.pop()
        try:
            return super().run(caller, key, text, traffic)
        except (Blocked, Limit):
            raise
        except Exception:  # whatever fails, the question is already kept: the fault
            window.append(("user", text))
            raise


@broken("turns.blocked-writes-nothing", report="https://github.com/openai/openai-agents-python/pull/4123")
class KeepsWhatItRefused(TinyMemory):
    """Stores the question of a blocked answer, with an apology in the answer's place."""

    def finish(self, caller: Caller, key: Key | None, text: str, said: str) -> Reply:
        try:
            return super().finish(caller, key, text, said)
        except Blocked:
            if key is not None:
                self.windows.setdefault(key, []).extend([("user", text), ("assistant", "I cannot say.")])
            raise


@broken("turns.limit-writes-nothing", report="https://github.com/NousResearch/hermes-agent/pull/108270")
class KeepsUnfinishedTurns(TinyMemory):
    """Stores a run that reached the iteration limit, with an apology as its answer, so that the user can say: go on."""

    def run(self, caller: Caller, key: Key | None, text: str, traffic: Messages) -> Reply:
        try:
            return super().run(caller, key, text, traffic)
        except Limit:
            if key is not None:
                self.windows.setdefault(key, []).extend([("user", text), ("assistant", "I ran out of steps.")])
            raise


@broken("turns.paused-writes-nothing")
class ShowsWaitingQuestions(TinyMemory):
    """Puts the question of a paused run into the window until the run goes on."""

    def pause(self, paused: Paused) -> Reply:
        self.windows.setdefault(paused.key, []).append(("user", paused.question))
        return super().pause(paused)

    def resume(self, caller: Caller, token: str, approved: bool) -> Reply:
        waiting = self.paused[token]
        window = self.windows[waiting.key]
        if self.resolve(caller) == waiting.key and ("user", waiting.question) in window:
            window.remove(("user", waiting.question))
        return super().resume(caller, token, approved)
