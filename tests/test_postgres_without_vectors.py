"""A Postgres store whose database keeps no vectors, or loses its place for them; search then does without."""

import logging
from contextlib import closing

import pytest
from searching import FACTS, Turned, ask, fill, kept, require_pgvector, search, texts
from storing import ALICE, PATIENCE

from memtrace.errors import StoreError
from memtrace.harness.faults.proxy import FaultProxy
from memtrace.reference.embedding import HashEmbedder
from memtrace.reference.search import FactSearch
from memtrace.stores import SqliteStore, postgres_pgvector
from memtrace.stores.postgres import PostgresStore
from memtrace.stores.vectors import VectorsLost


@pytest.fixture(autouse=True)
def pgvector(postgres_server):
    require_pgvector(postgres_server.url)


@pytest.fixture
def as_guest(postgres_server, database):
    """That database, for a role that may make tables and no extension."""
    ask(postgres_server.url, "CREATE ROLE modest LOGIN")
    ask(database, "GRANT CREATE ON SCHEMA public TO modest")
    yield database.replace("://postgres@", "://modest@")
    ask(database, "DROP OWNED BY modest CASCADE")
    ask(postgres_server.url, "DROP ROLE modest")


class TestWithoutPgvector:
    """Search works by an index in the process, and the log says once why."""

    def assert_falls_back(self, url, caplog, reason):
        with closing(PostgresStore(url)) as store, caplog.at_level(logging.INFO, "memtrace"):
            fill(store)
            assert store.vectors() is None
            mine = FactSearch(store, HashEmbedder(64))
            assert texts(mine.search(ALICE, "saxophone", limit=1, outgoing=str)) == [FACTS[0]]
            store.delete(ALICE, store.newest(ALICE)[-1].id)
            assert FACTS[0] not in texts(mine.search(ALICE, "saxophone", limit=1, outgoing=str))
        [line] = [record for record in caplog.records if "keeps no vectors" in record.message]
        assert line.levelno == logging.INFO
        assert reason in line.message

    def test_a_user_who_may_not_install_it(self, as_guest, caplog):
        self.assert_falls_back(as_guest, caplog, "permission denied to create extension")

    def test_a_server_that_does_not_have_it(self, database, caplog, monkeypatch):
        monkeypatch.setattr(postgres_pgvector, "_AVAILABLE", "SELECT true WHERE false")
        self.assert_falls_back(database, caplog, "has no extension vector")

    def test_a_server_that_lists_it_and_refuses_it(self, database, caplog, monkeypatch):
        monkeypatch.setattr(postgres_pgvector, "_SHARED", "SELECT nspname FROM pg_namespace WHERE nspname = 'public'")
        ask(database, """
            CREATE FUNCTION refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$
                BEGIN RAISE 'extension "vector" is not allow-listed' USING ERRCODE = 'feature_not_supported'; END $$;
            CREATE EVENT TRIGGER refuse ON ddl_command_start WHEN TAG IN ('CREATE EXTENSION') EXECUTE FUNCTION refuse()
            """)  # fmt: skip
        self.assert_falls_back(database, caplog, "not allow-listed")

    def test_a_user_who_may_not_use_anothers_vectors(self, as_guest, database, caplog):
        with closing(PostgresStore(database)) as store:
            assert store.vectors() is not None
        ask(database, "GRANT ALL ON learned_memory TO modest")
        self.assert_falls_back(as_guest, caplog, "may not use learned_memory_vectors")
        with closing(PostgresStore(as_guest)) as store:
            ask(database, "GRANT ALL ON learned_memory_vectors, learned_memory_embedders TO modest")
            assert texts(search(store, "cats", 1)) == [FACTS[2]]
            assert store.delete(ALICE) == len(FACTS) - 1
        assert kept(database) == []

    def test_a_database_that_is_read_only(self, store, opened, postgres_url, caplog):
        fill(store)
        reading = opened(
            f"{postgres_url}{'&' if '?' in postgres_url else '?'}options=-cdefault_transaction_read_only%3Don"
        )
        with caplog.at_level(logging.INFO, "memtrace"):
            assert texts(search(reading, "saxophone", 1)) == [FACTS[0]]
        assert "it is read-only" in caplog.text

    def test_vectors_of_a_table_that_was_dropped_are_not_used(self, store, opened, postgres_url, caplog):
        fill(store)
        search(store, "green")
        ask(postgres_url, "DROP TABLE learned_memory CASCADE")
        anew = opened()
        fill(anew, FACTS[::-1])
        with caplog.at_level(logging.INFO, "memtrace"):
            assert texts(search(anew, "saxophone", 1)) == [FACTS[0]]
        assert "drop it and learned_memory_embedders" in caplog.text
        anew.close()
        ask(postgres_url, "DROP TABLE learned_memory_vectors")
        ask(postgres_url, "DROP TABLE learned_memory_embedders")
        assert texts(search(anew, "saxophone", 1)) == [FACTS[0]]
        assert len(kept(postgres_url)) == len(FACTS)

    def test_other_stores_have_no_place_for_vectors(self, tmp_path):
        with closing(SqliteStore(tmp_path / "facts.db")) as store:
            assert store.vectors() is None
            fill(store)
            assert texts(search(store, "saxophone", 1)) == [FACTS[0]]


class TestFailures:
    """A store that fails is told as ever, and found well again by the next query."""

    @pytest.mark.parametrize("known", [False, True], ids=["first query", "later query"])
    def test_an_outage_is_a_store_error(self, opened, postgres_url, known):
        with FaultProxy(postgres_url) as proxy:
            store = opened(proxy.url(postgres_url), timeout=PATIENCE)
            fill(store)
            mine = FactSearch(store, HashEmbedder(64))
            if known:
                mine.search(ALICE, "green", limit=None, outgoing=str)
            proxy.refuse()
            with pytest.raises(StoreError, match="cannot be reached"):
                mine.search(ALICE, "green", limit=None, outgoing=str)
            proxy.black_hole()
            with pytest.raises(StoreError, match="did not answer in time"):
                mine.search(ALICE, "green", limit=None, outgoing=str)
            proxy.pass_through()
            assert texts(mine.search(ALICE, "saxophone", limit=1, outgoing=str)) == [FACTS[0]]

    @pytest.mark.parametrize(
        "drop", ["TABLE learned_memory_vectors, learned_memory_embedders", "EXTENSION vector CASCADE"]
    )
    def test_what_is_dropped_is_made_again(self, database, drop):
        with closing(PostgresStore(database)) as store, closing(PostgresStore(database)) as another:
            fill(store)
            searches = [FactSearch(each, HashEmbedder(64)) for each in (store, another)]
            for mine in searches:
                mine.search(ALICE, "green", limit=None, outgoing=str)
            ask(database, f"DROP {drop}")
            assert texts(searches[0].search(ALICE, "saxophone", limit=1, outgoing=str)) == [FACTS[0]]
            assert len(kept(database)) == len(FACTS)

    def test_an_extension_that_is_dropped_and_not_permitted_again_is_done_without(self, database, caplog, monkeypatch):
        with closing(PostgresStore(database)) as store:
            fill(store)
            mine = FactSearch(store, HashEmbedder(64))
            mine.search(ALICE, "green", limit=None, outgoing=str)
            ask(database, "DROP EXTENSION vector CASCADE")
            monkeypatch.setattr(postgres_pgvector, "_AVAILABLE", "SELECT true WHERE false")
            with caplog.at_level(logging.INFO, "memtrace"):
                for _ in range(2):
                    assert texts(mine.search(ALICE, "saxophone", limit=1, outgoing=str)) == [FACTS[0]]
            assert caplog.text.count("keeps no vectors") == 1
            assert store.delete(ALICE) == len(FACTS)

    def test_a_table_of_embedders_that_is_dropped_is_done_without(self, store, postgres_url, caplog):
        fill(store)
        search(store, "green")
        ask(postgres_url, "DROP TABLE learned_memory_embedders CASCADE")
        with caplog.at_level(logging.INFO, "memtrace"):
            assert texts(search(store, "saxophone", 1)) == [FACTS[0]]
        assert "drop learned_memory_vectors too" in caplog.text

    def test_embedders_whose_vectors_are_dropped_are_done_without(self, store, postgres_url, caplog):
        fill(store)
        mine = FactSearch(store, HashEmbedder(64))
        mine.search(ALICE, "green", limit=None, outgoing=str)
        ask(postgres_url, "DROP TABLE learned_memory_vectors")
        with caplog.at_level(logging.INFO, "memtrace"):
            for _ in range(2):
                assert texts(mine.search(ALICE, "saxophone", limit=1, outgoing=str)) == [FACTS[0]]
        assert caplog.text.count("drop learned_memory_embedders too") == 1
        store.close()
        ask(postgres_url, "DROP TABLE learned_memory_embedders")
        assert texts(mine.search(ALICE, "saxophone", limit=1, outgoing=str)) == [FACTS[0]]
        assert len(kept(postgres_url)) == len(FACTS)

    @pytest.mark.parametrize(
        "change",
        [
            "TRUNCATE learned_memory_vectors, learned_memory_embedders RESTART IDENTITY",
            "DROP TABLE learned_memory_vectors, learned_memory_embedders",
        ],
    )
    def test_a_process_that_knows_an_embedder_of_before_compares_with_no_others(self, opened, postgres_url, change):
        [first, second] = [FactSearch(opened(), embed) for embed in (HashEmbedder(64), Turned())]
        fill(opened())
        first.search(ALICE, "saxophone", limit=None, outgoing=str)
        ask(postgres_url, change)
        for mine in (second, first):
            assert texts(mine.search(ALICE, "saxophone", limit=1, outgoing=str)) == [FACTS[0]]
        assert ask(postgres_url, "SELECT count(*) FROM learned_memory_embedders") == [(2,)]

    def test_tables_that_are_dropped_while_they_are_looked_for_are_lost(self, store, monkeypatch):
        fill(store)
        monkeypatch.setattr(postgres_pgvector, "_PERMITTED", "SELECT true FROM dropped_meanwhile")
        with pytest.raises(VectorsLost, match=r"has lost its place for vectors .*: search again"):
            store.vectors()
        monkeypatch.undo()
        assert texts(search(store, "saxophone", 1)) == [FACTS[0]]

    def test_a_deadlock_is_told(self, store, postgres_url):
        fill(store)
        ask(postgres_url, """
            CREATE FUNCTION deadlock() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN RAISE 'deadlock detected' USING ERRCODE = 'deadlock_detected'; END $$;
            CREATE TRIGGER deadlock BEFORE DELETE ON learned_memory FOR EACH ROW EXECUTE FUNCTION deadlock()
            """)  # fmt: skip
        with pytest.raises(StoreError, match=r"^postgresql://\S+ gave this up, since another changes the tables at"):
            store.delete(ALICE)

    def test_another_applications_table_is_left_alone(self, store, postgres_url):
        ask(postgres_url, "CREATE TABLE learned_memory_vectors (vector text)")
        with pytest.raises(StoreError, match=r"table learned_memory_vectors in schema .* not memtrace's"):
            search(store, "green")
