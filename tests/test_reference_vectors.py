"""Vectors in this process: of one length or, while an embedder changes or errs, of several."""

from __future__ import annotations

from contextlib import closing

import pytest
from searching import FACTS, Counting, fill, texts
from storing import ALICE

from memtrace.errors import AdapterError
from memtrace.model import Author, Message
from memtrace.reference import HashEmbedder, Namespace, ProcessRecall
from memtrace.reference.embedding import embedded
from memtrace.reference.indexed_search import IndexedSearch
from memtrace.reference.recall import Recall
from memtrace.reference.vectors import VectorIndex
from memtrace.stores import open_store

SPACE = Namespace("", "alice")


class Resizable:
    """An embedder whose vectors are as long as it is told; for some texts they are of another length."""

    def __init__(self, length=16):
        self.length = length
        self.of_facts = 0
        """What it adds to the length for all that is a fact."""

    def __call__(self, given):
        return HashEmbedder(self.length + (self.of_facts if given[0] in FACTS else 0))(given)


@pytest.fixture
def store():
    with closing(open_store(":memory:")) as store:
        fill(store)
        yield store


def found(search, query="saxophone", limit=1):
    return texts(search.search(ALICE, query, limit=limit, outgoing=str))


def vectors_of(length, count):
    return dict(enumerate(embedded(HashEmbedder(length), [f"text {n}" for n in range(count)])))


def test_an_index_is_exact_however_it_was_filled():
    vectors = vectors_of(16, 60)
    index = VectorIndex()
    for number, vector in vectors.items():
        index.put({number: vector})
    index.drop({n for n in range(60) if n % 3})
    nearest = index.nearest(vectors[30], 60)
    assert nearest[0] == (30, pytest.approx(1.0, abs=1e-6))
    assert sorted(number for number, _ in nearest) == list(range(0, 60, 3))
    assert [score for _, score in nearest] == sorted((score for _, score in nearest), reverse=True)


def test_a_vector_of_another_length_takes_the_place_of_the_first():
    short, long = vectors_of(16, 3), vectors_of(24, 3)
    index = VectorIndex()
    index.put(short)
    index.put({1: long[1]})
    assert sorted(number for number, _ in index.nearest(short[1], 9)) == [0, 2]
    assert index.nearest(long[1], 9) == [(1, pytest.approx(1.0, abs=1e-6))]
    assert [index.has(1, 16), index.has(1, 24)] == [False, True]
    index.drop({0, 1, 2, 3})
    assert index.nearest(short[0], 9) == index.nearest(long[1], 9) == []


def test_a_number_keeps_the_vector_that_it_has():
    vectors = vectors_of(16, 2)
    index = VectorIndex()
    index.put({0: vectors[0]})
    index.put({0: vectors[1]})
    assert index.nearest(vectors[0], 9) == [(0, pytest.approx(1.0, abs=1e-6))]


def test_facts_of_another_length_than_the_query_are_refused_and_spoil_nothing(store):
    embedder = Resizable()
    search = IndexedSearch(store, embedder)
    embedder.of_facts = 1
    with pytest.raises(AdapterError, match="gave 17 numbers where the query's vector has 16"):
        found(search)
    embedder.of_facts = 0
    assert found(search) == [FACTS[0]]
    assert sorted(found(search, limit=None)) == sorted(FACTS)


def test_one_query_of_another_length_spoils_nothing(store):
    embedder = Counting(Resizable())
    search = IndexedSearch(store, embedder)
    assert found(search) == [FACTS[0]]
    embedder.embed.length, embedder.embed.of_facts = 17, -1
    with pytest.raises(AdapterError, match="gave 16 numbers where the query's vector has 17"):
        found(search)
    embedder.embed.length, embedder.embed.of_facts = 16, 0
    embedder.seen.clear()
    assert found(search) == [FACTS[0]]
    assert embedder.facts == []


def test_an_embedder_that_changes_its_length_embeds_every_fact_anew(store):
    embedder = Counting(Resizable(64))
    search = IndexedSearch(store, embedder)
    assert found(search) == [FACTS[0]]
    for length in (32, 128):
        embedder.embed.length = length
        embedder.seen.clear()
        assert found(search) == [FACTS[0]]
        assert sorted(found(search, limit=None)) == sorted(FACTS)
        assert sorted(embedder.facts) == sorted(FACTS)


def test_recall_in_a_process_is_not_spoiled_by_a_vector_of_another_length():
    embedder = Resizable(17)
    index = ProcessRecall()
    recall = Recall(index, embedder)
    for length, text in ((17, "my locker code is 1234"), (16, "my locker is blue")):
        embedder.length = length
        recall.place(SPACE, recall.keep(SPACE, [Message(Author.USER, text)]), str)
    hits, _ = recall.search(SPACE, "my locker", 9, set(), str)
    assert sorted(hit.text for hit in hits) == ["my locker code is 1234", "my locker is blue"]
