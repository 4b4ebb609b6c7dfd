import threading
from contextlib import closing

import pytest
from searching import (
    FACTS,
    QUERIES,
    Counting,
    Turned,
    ask,
    fill,
    kept,
    require_pgvector,
    search,
    texts,
)
from storing import ALICE, BOB, until

from memtrace.errors import AdapterError, UsageError
from memtrace.model import Level, Record, Scope
from memtrace.reference import stored_search
from memtrace.reference.embedding import HashEmbedder
from memtrace.reference.indexed_search import IndexedSearch
from memtrace.reference.memory import Memory
from memtrace.reference.search import FactSearch
from memtrace.stores.conformance.crowd import in_children, in_threads
from memtrace.stores.postgres import PostgresStore


@pytest.fixture(autouse=True)
def pgvector(postgres_server):
    require_pgvector(postgres_server.url)


class TestAnswers:
    """They are those of the index in the process, exact and in a defined order."""

    @pytest.mark.parametrize("query", QUERIES)
    def test_a_search_finds_what_the_index_in_the_process_finds(self, store, query):
        fill(store)
        fill(store, ["bob's saxophone"], BOB)
        wanted = IndexedSearch(store, HashEmbedder(64)).search(ALICE, query, limit=None, outgoing=str)
        found = search(store, query)
        assert {m.record: pytest.approx(m.score, abs=1e-5) for m in wanted} == {m.record: m.score for m in found}
        assert [m.score for m in found] == pytest.approx([m.score for m in wanted], abs=1e-5)

    def test_of_equally_near_facts_the_newest_come_first(self, store):
        [old, new, other, twin] = fill(store, ["tea", "tea!", "jazz", "tea?"])
        again = store.add(Record(ALICE, "tea.", created_at=twin.created_at))
        assert [match.record for match in search(store, "tea", 4)] == [again, twin, new, old]
        assert [match.record for match in search(store, "tea", 2)] == [again, twin]
        assert [match.record for match in search(store, "tea", 1)] == [again]
        assert [match.record for match in search(store, "tea")][-1] == other

    @pytest.mark.parametrize(("limit", "count"), [(0, 0), (1, 1), (2**63, 7), (None, 7)])
    def test_at_most_so_many_are_found(self, store, limit, count):
        fill(store)
        assert len(search(store, "green", limit)) == count

    @pytest.mark.parametrize("has_vectors", [True, False], ids=["in the store", "in an index"])
    def test_a_negative_number_is_refused(self, store, monkeypatch, has_vectors):
        if not has_vectors:
            monkeypatch.setattr(store, "vectors", lambda: None)
        fill(store)
        with pytest.raises(UsageError, match="limit=-1"):
            search(store, "green", -1)

    def test_a_blank_query_and_a_scope_without_facts_find_nothing(self, store):
        fill(store)
        assert search(store, " ") == search(store, "green", scope=BOB) == search(store, "green", scope=Scope(
            Level.USER, "")) == []  # fmt: skip

    def test_what_the_embedder_gets_is_redacted_and_what_is_found_is_not(self, store):
        fill(store, ["calls from 555"])
        embedder = Counting()
        mine = FactSearch(store, embedder)
        found = mine.search(ALICE, "who calls from 555?", limit=1, outgoing=lambda text: text.replace("5", "*"))
        assert texts(found) == ["calls from 555"]
        assert not any("5" in text for text in embedder.seen)

    def test_a_memory_searches_in_its_store(self, store, postgres_url):
        memory = Memory(location=store, user_id="alice", semantic=True)
        for text in FACTS[:4]:
            memory.persist(text)
        assert [record.text for record in memory.retrieve("saxophone", limit=1)] == [FACTS[0]]
        assert len(kept(postgres_url)) == 4

    @pytest.mark.parametrize("known", ["nothing", "how many facts there were"])
    def test_a_search_reads_its_scopes_vectors_alone_whatever_the_planner_knows(self, opened, postgres_url, known):
        named = f"{postgres_url}{'&' if '?' in postgres_url else '?'}application_name=searching"
        with closing(opened(named)) as first:
            fill(first)
            search(first, "green")
        if known != "nothing":
            columns = "scope, scope_id, project_id, scope_sha256, confidence, source, source_trace_id, source_span_id"
            ask(
                postgres_url,
                f"INSERT INTO learned_memory ({columns}, created_at, fact, fact_sha256)"
                f" SELECT {columns}, created_at, 'more', int4send(n)"
                " FROM learned_memory, generate_series(1, 5000) AS n WHERE id = 1",
            )
            ask(postgres_url, "ANALYZE learned_memory")
            ask(postgres_url, "DELETE FROM learned_memory WHERE fact = 'more'")
        before = scans_of_vectors(postgres_url)
        with closing(opened(named)) as second:
            search(second, "green", 3)
        after = scans_of_vectors(postgres_url)
        assert after == {"whole": before["whole"], "by key": before["by key"] + len(FACTS)}


def scans_of_vectors(url):
    """How often the table was read, once the sessions that read it have ended and told."""
    until(lambda: not ask(url, "SELECT FROM pg_stat_activity WHERE application_name = 'searching'"))
    table = "'learned_memory_vectors'::regclass"
    [(whole, by_key)] = ask(url, f"SELECT seq_scan, idx_scan FROM pg_stat_user_tables WHERE relid = {table}")
    return {"whole": whole, "by key": by_key}


class TestProcesses:
    """What one embedded, none embeds again; what one added or forgot, all see."""

    def test_facts_of_another_process_are_found_by_the_first_query(self, store, opened):
        assert search(store, "green") == []
        assert in_children(1, lambda _: fill(opened())) == [0]
        assert texts(search(store, "saxophone", 1)) == [FACTS[0]]

    def test_a_second_process_embeds_no_fact(self, store, opened):
        fill(store)
        embedder = Counting()
        search(store, "green", embedder=embedder)
        assert sorted(embedder.facts) == sorted(FACTS)

        def find(_):
            embedder = Counting()
            assert texts(search(opened(), "saxophone", 1, embedder=embedder)) == [FACTS[0]]
            assert embedder.facts == []

        find(0)
        assert in_children(1, find) == [0]

    def test_only_what_is_new_is_embedded(self, store):
        fill(store)
        embedder = Counting()
        mine = FactSearch(store, embedder)
        mine.search(ALICE, "green", limit=None, outgoing=str)
        embedder.seen.clear()
        store.add(Record(ALICE, "paints green doors"))
        assert "paints green doors" in texts(mine.search(ALICE, "green", limit=3, outgoing=str))
        assert embedder.facts == ["paints green doors"]
        embedder.seen.clear()
        mine.search(ALICE, "green", limit=None, outgoing=str)
        assert embedder.seen == ["green"]

    def test_an_embedder_that_fails_half_way_goes_on_from_there(self, store, monkeypatch):
        monkeypatch.setattr(stored_search, "_AT_ONCE", 2)
        fill(store)
        embedder = Counting()

        def failing(texts):
            if len(embedder.facts) >= 4:
                raise OSError("no model")
            return embedder(texts)

        with pytest.raises(OSError, match="no model"):
            search(store, "green", embedder=failing)
        rest = Counting()
        assert len(search(store, "green", embedder=rest)) == len(FACTS)
        assert sorted(embedder.facts + rest.facts) == sorted(FACTS)

    def test_threads_and_processes_that_search_first_at_once_all_can(self, database):
        with closing(PostgresStore(database)) as store:
            fill(store)

        def find(_):
            with closing(PostgresStore(database)) as store:
                assert texts(search(store, "saxophone", 1)) == [FACTS[0]]
                assert store.vectors() is not None

        in_threads(4, find)
        ask(database, "DROP TABLE learned_memory_vectors, learned_memory_embedders")
        ask(database, "DROP EXTENSION vector")
        assert in_children(6, find) == [0] * 6
        assert ask(database, "SELECT count(*) FROM learned_memory_embedders") == [(1,)]


class TestForgetting:
    """What is forgotten has no row of vectors, and what is not active is never found."""

    @pytest.fixture
    def filled(self, store):
        records = fill(store)
        fill(store, ["plays chess"], BOB)
        search(store, "green")
        search(store, "green", scope=BOB)
        return records

    def test_a_forgotten_fact_leaves_no_vector(self, store, filled, postgres_url):
        assert filled[0].id in kept(postgres_url)
        assert store.delete(ALICE, filled[0].id) == 1
        assert filled[0].id not in kept(postgres_url)
        assert len(kept(postgres_url)) == len(FACTS)
        assert FACTS[0] not in texts(search(store, "saxophone"))

    def test_a_forgotten_scope_leaves_no_vector(self, store, filled, postgres_url):
        store.delete(ALICE)
        assert len(kept(postgres_url)) == 1
        assert search(store, "green") == []
        assert texts(search(store, "chess", scope=BOB)) == ["plays chess"]

    def test_pruned_facts_leave_no_vector(self, store, postgres_url):
        for number in range(5):
            store.add(Record(ALICE, f"fact {number}", source="learned"))
        search(store, "fact")
        store.prune(ALICE, "learned", 2)
        assert kept(postgres_url) == sorted(record.id for record in store.newest(ALICE))

    def test_a_superseded_fact_is_not_found_and_its_vector_goes(self, store, filled, postgres_url):
        new = store.supersede(ALICE, filled[0].id, Record(ALICE, "sold the saxophone"))
        assert texts(search(store, "plays the saxophone in a quartet")).count(FACTS[0]) == 0
        assert filled[0].id not in kept(postgres_url)
        assert new.id in kept(postgres_url)

    def test_a_fact_whose_place_another_took_is_not_found(self, store, filled):
        store.supersede(ALICE, filled[0].id, Record(ALICE, FACTS[1]))
        assert sorted(texts(search(store, FACTS[0]))) == sorted(FACTS[1:])

    def test_what_is_forgotten_while_it_is_embedded_stays_forgotten(self, store, opened, postgres_url):
        records = fill(store)
        other = opened()

        def forgetting(texts):
            if FACTS[0] in texts:
                other.delete(ALICE, records[0].id)
                other.supersede(ALICE, records[1].id, Record(ALICE, "likes peanuts"))
            return HashEmbedder(64)(texts)

        found = texts(search(store, "saxophone peanuts", embedder=forgetting))
        assert not {FACTS[0], FACTS[1]} & set(found)
        assert kept(postgres_url) == [record.id for record in records[2:]]

    def test_searches_and_deletions_that_cross_each_other_all_end(self, store, opened, postgres_url):
        done = threading.Event()

        def work(thread):
            if thread == 0:
                try:
                    for _ in range(15):
                        for record in fill(store):
                            store.delete(ALICE, record.id)
                        fill(store)
                        store.delete(ALICE)
                finally:
                    done.set()
            while not done.is_set():
                search(store, "green")

        in_threads(3, work)
        assert kept(postgres_url) == []


class TestEmbedders:
    """One embedder's vectors are compared with its own alone."""

    @pytest.mark.parametrize(
        "second", [HashEmbedder(32), HashEmbedder(128), Turned()], ids=["shorter", "longer", "turned"]
    )
    def test_another_embedder_has_vectors_of_its_own(self, store, postgres_url, second):
        records = fill(store)
        search(store, "saxophone")
        later = Counting(second)
        assert texts(search(store, "saxophone", 1, embedder=later)) == [FACTS[0]]
        assert sorted(later.facts) == sorted(FACTS)
        first = Counting()
        assert texts(search(store, "saxophone", 1, embedder=first)) == [FACTS[0]]
        assert first.facts == []
        store.delete(ALICE, records[0].id)
        assert len(kept(postgres_url)) == 2 * (len(FACTS) - 1)

    def test_an_embedder_that_changes_while_a_process_runs_is_another(self, store):
        fill(store)
        sizes = [64]
        mine = FactSearch(store, lambda texts: HashEmbedder(sizes[0])(texts))
        assert texts(mine.search(ALICE, "saxophone", limit=1, outgoing=str)) == [FACTS[0]]
        sizes[0] = 32
        assert texts(mine.search(ALICE, "saxophone", limit=1, outgoing=str)) == [FACTS[0]]

    def test_a_model_that_does_not_repeat_itself_exactly_is_the_same(self, store):
        fill(store)
        search(store, "saxophone")
        near = Counting(lambda texts: [[n + 1e-4 for n in vector] for vector in HashEmbedder(64)(texts)])
        assert texts(search(store, "saxophone", 1, embedder=near)) == [FACTS[0]]
        assert near.facts == []

    def test_vectors_of_two_lengths_in_one_search_are_refused_and_not_kept(self, store, postgres_url):
        fill(store)
        with pytest.raises(AdapterError, match="gave 32 numbers where the query's vector has 64"):
            search(store, "green", embedder=lambda texts: HashEmbedder(64 if texts[0] in (
                "green", stored_search._PROBE) else 32)(texts))  # fmt: skip
        assert kept(postgres_url) == []
