"""Memories that do not outlive their process, or that others outwrite."""

from __future__ import annotations

import fcntl
import itertools
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from opentelemetry.trace import format_trace_id, get_current_span

from memtrace.broken import broken, lawful
from memtrace.broken.tiny import Key, Refused, Row
from memtrace.broken.tiny_own_recall import TinyOwnRecall
from memtrace.broken.tiny_processes import TinyProcesses
from memtrace.broken.tiny_recall import Recalled
from memtrace.model import Caller

# What survives


@broken("processes.facts-survive")
class WritesInPlace(TinyProcesses):
    """Opens its file for writing, which empties it, and then writes what is to be in it."""

    def change(self, how: Any) -> None:
        with self.lock, self.one_writer():
            rows = how(self.rows())
            self.path.write_text(json.dumps([asdict(row) for row in rows]))


@broken("processes.facts-survive")
class WritesInTwoSteps(TinyProcesses):
    """Stores the beginning of a long fact first, and puts the rest to it in a write of its own."""

    def put(self, key: Key, text: str, *, source: str = "", confidence: float = 1.0) -> str:
        number = super().put(key, text[:45], source=source, confidence=confidence)
        self.change(lambda rows: [replace(row, text=text) if row.id == number else row for row in rows])
        return number


@broken("processes.facts-survive")
class KeepsUntilClosed(TinyProcesses):
    """Holds what it is told in the process, and stores it as it is closed."""

    held: list[Row] | None = None

    def rows(self) -> list[Row]:
        return super().rows() if self.held is None else self.held

    def change(self, how: Any) -> None:
        self.held = how(self.rows())

    def close(self) -> None:
        if self.held is not None:
            super().change(lambda _rows: self.held)


@broken("processes.search-after-restart")
class SearchesWhatItAdded(TinyProcesses):
    """Has an index of what this process has added; a fresh one begins with an empty one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.index: set[tuple[Key, str]] = set()

    def put(self, key: Key, text: str, *, source: str = "", confidence: float = 1.0) -> str:
        self.index.add((key, text))
        return super().put(key, text, source=source, confidence=confidence)

    def search(self, caller: Caller, query: str) -> list[str]:
        return [text for text in super().search(caller, query) if (self.own(caller), text) in self.index]


@broken("processes.recall-survives-own-store")
class KeepsVectorsInTheProcess(TinyOwnRecall):
    """Keeps the texts in the file, and their vectors where they were made."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.vectors: dict[str, list[float]] = {}

    def load_index(self) -> None:
        super().load_index()
        vectors = ((entry, self.vectors.get(entry.text)) for entry in self.index)
        self.index = [Recalled(entry.key, entry.text, vector) for entry, vector in vectors if vector is not None]

    def save_index(self) -> None:
        self.vectors.update((entry.text, entry.vector) for entry in self.index)
        super().save_index()


@broken("processes.search-survives-forget")
class VectorsOutOfStep(TinyProcesses):
    """Keeps texts and vectors in two lists, side by side, and removes forgotten texts from the first."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.texts: list[tuple[Key, str]] = []
        self.vectors: list[list[float]] = []

    def search(self, caller: Caller, query: str) -> list[str]:
        new = [(row.key, row.text) for row in self.rows() if (row.key, row.text) not in self.texts]
        self.texts += new
        self.vectors += self.env.embed([text for _, text in new]) if new else []
        [wanted] = self.env.embed([query])
        near = sorted(zip(self.texts, self.vectors, strict=False), key=lambda entry: -_dot(wanted, entry[1]))
        active = {row.text for row in self.rows_of(self.own(caller))}
        return [text for (key, text), _ in near if key == self.own(caller) and text in active]

    def forget(self, caller: Caller, record: str | None = None) -> int:
        gone = super().forget(caller, record)
        kept = {(row.key, row.text) for row in self.rows()}
        self.texts = [entry for entry in self.texts if entry in kept]
        return gone


# Several processes


@broken("processes.other-process-seen")
class ReadsOnce(TinyProcesses):
    """Reads a user's facts once, and again when it has changed them itself."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.known: dict[Key, list[Row]] = {}

    def rows_of(self, key: Key) -> list[Row]:
        return self.known.setdefault(key, super().rows_of(key))

    def change(self, how: Any) -> None:
        super().change(how)
        self.known.clear()


@broken("processes.two-writers", report="https://github.com/langchain-ai/langgraph/issues/8115")
class WritesWhatItHadRead(TinyProcesses):
    """Reads all facts, learns what is new, and writes all facts."""

    def learn(self, caller: Caller, key: Key, text: str, answer: str) -> None:
        before = self.rows()
        numbers = itertools.count(1 + max((int(row.id) for row in before), default=0))
        trace = format_trace_id(get_current_span().get_span_context().trace_id)
        new = [fact for fact in self.extracted(text) if fact not in {row.text for row in before if row.key == key}]
        learned = [Row(str(next(numbers)), key, fact, "learned", 0.6, trace=trace) for fact in new]
        self.change(lambda _rows: [*before, *learned])


@broken("processes.fork-safe")
class NumbersByItself(TinyProcesses):
    """Numbers its facts from a start that it drew as it was opened, and stores each in the place of its number."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.numbers = itertools.count(int.from_bytes(os.urandom(6)))

    def put(self, key: Key, text: str, *, source: str = "", confidence: float = 1.0) -> str:
        known = next((row for row in self.rows_of(key) if row.text == text), None)
        if known is not None:
            return known.id
        trace = format_trace_id(get_current_span().get_span_context().trace_id) if source else ""
        new = Row(str(next(self.numbers)), key, text, source, confidence, trace=trace)
        self.change(lambda rows: [*(row for row in rows if row.id != new.id), new])
        return new.id


# Windows


@broken("processes.window-round-trip")
class SavesForAnybody(TinyProcesses):
    """Does not say in a saved window whose it is."""

    def load(self, caller: Caller, path: str) -> None:
        self.windows[self.own(caller)] = _turns(json.loads(Path(path).read_text())["messages"])


@broken("processes.window-round-trip")
class SavesInPlace(TinyProcesses):
    """Writes over the window that was saved before."""

    def save(self, caller: Caller, path: str) -> None:
        key = self.own(caller)
        with Path(path).open("w") as file:
            json.dump({"owner": key, "messages": self.windows.get(key, [])}, file)


@broken("processes.window-round-trip")
class LoadsWhatItCanRead(TinyProcesses):
    """Saves a message a line, and leaves out what it cannot read."""

    def save(self, caller: Caller, path: str) -> None:
        key = self.own(caller)
        temporary = Path(path + ".new")
        temporary.write_text("\n".join(map(json.dumps, [key, *self.windows.get(key, [])])))
        temporary.replace(path)

    def load(self, caller: Caller, path: str) -> None:
        owner, *lines = (line for line in Path(path).read_text().splitlines() if line.endswith("]"))
        if tuple(json.loads(owner)) != self.own(caller):
            raise Refused("that window is another user's")
        self.windows[self.own(caller)] = _turns(map(json.loads, lines))

    def erase(self, caller: Caller) -> None:
        for path in self.env.dir.glob("*.json"):
            if path.read_text().startswith(json.dumps(self.own(caller))):
                path.unlink()
        super().erase(caller)


@broken("processes.window-round-trip")
class LoadsOneTooFew(TinyProcesses):
    """Gives a loaded window back without its newest message."""

    def load(self, caller: Caller, path: str) -> None:
        super().load(caller, path)
        self.windows[self.own(caller)].pop()


# Lawful


@lawful(
    "what it was told is in the store once it has settled",
    rules=("processes.facts-survive", "processes.forget-fact", "processes.forget-user"),
)
class WritesBehind(TinyProcesses):
    """Stores what it is told when it has settled, and not before; no other process may write meanwhile."""

    capabilities = TinyProcesses.capabilities - {"shared"}
    held: list[Row] | None = None

    def rows(self) -> list[Row]:
        return super().rows() if self.held is None else self.held

    def change(self, how: Any) -> None:
        with self.lock:
            self.held = how(self.rows())

    def settle(self) -> None:
        with self.lock:
            if self.held is not None:
                super().change(lambda _rows: self.held)
            self.held = None

    def close(self) -> None:
        self.settle()


@lawful("one of two writers fails loudly", rules=("processes.two-writers", "processes.fork-safe"))
class OneWriterAtATime(TinyProcesses):
    """Raises where another process is writing, and does not wait."""

    @contextmanager
    def one_writer(self) -> Iterator[None]:
        with (self.env.dir / "tiny.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield


@lawful("a fresh index is as good as an old one", rules=("processes.search-after-restart",))
class IndexesEachTime(TinyProcesses):
    """Begins a new index for every search, and keeps none."""

    def search(self, caller: Caller, query: str) -> list[str]:
        rows = sorted(self.rows_of(self.own(caller)), key=lambda row: row.text)
        vectors = dict(zip((row.text for row in rows), self.env.embed([row.text for row in rows]), strict=True))
        [wanted] = self.env.embed([query])
        return sorted(vectors, key=lambda text: -_dot(wanted, vectors[text]))[:3]


def _turns(messages: Any) -> list[tuple[str, str]]:
    return [(role, text) for role, text in messages]


def _dot(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))
