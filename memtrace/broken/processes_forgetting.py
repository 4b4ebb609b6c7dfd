"""Memories that do not forget all there is, or that remember again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from opentelemetry.trace import format_trace_id, get_current_span

from memtrace.broken import broken, lawful
from memtrace.broken.tiny import Key, Refused, Row
from memtrace.broken.tiny_offline import TinyOffline
from memtrace.broken.tiny_own_recall import TinyOwnRecall
from memtrace.broken.tiny_processes import TinyProcesses
from memtrace.model import Caller, Reply

# Facts


@broken("processes.forget-fact")
class LeavesWhatItReplaced(TinyProcesses):
    """Forgets the fact that is active, and keeps what that had superseded."""

    def forget(self, caller: Caller, record: str | None = None) -> int:
        if record is None:
            return super().forget(caller)
        self.forgets(self.own(caller), forgotten=1)
        key, before = self.own(caller), len(self.rows())
        self.change(lambda rows: [row for row in rows if (row.key, row.id) != (key, record)])
        return before - len(self.rows())


@broken("processes.forget-fact", report="https://github.com/open-webui/open-webui/issues/24431")
class LeavesTheVector(TinyProcesses):
    """Removes a forgotten fact from the list, and leaves it in the index that searches go by."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.index: dict[tuple[Key, str], list[float]] = {}

    def search(self, caller: Caller, query: str) -> list[str]:
        active = {(row.key, row.text): row for row in self.rows() if not row.superseded_by}
        new = [entry for entry in active if entry not in self.index]
        self.index.update(zip(new, self.env.embed([text for _, text in new]), strict=True))
        [wanted] = self.env.embed([query])
        own = [(text, vector) for (key, text), vector in self.index.items() if key == self.own(caller)]
        return [text for text, _ in sorted(own, key=lambda entry: -_dot(wanted, entry[1]))]


@broken("processes.forget-fact", report="https://github.com/FoxRick/Collie/issues/117")
class KeepsAJournal(TinyProcesses):
    """Writes down every change it makes, and removes none of that."""

    def put(self, key: Key, text: str, *, source: str = "", confidence: float = 1.0) -> str:
        with (self.env.dir / "journal").open("a") as journal:
            journal.write(json.dumps([source or "by hand", text]) + "\n")
        return super().put(key, text, source=source, confidence=confidence)


# Users


@broken("processes.forget-user", report="https://github.com/Significant-Gravitas/AutoGPT/pull/12720")
class ErasesFactsAlone(TinyProcesses):
    """Erases a user's facts, and goes on with the conversation."""

    def erase(self, caller: Caller) -> None:
        self.forget(caller)


@broken("processes.forget-user")
class LeavesPausedRuns(TinyProcesses):
    """Erases a user, and lets them approve what they had asked for before."""

    def erase(self, caller: Caller) -> None:
        paused = dict(self.paused)
        super().erase(caller)
        self.paused = paused


@broken("processes.forget-user")
class LeavesSavedWindows(TinyProcesses):
    """Erases a user, and loads the window that was saved of them."""

    def save(self, caller: Caller, path: str) -> None:
        super().save(caller, path)
        Path(path).rename(f"{path}.window")

    def load(self, caller: Caller, path: str) -> None:
        super().load(caller, f"{path}.window")


@broken("processes.forget-user")
class LeavesRecall(TinyOwnRecall):
    """Erases a user, and recalls what they said."""

    def erase(self, caller: Caller) -> None:
        self.load_index()
        kept = self.index
        super().erase(caller)
        self.index = kept
        self.save_index()


# And remembering again


@broken("processes.forget-stays-forgotten")
class KeepsWhatItBegan(TinyProcesses):
    """Stores what a turn has learned, whatever was forgotten while it ran."""

    def keep(self, key: Key, facts: list[str]) -> None:
        super(TinyProcesses, self).keep(key, facts)


@broken("processes.forget-stays-forgotten")
class ErasesHereAlone(TinyProcesses):
    """Does not tell the other processes whom it has erased."""

    def let_go(self, key: Key) -> None:
        pass


@broken("processes.forget-stays-forgotten", report="https://github.com/topoteretes/cognee/issues/3526")
class RebuildsFromItsIndex(TinyProcesses):
    """Keeps what it has searched, and stores it with the next fact where it is missing."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.indexed: dict[tuple[Key, str], Row] = {}

    def search(self, caller: Caller, query: str) -> list[str]:
        self.indexed.update({(row.key, row.text): row for row in self.rows_of(self.own(caller))})
        return super().search(caller, query)

    def put(self, key: Key, text: str, *, source: str = "", confidence: float = 1.0) -> str:
        known = {(row.key, row.text) for row in self.rows()}
        for missing in [entry for entry in self.indexed if entry not in known and entry[0] == key]:
            super().put(*missing)
        return super().put(key, text, source=source, confidence=confidence)


class TinyForgetfulLog(TinyOffline, TinyProcesses):
    """The correct one with offline learning: what is forgotten is not mined."""

    capabilities: ClassVar[frozenset[str]] = TinyOffline.capabilities

    def __post_init__(self) -> None:
        """No turn has taught anything yet."""
        super().__post_init__()
        self.taught_in: dict[str, str] = {}

    def logged(self, key: Key, text: str, answer: str) -> tuple[Key, str]:
        """Note the trace of the turn, too."""
        self.taught_in[text] = format_trace_id(get_current_span().get_span_context().trace_id)
        return super().logged(key, text, answer)

    def put(self, key: Key, text: str, *, source: str = "", confidence: float = 1.0) -> str:
        """Name the turn that taught it."""
        number = super().put(key, text, source=source, confidence=confidence)
        if trace := self.taught_in.get(text) if source else "":
            self.change(lambda rows: [replace(row, trace=trace) if row.id == number else row for row in rows])
        return number

    def forget(self, caller: Caller, record: str | None = None) -> int:
        """Forget what was said, too."""
        self.strike(self.own(caller))
        return super().forget(caller, record)

    def strike(self, key: Key) -> None:
        """Remove a user's words from the log of what was said."""
        said = self.said()
        self.log.write_text("".join(json.dumps(line) + "\n" for line in said if line[0] != key))


@broken("processes.forget-stays-forgotten")
class MinesWhatWasForgotten(TinyForgetfulLog):
    """Learns offline from all that was ever said by those who were not erased."""

    def strike(self, key: Key) -> None:
        pass


# Lawful


@lawful("a window that is not given back is as good as gone", rules=("processes.forget-user",))
class RefusesToLoad(TinyProcesses):
    """Leaves a saved window where the application put it, and refuses to load it once its user was erased."""

    def save(self, caller: Caller, path: str) -> None:
        key = self.own(caller)
        saved = {"of": [*key, self.forgot(key).erased], "messages": self.windows.get(key, [])}
        temporary = Path(path + ".new")
        temporary.write_text(json.dumps(saved))
        temporary.replace(path)

    def load(self, caller: Caller, path: str) -> None:
        key, saved = self.own(caller), json.loads(Path(path).read_text())
        if saved["of"] != [*key, self.forgot(key).erased]:
            raise Refused("that window is another user's, or from before they were erased")
        self.windows[key] = [(role, text) for role, text in saved["messages"]]
        self.window_of[key] = self.forgot(key).erased


@lawful(
    "what is forgotten waits for the turn to end, and is forgotten then", rules=("processes.forget-stays-forgotten",)
)
class ForgetsAfterTheTurn(TinyProcesses):
    """Lets whoever forgets wait until the user's turns in this process have ended."""

    def run(self, caller: Caller, key: Key | None, text: str, traffic: list[dict[str, Any]]) -> Reply:
        with self.lock:
            return super().run(caller, key, text, traffic)

    def forget(self, caller: Caller, record: str | None = None) -> int:
        with self.lock:
            return super().forget(caller, record)

    def erase(self, caller: Caller) -> None:
        with self.lock:
            super().erase(caller)


def _dot(one: list[float], other: list[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))
