"""What the tests of vectors on Postgres share: facts, queries, embedders, and places with and without pgvector."""

import os
from contextlib import contextmanager
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from storing import ALICE

from memtrace.model import Record
from memtrace.reference import stored_search
from memtrace.reference.embedding import HashEmbedder
from memtrace.reference.search import FactSearch

FACTS = (
    "plays the saxophone in a quartet",
    "is allergic to peanuts",
    "lives in Lisbon with two cats",
    "drinks green tea in the morning",
    "plays chess on Sundays",
    "drives a green van to Lisbon",
    "",
)
QUERIES = ("saxophone", "what is alice allergic to?", "green", "plays in Lisbon", "tea, cats and chess", "zzz")


class Counting:
    """An embedder that tells which facts it was given, whatever else it was asked."""

    def __init__(self, embed=None):
        self.embed = embed or HashEmbedder(64)
        self.seen = []

    def __call__(self, texts):
        self.seen += texts
        return self.embed(texts)

    @property
    def facts(self):
        return [text for text in self.seen if text not in QUERIES and text != stored_search._PROBE]


class Turned:
    """Another model: its vectors are as long as the first one's, and mean something else."""

    def __call__(self, texts):
        return [vector[::-1] for vector in HashEmbedder(64)(texts)]


def require_pgvector(url):
    if not ask(url, "SELECT 1 FROM pg_available_extensions WHERE name = 'vector'"):
        if os.environ.get("MEMTRACE_REQUIRE_SERVICES") == "1":
            raise AssertionError("this Postgres has no pgvector")
        pytest.skip("this Postgres has no pgvector")


@contextmanager
def database_without_vectors(server):
    """The URL of a database that has not the extension, on a server that could have it."""
    require_pgvector(server.url)
    if server.given:
        pytest.skip("the server is somebody else's")
    name = "without_vectors"
    ask(server.url, f"CREATE DATABASE {name} TEMPLATE template0")
    try:
        yield urlunsplit(urlsplit(server.url)._replace(path=f"/{name}"))
    finally:
        ask(server.url, f"DROP DATABASE {name} WITH (FORCE)")


def ask(url, question, *values):
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(question, values)
        return cursor.fetchall() if cursor.description else []


def fill(store, texts=FACTS, scope=ALICE):
    return [store.add(Record(scope, text, created_at=number)) for number, text in enumerate(texts, 1)]


def search(store, query, limit=None, *, scope=ALICE, embedder=None):
    return FactSearch(store, embedder or HashEmbedder(64)).search(scope, query, limit=limit, outgoing=str)


def texts(matches):
    return [match.record.text for match in matches]


def kept(url):
    """The records that have a vector."""
    return sorted(number for (number,) in ask(url, "SELECT record_id FROM learned_memory_vectors"))
