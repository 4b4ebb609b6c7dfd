"""Memories that append each change to a file, and what becomes of a line whose end a crash cut off."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any, BinaryIO

from memtrace.broken import broken, lawful
from memtrace.broken.tiny import Row, TinyMemory


class _Lines(TinyMemory):
    """Has a file with a line for each change, reads it as it opens, and answers from what it knows since."""

    capabilities = TinyMemory.capabilities - {"shared"}

    def __post_init__(self) -> None:
        super().__post_init__()
        self.file = (self.env.dir / "tiny.lines").open("a+b", buffering=0)
        self.file.seek(0)
        self.known: dict[str, Row] = {}
        for line in self.opened(self.file.read()).splitlines():
            if (change := self.read(line)) is not None:
                self.take(*change)

    def opened(self, data: bytes) -> bytes:
        """What was in the file as it was opened."""
        return data

    def read(self, line: bytes) -> tuple[list[str], list[dict[str, Any]]] | None:
        """Of a change, the ids that went and the rows that came; none for what is no whole line."""
        try:
            gone, come = json.loads(line)
        except ValueError:
            return None
        return gone, come

    def take(self, gone: list[str], come: list[dict[str, Any]]) -> None:
        """Know a change."""
        self.known = {number: row for number, row in self.known.items() if number not in gone}
        self.known.update({row["id"]: Row(**{**row, "key": tuple(row["key"])}) for row in come})

    def rows(self) -> list[Row]:
        return list(self.known.values())

    def change(self, how: Any) -> None:
        with self.lock:
            rows = how(self.rows())
            gone = list(self.known.keys() - {row.id for row in rows})
            come = [asdict(row) for row in rows if self.known.get(row.id) != row]
            self.append(self.file, json.dumps([gone, come]).encode())
            self.take(gone, come)

    def append(self, file: BinaryIO, line: bytes) -> None:
        """Write a line."""
        file.write(line + b"\n")

    def close(self) -> None:
        """Let go of the file."""
        self.file.close()


@broken("backends.add-is-atomic")
class TakesALengthForALine(_Lines):
    """Writes the length of a line and then the line; where a crash left a length alone, the next line is lost too."""

    def append(self, file: BinaryIO, line: bytes) -> None:
        file.write(b"%d " % len(line))
        super().append(file, line)

    def read(self, line: bytes) -> tuple[list[str], list[dict[str, Any]]] | None:
        length, _, rest = line.partition(b" ")
        return super().read(rest) if length == str(len(rest)).encode() else None


@broken("backends.add-is-atomic")
class EndsALineLater(_Lines):
    """Writes a line and then its end; one without an end counts, until the next is written behind it."""

    def append(self, file: BinaryIO, line: bytes) -> None:
        file.write(line)
        file.write(b"\n")


@lawful("a line that a crash cut short is nothing, and is gone before the next", rules=("backends.add-is-atomic",))
class CutsOffHalfALine(EndsALineLater):
    """Takes what has no end off the file as it opens."""

    def opened(self, data: bytes) -> bytes:
        whole = data[: data.rfind(b"\n") + 1]
        self.file.truncate(len(whole))
        return whole
