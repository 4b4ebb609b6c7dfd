"""A vector store in a file, for the libraries that ask their user to bring a persistent one."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from itertools import starmap
from operator import mul
from pathlib import Path

from fastaiagent.kb.chunking import Chunk

_TABLE = "CREATE TABLE IF NOT EXISTS chunks (id TEXT PRIMARY KEY, chunk TEXT, vector TEXT)"


class VectorFile:
    """fastaiagent's ``VectorStore`` in one SQLite file: exact, for several processes, and without deleted text.

    A search reads every vector, so it suits tests alone.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._open() as file:
            file.execute(_TABLE)

    def _open(self) -> closing[sqlite3.Connection]:
        connection = sqlite3.connect(self._path, timeout=10, isolation_level=None)
        connection.execute("PRAGMA secure_delete = ON")
        return closing(connection)

    def add(self, chunks: list[Chunk], embeddings: list[list[float]]) -> None:
        """Keep chunks under their ids, with their vectors, which are of unit length."""
        rows = [
            (chunk.id, chunk.model_dump_json(), json.dumps(list(map(float, vector))))
            for chunk, vector in zip(chunks, embeddings, strict=True)
        ]
        with self._open() as file:
            file.executemany("INSERT OR REPLACE INTO chunks VALUES (?, ?, ?)", rows)

    def search(self, query_embedding: list[float], top_k: int) -> list[tuple[Chunk, float]]:
        """The chunks nearest in meaning, best first, with their cosines."""
        with self._open() as file:
            rows = file.execute("SELECT chunk, vector FROM chunks").fetchall()
        scored = [(_cosine(query_embedding, json.loads(vector)), chunk) for chunk, vector in rows]
        best = sorted(scored, key=lambda row: -row[0])[:top_k]
        return [(Chunk.model_validate_json(chunk), cosine) for cosine, chunk in best]

    def delete(self, chunk_ids: list[str]) -> None:
        """Remove chunks by id."""
        with self._open() as file:
            file.executemany("DELETE FROM chunks WHERE id = ?", [(chunk_id,) for chunk_id in chunk_ids])

    def count(self) -> int:
        """How many chunks there are."""
        with self._open() as file:
            return int(file.execute("SELECT count(*) FROM chunks").fetchone()[0])


def _cosine(one: list[float], other: list[float]) -> float:
    return float(sum(starmap(mul, zip(one, other, strict=True))))
