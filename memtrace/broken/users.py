"""Memories that give one user what is another's, each in one way only."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from memtrace.broken import broken
from memtrace.broken.tiny import Key, Row, TinyMemory
from memtrace.broken.tiny_eviction import TinyEviction
from memtrace.broken.tiny_recall import NEAREST, TinyRecall
from memtrace.model import Caller, Fact, Reply

_LANGGRAPH = "https://github.com/langchain-ai"


# Whose turn it is


@broken("users.own-memory-recalled", report="https://github.com/redis/agent-memory-server/pull/137")
class EncodesWhenItWrites(TinyMemory):
    """Writes under an id without the characters its column cannot hold, and reads under the id as it is."""

    def write(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        *partition, user = key
        super().write(caller, (*partition, re.sub(r"[^\u0000-\uffff]", "?", user)), text, answer)


@broken("users.no-foreign-memory")
class StreamsForItsFirstCaller(TinyMemory):
    """Sets a stream up once for each agent, its caller included, and uses it again."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.streams: dict[str, Caller] = {}

    def streamed(self, caller: Caller, text: str) -> Iterator[str]:
        return super().streamed(self.streams.setdefault(caller.agent, caller), text)


@broken("users.no-foreign-memory")
class SharesWhatIsMuch(TinyMemory):
    """Moves what a user says to the agent's facts once the user has more than five of their own."""

    def learn(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        full = len(self.rows_of(key)) > 5
        super().learn(caller, self.agent_key(caller) if full else key, text, answer)


@broken("users.reply-goes-to-its-caller")
class ReturnsTheLatestAnswer(TinyMemory):
    """Keeps the answer in one place while the turn is written, and returns what is there afterwards."""

    def finish(self, caller: Caller, key: Key | None, text: str, said: str) -> Reply:
        self.latest = self.redacted(said)
        return replace(super().finish(caller, key, text, said), text=self.latest)


@broken("users.concurrent-turns-apart", report="https://github.com/mem0ai/mem0/issues/4359")
class WritesForTheCurrentUser(TinyMemory):
    """Notes who the current user is when a turn begins, and writes for whoever that is when it ends."""

    def resolve(self, caller: Caller) -> Key | None:
        self.current = super().resolve(caller)
        return self.current

    def write(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        super().write(caller, self.current or key, text, answer)


class _InTasks(TinyMemory):
    """Turns are coroutines, of which an event loop runs several."""

    async def turn(self, caller: Caller, text: str) -> Reply:  # type: ignore[override]
        return await asyncio.to_thread(super().turn, caller, text)


@broken("users.concurrent-turns-apart", report="https://github.com/getzep/graphiti/issues/1842")
class BindsItselfToTheLatest(_InTasks):
    """Binds the one client that all tasks share to the user of the turn that began last."""

    def resolve(self, caller: Caller) -> Key | None:
        self.bound = super().resolve(caller)
        return self.bound

    def conversation(self, key: Key | None) -> list[dict[str, Any]]:
        return super().conversation(key and self.bound)


@broken("users.resolved-once-per-turn")
class ResolvesAgainToWrite(TinyMemory):
    """Asks who the caller is once more when the turn is written."""

    def write(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        super().write(caller, self.resolve(caller) or key, text, answer)


@broken("users.unresolved-sees-only-agent-facts")
class ShowsTheLastUsersPrompt(TinyMemory):
    """Reads for the last user it knew where it cannot tell who asks; it writes nothing then."""

    last: Key | None = None

    def prompt(self, caller: Caller, key: Key | None, text: str) -> list[dict[str, Any]]:
        self.last = key or self.last
        return super().prompt(caller, self.last, text)


@broken("users.unresolved-writes-nothing")
class TakesAnythingForAnId(TinyMemory):
    """Takes for an id whatever the resolver gives, by the name of its class."""

    def resolve(self, caller: Caller) -> Key | None:
        try:
            user = self.env.resolve(caller)
        except Exception:  # noqa: BLE001  a resolver is the application's, and may raise anything
            return None
        return self.key(caller, user if isinstance(user, str) else type(user).__name__) if user else None


# What two callers have in common


@broken("users.similar-ids-apart", report=f"{_LANGGRAPH}/langgraphjs/issues/2721")
class MatchesPrefixes(TinyMemory):
    """Reads the facts of every user whose id starts with the caller's."""

    def rows_of(self, key: Key) -> list[Row]:
        return [row for row in self.active() if row.key[:2] == key[:2] and self.matches(key, row.key[2])]

    def matches(self, key: Key, user: str) -> bool:
        """Whether facts filed under an id are read for a key."""
        return user.startswith(key[2]) if key[1] == "user" else user == key[2]

    def active(self) -> list[Row]:
        """Active rows, newest first."""
        return [row for row in reversed(self.rows()) if not row.superseded_by]


@broken("users.similar-ids-apart", report=f"{_LANGGRAPH}/langgraph/pull/8356")
class MatchesAnyCharacter(MatchesPrefixes):
    """Reads facts by a pattern in which a question mark is any one character."""

    def matches(self, key: Key, user: str) -> bool:
        return bool(re.fullmatch(".".join(map(re.escape, key[2].split("?"))), user, re.DOTALL))


@broken("users.similar-ids-apart")
class CutsLongIds(TinyMemory):
    """Keeps the window of a user under the first 255 characters of their id."""

    def conversation(self, key: Key | None) -> list[dict[str, Any]]:
        return super().conversation(_cut(key) if key else None)

    def write(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        super().write(caller, _cut(key), text, answer)


def _cut(key: Key) -> Key:
    return (*key[:-1], key[-1][:255])


@broken("users.similar-ids-apart")
class ForgetsWithoutCase(TinyMemory):
    """Compares ids without regard to case when it forgets, as some collations do."""

    def forget(self, caller: Caller, record: str | None = None) -> int:
        user = self.own(caller)[-1].casefold()
        alike = {row.key[-1] for row in self.rows() if row.key[1] == "user" and row.key[-1].casefold() == user}
        return sum(super(ForgetsWithoutCase, self).forget(replace(caller, user=each), record) for each in alike)


@broken("users.wildcard-is-not-a-user", report=f"{_LANGGRAPH}/langgraph/pull/8356")
class MatchesStars(MatchesPrefixes):
    """Reads the facts of every user whose id fits the caller's, if there is a star in it."""

    def matches(self, key: Key, user: str) -> bool:
        return user == key[2] or ("*" in key[2] and fnmatchcase(user, key[2]))


@broken("users.same-session-id-apart", report="https://github.com/agno-agi/agno/issues/4560")
class OneWindowForASession(TinyMemory):
    """Keeps a window for each session id, whoever's session it is."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.sessions: dict[str, list[tuple[str, str]]] = {}

    def prompt(self, caller: Caller, key: Key | None, text: str) -> list[dict[str, Any]]:
        if key is not None:
            self.windows[key] = self.sessions.setdefault(caller.session, [])
        return super().prompt(caller, key, text)


@broken("users.recall-namespaced", report="https://github.com/MervinPraison/PraisonAI/issues/4818")
class RecallsEverybody(TinyRecall):
    """Notes whose each message is, and does not look at it when it searches."""

    def recall(self, key: Key, text: str) -> list[str]:
        return self.nearest(text, self.index)[:NEAREST]


@broken("users.recall-namespaced")
class FiltersTheNearest(TinyRecall):
    """Takes the twenty nearest messages of all, and of those the caller's."""

    def recall(self, key: Key, text: str) -> list[str]:
        own = {entry.text for entry in self.index if entry.key == key}
        return [found for found in self.nearest(text, self.index)[: 4 * NEAREST] if found in own][:NEAREST]


# What is left of a user, and what of the others


@broken("users.evicted-keeps-facts")
class SavesAnEmptyWindow(TinyEviction):
    """Saves the window of a user who has none any more over the one that was saved."""

    def save(self, caller: Caller, path: str) -> None:
        TinyMemory.save(self, caller, path)


@broken("users.evicted-keeps-facts")
class DropsAllOfAUser(TinyEviction):
    """Lets go of the facts together with the window."""

    def drop(self, key: Key) -> None:
        super().drop(key)
        self.change(lambda rows: [row for row in rows if row.key != key])


@broken("users.evicted-keeps-facts")
class DropsTheFirstComer(TinyEviction):
    """Drops the window that was begun first, however lately it was used."""

    def touch(self, key: Key) -> None:
        """The line is as it was."""


@broken("users.agent-facts-stay-with-agent", report="https://github.com/crewAIInc/crewAI/pull/5035")
class OneScopeForAllAgents(TinyMemory):
    """Files what agents know under their project alone."""

    def agent_key(self, caller: Caller) -> Key:
        return (caller.project, "agent", "")


@broken("users.project-partitions", report=f"{_LANGGRAPH}/langgraphjs/issues/2721")
class JoinsIdsWithColons(TinyMemory):
    """Joins project and user with a colon, which may be in either."""

    def key(self, caller: Caller, user: str) -> Key:
        return (f"{caller.project}:{user}", "user", user.rpartition(":")[2])


@broken("users.id-not-in-prompt")
class NamesTheUser(TinyMemory):
    """Puts the user's id over their facts."""

    def prompt(self, caller: Caller, key: Key | None, text: str) -> list[dict[str, Any]]:
        return [
            {**message, "content": re.sub("^Facts of the user:", f"Facts of {caller.user}:", str(message["content"]))}
            for message in super().prompt(caller, key, text)
        ]


@broken("users.foreign-record-untouchable")
class UpdatesWhateverIsNamed(TinyMemory):
    """Supersedes the record of the given id, whoever's it is."""

    def update(self, caller: Caller, record: str, text: str) -> str:
        old = next((row for row in self.rows() if row.id == record and not row.superseded_by), None)
        if old is None or old.key == self.own(caller):
            return super().update(caller, record, text)
        new = self.put(self.own(caller), text)
        self.change(lambda rows: [replace(row, superseded_by=new) if row.id == record else row for row in rows])
        return new


@broken("users.foreign-record-untouchable")
class ForgetsTheAgentsRecord(TinyMemory):
    """Looks for the record of the given id among all that the caller is shown, the agent's facts too."""

    def forget(self, caller: Caller, record: str | None = None) -> int:
        if any(row.id == record for row in self.rows_of(self.agent_key(caller))):
            self.change(lambda rows: [row for row in rows if row.id != record])
            return 1
        return super().forget(caller, record)


@broken("users.empty-id-reads-nothing")
class ListsEveryoneForNobody(TinyMemory):
    """Has no condition on the user where it is given none."""

    def facts(self, caller: Caller, limit: int | None = None, *, superseded: bool = False) -> list[Fact]:
        if caller.user:
            return super().facts(caller, limit, superseded=superseded)
        users = dict.fromkeys(row.key[-1] for row in self.rows() if row.key[1] == "user")
        return [
            fact for user in users for fact in super(ListsEveryoneForNobody, self).facts(replace(caller, user=user))
        ]


@broken("users.forget-one-leaves-others", report="https://github.com/mem0ai/mem0/issues/3928")
class ResetsTheCollection(TinyMemory):
    """Forgets a user's facts one by one, and then resets the collection they were in."""

    def forget(self, caller: Caller, record: str | None = None) -> int:
        gone = super().forget(caller, record)
        if record is None:
            self.change(lambda rows: [row for row in rows if row.key[:2] != (caller.project, "user")])
        return gone


@broken("users.forget-one-leaves-others")
class ForgetsWhatTheyWereShown(TinyMemory):
    """Forgets with a user's facts the agent's, which stand in the same prompts."""

    def forget(self, caller: Caller, record: str | None = None) -> int:
        gone = super().forget(caller, record)
        if record is None:
            self.change(lambda rows: [row for row in rows if row.key != self.agent_key(caller)])
        return gone


@broken("users.forget-one-leaves-others")
class ForgetsByText(TinyMemory):
    """Forgets the facts of a user by their text, and with them the same facts of others."""

    def forget(self, caller: Caller, record: str | None = None) -> int:
        before = {row.text for row in self.rows() if row.key == self.own(caller)}
        count = super().forget(caller, record)
        gone = before - {row.text for row in self.rows() if row.key == self.own(caller)}
        self.change(lambda rows: [row for row in rows if row.text not in gone])
        return count
