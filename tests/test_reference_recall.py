"""Recall and search by meaning: whose words come back, and what an embedder's failure costs."""

from __future__ import annotations

import math
import os
import random

import numpy as np
import pytest
from remembering import Lab, MemoryModel, ask, say, systems, user_scope, window

from memtrace.errors import AdapterError, StoreError, UsageError
from memtrace.model import Author, Message
from memtrace.reference import HashEmbedder, Namespace, ProcessRecall, SqliteRecall
from memtrace.reference.embedding import embedded

pytestmark = pytest.mark.filterwarnings("ignore::memtrace.identity.IdKeyWarning")

ALICE, BOB = Namespace("", "alice"), Namespace("", "bob")


@pytest.fixture
def lab(tmp_path):
    lab = Lab(tmp_path)
    yield lab
    lab.store.close()


@pytest.fixture(params=["process", "sqlite"])
def index(request, tmp_path):
    return ProcessRecall() if request.param == "process" else SqliteRecall(tmp_path / "recall.db")


class Embedder(HashEmbedder):
    """Fails while it is told to, or at texts with a word in it."""

    def __init__(self):
        super().__init__()
        self.down = False
        self.poison = "\0"
        self.asked = []

    def __call__(self, texts):
        self.asked.append(list(texts))
        if self.down or any(self.poison in text for text in texts):
            raise ConnectionError("no embedder")
        return super().__call__(texts)


def message(text, author=Author.USER):
    return Message(author, text)


def fill(index, namespace, *texts):
    numbers = index.add(namespace, [message(text) for text in texts])
    index.place(namespace, dict(zip(numbers, embedded(HashEmbedder(), texts), strict=True)))
    return numbers


def near(index, namespace, query, limit=5):
    [vector] = embedded(HashEmbedder(), [query])
    return [hit.text for hit in index.search(namespace, vector, limit)]


def test_both_messages_of_an_earlier_turn_come_back_under_their_authors(lab, index):
    memory = lab.memory(recall=index, window=2)
    say(memory, "alice", "My class is spin on Tuesday", "Tuesday spin class noted")
    say(memory, "alice", "hello")
    [block] = systems(memory.open("alice").read("Which spin class on Tuesday?"))
    assert block.splitlines() == [
        "Relevant prior exchanges:",
        '- [user] "My class is spin on Tuesday"',
        '- [assistant] "Tuesday spin class noted"',
    ]


def test_what_the_window_holds_is_not_recalled_as_well(lab, index):
    memory = lab.memory(recall=index, window=2)
    say(memory, "alice", "I take the spin class")
    for number in range(8):
        say(memory, "alice", "spin class?", f"spin class {number}")
    prompt = memory.open("alice").read("spin class?")
    assert window(prompt) == ["spin class?", "spin class 7"]
    assert "spin class 7" not in systems(prompt)[0]
    assert '"spin class?"' not in systems(prompt)[0]
    assert len(systems(prompt)[0].splitlines()) == 6


def test_recall_is_the_callers_only_however_much_others_say(lab, index):
    memory = lab.memory(recall=index, window=0)
    say(memory, "quiet", "my locker code is quietword")
    for number in range(50):
        say(memory, "busy", f"my locker code is busyword {number}")
    assert "quietword" in ask(memory, "quiet", "what is my locker code?")
    assert "busyword" not in ask(memory, "quiet", "what is my locker code?")
    assert "quietword" not in ask(memory, "busy", "what is my locker code?")


def test_a_search_stays_in_its_namespace_and_gives_the_nearest_first(index):
    fill(index, ALICE, "blue whale", "blue", "green frog"), fill(index, BOB, *["blue whale"] * 30)
    fill(index, Namespace("alice", ""), "blue whale of a project")
    assert near(index, ALICE, "blue whale", 2) == ["blue whale", "blue"]
    assert near(index, ALICE, "blue whale", 0) == []
    assert near(index, Namespace("", "nobody"), "blue whale") == []


def test_deleting_one_user_leaves_the_others_search_right(index):
    fill(index, ALICE, "blue whale"), fill(index, BOB, "blue bird")
    assert index.delete(BOB) == 1
    assert near(index, BOB, "blue") == []
    assert near(index, ALICE, "blue") == ["blue whale"]
    fill(index, BOB, "blue sky")
    assert near(index, BOB, "blue") == ["blue sky"]


def test_single_messages_are_deleted_for_good_and_numbers_are_not_used_again(index):
    one, two = fill(index, ALICE, "blue whale", "blue bird")
    assert index.delete(BOB, [one]) == 0
    assert index.delete(ALICE, [two]) == 1
    [three] = fill(index, ALICE, "blue sky")
    assert three > two
    index.place(ALICE, dict(zip([two], embedded(HashEmbedder(), ["ghost"]), strict=True)))
    assert sorted(near(index, ALICE, "blue ghost")) == ["blue sky", "blue whale"]


def test_a_failing_embedder_loses_no_text_and_shows(lab, index, caplog):
    embedder = Embedder()
    memory = lab.memory(recall=index, window=0, embedder=embedder)
    embedder.down = True
    say(memory, "alice", "my locker code is 1234")
    assert not lab.spans("memory.write.vector")[-1].status.is_ok
    assert not lab.spans("memory.read.vector")[-1].status.is_ok
    assert caplog.text.count("ConnectionError") == 2
    embedder.down = False
    assert "locker code is 1234" in ask(memory, "alice", "what is my locker code?")
    assert lab.spans("memory.read.vector")[-1].status.is_ok


def test_a_text_that_the_embedder_refuses_does_not_hold_up_the_others(lab, index):
    embedder = Embedder()
    memory = lab.memory(recall=index, window=0, embedder=embedder)
    embedder.down = True
    say(memory, "alice", "my locker code is 1234"), say(memory, "alice", "poison locker code")
    embedder.down, embedder.poison = False, "poison"
    assert "1234" in ask(memory, "alice", "what is my locker code?")
    assert "poison" not in ask(memory, "alice", "what is my locker code?")


def test_what_has_nothing_in_common_with_the_question_is_not_recalled(lab, index):
    memory = lab.memory(recall=index, window=0)
    say(memory, "alice", "I take the spin class")
    assert ask(memory, "alice", "zebra") == ""


def test_texts_that_the_embedder_refuses_here_and_there_do_not_count_as_an_outage(lab, index):
    embedder = Embedder()
    memory = lab.memory(recall=index, window=0, embedder=embedder)
    embedder.down = True
    for number in range(3):
        say(memory, "alice", f"locker code {number}", f"poison {number}")
    embedder.down, embedder.poison = False, "poison"
    assert sorted(line[-2] for line in ask(memory, "alice", "locker code?").splitlines()[1:]) == ["0", "1", "2"]


def test_an_embedder_that_is_down_is_not_asked_for_every_text_that_waits(lab, index):
    embedder = Embedder()
    memory = lab.memory(recall=index, window=0, embedder=embedder)
    embedder.down = True
    for number in range(5):
        say(memory, "alice", f"locker {number}", f"locker {number}!")
    embedder.down, embedder.poison = False, "locker"
    embedder.asked.clear()
    ask(memory, "alice", "hello")
    assert len(embedder.asked) == 3


def test_blank_messages_are_neither_kept_nor_searched_for(lab, index):
    embedder = Embedder()
    memory = lab.memory(recall=index, window=0, embedder=embedder)
    say(memory, "alice", "  ", "\n")
    assert embedder.asked == []


@pytest.mark.parametrize(
    "reply",
    [[], [[0.0, 0.0]], [[math.nan, 1.0]], [[math.inf, 1.0]], [[]], [["x"]], [[1.0], [1.0]], [1.0], [[[1.0]]]],
    ids=repr,
)
def test_no_unusable_vector_is_kept(lab, index, reply):
    memory = lab.memory(recall=index, window=0, embedder=lambda texts: reply)
    turn = memory.open("alice")
    turn.write("hello", "")
    [span] = lab.spans("memory.write.vector")
    assert span.attributes["error.type"] == "memtrace.errors.AdapterError"
    assert len(index.unplaced(ALICE, 2, 9)) == 1


def test_vectors_of_different_lengths_are_refused():
    with pytest.raises(AdapterError, match="lengths"):
        embedded(lambda texts: [[1.0], [1.0, 2.0]], ["a", "b"])


def test_the_default_embedder_brings_texts_that_share_words_together():
    fish, dish, other = embedded(HashEmbedder(), ["I like fish soup", "fish soup", "Lisbon by night"])
    assert fish @ dish > 0.5 > abs(fish @ other)
    assert all(np.linalg.norm(v) == pytest.approx(1) for v in embedded(HashEmbedder(2), ["", "!", "a b c d", "\ud800"]))


def test_own_recall_survives_a_restart_and_other_processes_share_it(lab):
    path = lab.path / "recall.db"
    say(lab.memory(recall=SqliteRecall(path), window=0), "alice", "my locker code is 1234")
    later = lab.memory(recall=SqliteRecall(path), window=0)
    assert "1234" in ask(later, "alice", "what is my locker code?")
    say(lab.memory(recall=SqliteRecall(path), window=0), "alice", "my locker number is 77")
    assert "77" in ask(later, "alice", "what is my locker number?")


def test_own_recall_is_kept_when_windows_are_dropped(lab):
    memory = lab.memory(recall=SqliteRecall(lab.path / "recall.db"), window=0, max_users=1)
    say(memory, "alice", "my locker code is 1234"), say(memory, "bob", "hello")
    assert "1234" in ask(memory, "alice", "what is my locker code?")


def test_after_a_change_of_the_embedder_earlier_messages_are_embedded_anew(lab):
    path = lab.path / "recall.db"
    say(lab.memory(recall=SqliteRecall(path), window=0, embedder=HashEmbedder(64)), "alice", "my locker code is 1234")
    later = lab.memory(recall=SqliteRecall(path), window=0, embedder=HashEmbedder(128))
    assert "1234" in ask(later, "alice", "what is my locker code?")


def test_ids_and_texts_of_any_kind_go_in_and_out_of_own_recall(lab):
    index = SqliteRecall(lab.path / "recall.db")
    odd = Namespace("p\0", "u\ud800")
    fill(index, odd, "blue \0 \ud800 whale")
    assert near(index, odd, "blue whale") == ["blue \0 \ud800 whale"]
    assert near(index, Namespace("p", "u\ud800"), "blue whale") == []


def test_a_recall_file_that_cannot_be_opened_is_one_clear_line(tmp_path):
    with pytest.raises(StoreError, match="missing"):
        SqliteRecall(tmp_path / "missing" / "recall.db")
    (tmp_path / "text.db").write_text("no database" * 100)
    with pytest.raises(StoreError, match=r"text\.db"):
        SqliteRecall(tmp_path / "text.db")


def searching(lab, **options):
    return lab.memory(semantic=True, **options)


def texts(memory, query, user="alice", **options):
    return [record.text for record in memory.retrieve(query, scope_id=user, **options)]


def test_search_works_in_a_fresh_process_on_its_first_query(lab):
    writer = searching(lab)
    writer.persist("Plays saxophone in a jazz quartet", scope_id="alice")
    writer.persist("Is allergic to peanuts", scope_id="alice")
    assert texts(searching(lab), "which jazz?", limit=1) == ["Plays saxophone in a jazz quartet"]
    assert texts(searching(lab), "peanuts", user="bob") == []


def test_what_another_process_added_updated_or_forgot_is_seen_by_one_that_already_searched(lab):
    here, there = searching(lab), searching(lab)
    old = there.persist("Lives in Lisbon", scope_id="alice")
    assert texts(here, "lives where") == ["Lives in Lisbon"]
    there.update("Lives in Porto", old=old.id, scope_id="alice")
    assert texts(here, "lives where") == ["Lives in Porto"]
    there.persist("Has a dog", scope_id="alice")
    assert texts(here, "a dog", limit=1) == ["Has a dog"]
    there.forget(scope_id="alice", fact="Lives in Porto")
    assert texts(here, "lives where") == ["Has a dog"]
    there.forget(scope_id="alice")
    assert texts(here, "lives where") == []


def test_forgetting_one_user_leaves_the_others_search_right(lab):
    memory = searching(lab)
    for user in ("alice", "bob"):
        memory.persist(f"{user} plays jazz", scope_id=user)
        assert texts(memory, "jazz", user=user) == [f"{user} plays jazz"]
    memory.forget(scope_id="bob")
    assert texts(memory, "jazz") == ["alice plays jazz"]
    assert texts(memory, "jazz", user="bob") == []


def test_a_failing_embedder_fails_the_search_visibly_and_a_later_one_finds_all(lab):
    embedder = Embedder()
    memory = searching(lab, embedder=embedder)
    memory.persist("Plays jazz", scope_id="alice")
    embedder.down = True
    with pytest.raises(ConnectionError):
        memory.retrieve("jazz", scope_id="alice")
    assert not lab.spans("memory.retrieve")[-1].status.is_ok
    embedder.down = False
    assert texts(memory, "jazz") == ["Plays jazz"]


def test_a_fact_is_embedded_once(lab):
    embedder = Embedder()
    memory = searching(lab, embedder=embedder)
    memory.persist("Plays jazz", scope_id="alice")
    texts(memory, "jazz"), texts(memory, "jazz")
    assert sum(asked.count("Plays jazz") for asked in embedder.asked) == 1


def test_a_query_without_semantic_is_refused(lab):
    with pytest.raises(UsageError, match="semantic"):
        lab.memory().retrieve("jazz", scope_id="alice")


def test_a_superseded_facts_vector_is_dropped(lab):
    memory = searching(lab)
    old = memory.persist("Lives in Lisbon", scope_id="alice")
    texts(memory, "lives")
    memory.update("Lives in Porto", old=old.id, scope_id="alice")
    texts(memory, "lives")
    held = memory._kept.search._indexed._scopes[user_scope("alice")]
    assert list(held.texts.values()) == ["Lives in Porto"]
    assert len(held.index) == 1


def test_recall_with_learning_shows_each_text_once(lab, index):
    memory = lab.memory(recall=index, learn=MemoryModel(), window=0)
    say(memory, "alice", "I like fish")
    assert ask(memory, "alice", "I like fish").count("I like fish") == 1


def test_nothing_of_a_deleted_user_stays_in_the_file_of_own_recall(lab):
    """Texts and vectors of many sizes make SQLite move rows about, which leaves copies of them behind."""
    index, chance = SqliteRecall(lab.path / "recall.db"), random.Random(0)
    for number in range(200):
        namespace, word = chance.choice([(ALICE, "secretword"), (BOB, "plainword")])
        [kept] = index.add(namespace, [message(f"{word} {number} " * chance.randint(1, 60))])
        if chance.random() < 0.9:
            index.place(namespace, {kept: np.ones(chance.choice([64, 512]), dtype=np.float32)})
    assert b"secretword" in lab.raw()
    index.delete(ALICE)
    assert b"secretword" not in lab.raw()
    assert b"plainword" in lab.raw()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_memory_opened_before_a_fork_works_in_parent_and_child(lab):
    memory = lab.memory(recall=SqliteRecall(lab.path / "recall.db"), learn=MemoryModel('["has a locker"]'), window=0)
    say(memory, "alice", "my locker code is 1234")
    child = os.fork()
    if not child:
        found = "1234" in ask(memory, "alice", "what is my locker code?")
        say(memory, "alice", "my locker number is 77")
        os._exit(0 if found else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert "77" in ask(memory, "alice", "what is my locker number?")
