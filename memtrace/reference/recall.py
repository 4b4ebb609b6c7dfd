"""Recall by meaning: earlier messages of a user that are near this turn's question.

Each namespace (a project and a user, as a tuple) is a compartment of its own. A search looks at that one alone, so a
busy user cannot crowd out a quiet one, and deleting one touches nobody else's vectors.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import numpy as np

from memtrace.model import Author, Message
from memtrace.reference.database import Database, to_bytes, to_text
from memtrace.reference.embedding import Embedder, Vector, embedded
from memtrace.reference.text import unseen
from memtrace.reference.vectors import VectorIndex

_BACKLOG: Final = 8
"""Texts without a vector that one turn tries again."""
_FAILURES: Final = 2
"""In a row, after which the embedder counts as down and the rest of the backlog waits for another turn."""


class Namespace(NamedTuple):
    """Whose messages: a tuple, never a joined string, so that no two can look alike."""

    project: str
    user: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A recalled message and how near it is: the cosine of the angle, 1 is the same."""

    message: Message
    score: float

    @property
    def text(self) -> str:
        """What was said."""
        return self.message.text


class RecallIndex(Protocol):
    """Where recalled messages live. Safe to share between threads.

    A search returns up to ``limit`` messages *of its namespace*, however many others hold: an index that can only
    filter what it found has to fetch more until it has enough.
    """

    def add(self, namespace: Namespace, messages: Sequence[Message]) -> list[int]:
        """Keep messages, as yet without vectors, in one atomic step; their numbers, which are never used again."""

    def place(self, namespace: Namespace, vectors: Mapping[int, Vector]) -> None:
        """Give kept messages their vectors; numbers that are gone are passed over."""

    def unplaced(self, namespace: Namespace, dimension: int, limit: int) -> list[tuple[int, str]]:
        """Numbers and texts of messages without a vector of this length, newest first."""

    def search(self, namespace: Namespace, vector: Vector, limit: int) -> list[Hit]:
        """The nearest messages of this namespace, nearest first."""

    def delete(self, namespace: Namespace, numbers: Collection[int] | None = None) -> int:
        """Remove messages, or with ``None`` the whole namespace, vectors and all; how many went."""


class Recall:
    """An index with its embedder: texts are kept first, so that a failing embedder loses none."""

    def __init__(self, index: RecallIndex, embedder: Embedder) -> None:
        self.index = index
        self._embedder = embedder

    def keep(self, namespace: Namespace, messages: Sequence[Message]) -> dict[int, str]:
        """Keep messages, blank ones aside; the texts by number. `place` makes them findable."""
        kept = [message for message in messages if message.text.strip()]
        numbers = self.index.add(namespace, kept)
        return dict(zip(numbers, (message.text for message in kept), strict=True))

    def place(self, namespace: Namespace, kept: Mapping[int, str], outgoing: Callable[[str], str]) -> None:
        """Embed kept texts, and some of those that an earlier failure left without a vector.

        Raises:
            Exception: whatever the embedder raises. The texts stay, and are tried again in a later turn.
        """
        if not kept:
            return
        vectors = embedded(self._embedder, [outgoing(text) for text in kept.values()])
        self.index.place(namespace, dict(zip(kept, vectors, strict=True)))
        self._catch_up(namespace, vectors[0].size, outgoing)

    def search(
        self, namespace: Namespace, query: str, limit: int, present: set[str], outgoing: Callable[[str], str]
    ) -> tuple[list[Hit], int]:
        """The messages nearest to the query that have anything in common with it, each text once, nearest first.

        Texts that are ``present`` (folded) are passed over, however many come first; how many were is told as well.

        Raises:
            Exception: whatever the embedder or the index raises.
        """
        if not query.strip():
            return [], 0
        [vector] = embedded(self._embedder, [outgoing(query)])
        self._catch_up(namespace, vector.size, outgoing)
        wanted = limit + len(present)
        while True:
            found = self.index.search(namespace, vector, wanted)
            hits = [hit for hit in found if hit.score > 0]
            new = unseen(hits, set(present))
            if len(new) >= limit or len(hits) < wanted:
                return new[:limit], len(hits) - len(new)
            wanted *= 2

    def _catch_up(self, namespace: Namespace, dimension: int, outgoing: Callable[[str], str]) -> None:
        """One text at a time: one that the embedder refuses must not hold up the others."""
        failures = 0
        for number, text in self.index.unplaced(namespace, dimension, _BACKLOG):
            try:
                [vector] = embedded(self._embedder, [outgoing(text)])
            except Exception:  # noqa: BLE001  the turn it belongs to showed the failure on its span
                failures += 1
                if failures == _FAILURES:
                    return
            else:
                failures = 0
                self.index.place(namespace, {number: vector})


@dataclass(slots=True)
class _Compartment:
    messages: dict[int, Message] = field(default_factory=dict)
    vectors: VectorIndex = field(default_factory=VectorIndex)


class ProcessRecall:
    """Recall that lives and dies with its process."""

    def __init__(self) -> None:
        self._compartments: dict[Namespace, _Compartment] = {}
        self._last = 0
        self._lock = threading.Lock()

    def add(self, namespace: Namespace, messages: Sequence[Message]) -> list[int]:
        """As `RecallIndex.add`."""
        with self._lock:
            kept = self._compartments.setdefault(namespace, _Compartment()).messages
            numbers = list(range(self._last + 1, self._last + 1 + len(messages)))
            self._last += len(messages)
            kept.update(zip(numbers, messages, strict=True))
            return numbers

    def place(self, namespace: Namespace, vectors: Mapping[int, Vector]) -> None:
        """As `RecallIndex.place`."""
        with self._lock:
            compartment = self._compartments.get(namespace, _Compartment())
            there = {number: vector for number, vector in vectors.items() if number in compartment.messages}
            compartment.vectors.put(there)

    def unplaced(self, namespace: Namespace, dimension: int, limit: int) -> list[tuple[int, str]]:
        """As `RecallIndex.unplaced`."""
        with self._lock:
            compartment = self._compartments.get(namespace, _Compartment())
            newest = reversed(compartment.messages.items())
            waiting = (item for item in newest if not compartment.vectors.has(item[0], dimension))
            return [(number, message.text) for number, message in islice(waiting, limit)]

    def search(self, namespace: Namespace, vector: Vector, limit: int) -> list[Hit]:
        """As `RecallIndex.search`."""
        with self._lock:
            compartment = self._compartments.get(namespace, _Compartment())
            return [Hit(compartment.messages[key], score) for key, score in compartment.vectors.nearest(vector, limit)]

    def delete(self, namespace: Namespace, numbers: Collection[int] | None = None) -> int:
        """As `RecallIndex.delete`."""
        with self._lock:
            if numbers is None:
                return len(self._compartments.pop(namespace, _Compartment()).messages)
            compartment = self._compartments.get(namespace, _Compartment())
            gone = compartment.messages.keys() & set(numbers)
            for number in gone:
                del compartment.messages[number]
            compartment.vectors.drop(gone)
            return len(gone)


class SqliteRecall:
    """Recall in a file of the user's own: survives a restart, and any number of processes may share it."""

    _SCHEMA: Final = """
        CREATE TABLE IF NOT EXISTS recalled (
            id INTEGER PRIMARY KEY AUTOINCREMENT, project BLOB NOT NULL, user BLOB NOT NULL,
            author TEXT NOT NULL, text BLOB NOT NULL, vector BLOB);
        CREATE INDEX IF NOT EXISTS recalled_of ON recalled (project, user, id)
    """

    def __init__(self, path: str | Path) -> None:
        self._database = Database(path, self._SCHEMA)

    def add(self, namespace: Namespace, messages: Sequence[Message]) -> list[int]:
        """As `RecallIndex.add`."""
        insert = "INSERT INTO recalled (project, user, author, text) VALUES (?, ?, ?, ?)"
        with self._database.transaction() as connection:
            rows = [(*_key(namespace), str(message.author), to_bytes(message.text)) for message in messages]
            return [int(connection.execute(insert, row).lastrowid or 0) for row in rows]

    def place(self, namespace: Namespace, vectors: Mapping[int, Vector]) -> None:
        """As `RecallIndex.place`."""
        update = "UPDATE recalled SET vector = ? WHERE id = ? AND project = ? AND user = ?"
        rows = [(vector.astype("<f4").tobytes(), number, *_key(namespace)) for number, vector in vectors.items()]
        with self._database.transaction() as connection:
            connection.executemany(update, rows)

    def unplaced(self, namespace: Namespace, dimension: int, limit: int) -> list[tuple[int, str]]:
        """As `RecallIndex.unplaced`; so the vectors of another embedder are made anew."""
        select = (
            "SELECT id, text FROM recalled WHERE project = ? AND user = ? AND (vector IS NULL OR length(vector) != ?) "
            "ORDER BY id DESC LIMIT ?"
        )
        with self._database.transaction() as connection:
            rows = connection.execute(select, (*_key(namespace), 4 * dimension, limit)).fetchall()
        return [(number, to_text(text)) for number, text in rows]

    def search(self, namespace: Namespace, vector: Vector, limit: int) -> list[Hit]:
        """As `RecallIndex.search`."""
        select = "SELECT author, text, vector FROM recalled WHERE project = ? AND user = ? AND length(vector) = ?"
        with self._database.transaction() as connection:
            rows = connection.execute(select, (*_key(namespace), 4 * vector.size)).fetchall()
        if not rows:
            return []
        scores = np.frombuffer(b"".join(row[2] for row in rows), dtype="<f4").reshape(len(rows), -1) @ vector
        best = np.argsort(-scores, kind="stable")[:limit]
        return [Hit(Message(Author(rows[i][0]), to_text(rows[i][1])), float(scores[i])) for i in best]

    def delete(self, namespace: Namespace, numbers: Collection[int] | None = None) -> int:
        """As `RecallIndex.delete`."""
        of = "DELETE FROM recalled WHERE project = ? AND user = ?"
        with self._database.transaction() as connection:
            if numbers is None:
                count = connection.execute(of, _key(namespace)).rowcount
            else:
                rows = [(*_key(namespace), number) for number in numbers]
                count = connection.executemany(f"{of} AND id = ?", rows).rowcount
        self._database.leave_nothing()
        return max(count, 0)


def _key(namespace: Namespace) -> tuple[bytes, bytes]:
    return to_bytes(namespace.project), to_bytes(namespace.user)
