"""What is forgotten stays forgotten: in every place, every process, and against every turn that is still open."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from remembering import Lab, MemoryModel, ask, keep_all, say, user_scope, window

from memtrace.errors import StoreError, UsageError
from memtrace.model import Level, Scope
from memtrace.reference import HashEmbedder, Namespace, SqliteRecall, TurnLog
from memtrace.reference.window import Key

pytestmark = pytest.mark.filterwarnings("ignore::memtrace.identity.IdKeyWarning")


@pytest.fixture
def lab(tmp_path):
    lab = Lab(tmp_path)
    yield lab
    lab.store.close()


def full(lab, **options):
    """A memory with everything, all of it on disk where it can be."""
    settings = {
        "learn": MemoryModel(),
        "summarize": MemoryModel(lambda messages: " ".join(m.text for m in messages)),
        "recall": SqliteRecall(lab.path / "recall.db"),
        "turn_log": TurnLog(lab.path / "turns.db"),
        "semantic": True,
        "window": 2,
    }
    return lab.memory(**{**settings, **options})


def fill(memory, user, word):
    for sentence in ("my code is", "my dog is", "my car is", "my tea is"):
        say(memory, user, f"{sentence} {word}", f"so it is {word}")
    old = memory.persist(f"by hand {word}", scope_id=user)
    memory.update(f"new {word}", old=old.id, scope_id=user)
    memory.retrieve("code", scope_id=user)


def test_an_erased_user_is_gone_from_every_place_and_the_others_are_not(lab):
    memory = full(lab)
    fill(memory, "alice", "secretword"), fill(memory, "bob", "plainword")
    memory.for_user("alice").save(lab.path / "alice.json"), memory.for_user("bob").save(lab.path / "bob.json")
    erased = memory.erase("alice")
    assert (erased.facts, erased.conversations, erased.recalled, erased.files) == (6, 1, 8, 1)
    lab.store.close()
    assert b"secretword" not in lab.raw()
    assert "secretword" not in ask(memory, "alice", "what is my code?")
    assert memory.for_user("alice").messages == []
    assert memory.retrieve("code", scope_id="alice") == []
    assert len(lab.facts("bob")) == 5
    assert ask(memory, "bob", "what is my code?").count("plainword") > 6
    memory.for_user("bob").load(lab.path / "bob.json")
    [again] = [say(memory, "alice", "hello"), ask(memory, "alice")][1:]
    assert "hello" in again


def test_no_prompt_of_extractor_or_summary_holds_an_erased_users_words(lab):
    learn, summarize = MemoryModel(), MemoryModel(lambda messages: " ".join(m.text for m in messages))
    memory = full(lab, learn=learn, summarize=summarize)
    fill(memory, "alice", "secretword")
    memory.erase("alice")
    learn.prompts.clear(), summarize.prompts.clear()
    for number in range(3):
        say(memory, "alice", f"hello {number}")
    assert len(learn.prompts) == 3
    assert len(summarize.prompts) == 2
    assert "secretword" not in repr((learn.prompts, summarize.prompts))


def test_erasing_reaches_windows_and_recall_that_another_process_knows_by_heart(lab):
    here, there = full(lab, recall="auto"), full(lab, recall="auto")
    fill(there, "alice", "secretword"), fill(there, "bob", "plainword")
    here.erase("alice")
    assert "secretword" not in ask(there, "alice", "what is my code?")
    assert there.for_user("alice").messages == []
    assert "plainword" in ask(there, "bob", "what is my code?")
    say(there, "alice", "hello")
    assert window(there.open("alice").read("hi")) == ["hello", "Noted."]


def test_facts_that_a_process_last_read_are_not_served_after_they_were_erased(lab):
    memory = full(lab)
    memory.persist("by hand secretword", scope_id="alice")
    ask(memory, "alice")
    memory.erase("alice")
    assert memory._kept.fact_blocks[-1]._known == {}


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "in another process"])
@pytest.mark.parametrize("moment", ["before writing", "extracting", "embedding", "summarizing", "adding"])
def test_a_turn_in_flight_brings_nothing_back_of_an_erased_user(lab, moment, elsewhere):
    acts = {}
    embed = HashEmbedder()

    def at(name):
        acts.pop(name, lambda: None)()

    def embedder(texts):
        at("embedding")
        return embed(texts)

    memory = full(
        lab,
        location=Adding(lab.store, lambda: at("adding")),
        learn=MemoryModel(lambda messages: (at("extracting"), keep_all(messages))[1]),
        summarize=MemoryModel(lambda messages: (at("summarizing"), messages[1].text)[1]),
        embedder=embedder,
    )
    other = full(lab) if elsewhere else memory
    say(memory, "alice", "first secretword", "secretword")
    turn = memory.open("alice")
    turn.read("second secretword")
    turn.remember("third secretword")
    acts[moment] = lambda: other.erase("alice")
    at("before writing")
    turn.write("second secretword", "secretword")
    assert not acts
    assert "secretword" not in ask(memory, "alice", "secretword")
    assert memory.for_user("alice").messages == []
    lab.store.close()
    assert b"secretword" not in lab.raw()
    say(memory, "alice", "hello")
    assert window(memory.open("alice").read("hi")) == ["hello", "Noted."]


class Busy:
    """A store that does something once, just before or just after one of its calls."""

    def __init__(self, store):
        self._store = store
        self.calls = 0
        self.at = 0
        self.act = lambda: None

    def __getattr__(self, name):
        call = getattr(self._store, name)

        def method(*args, **kwargs):
            self.calls += 1
            number = self.calls
            if number == self.at:
                self.act()
            result = call(*args, **kwargs)
            if number == -self.at:
                self.act()
            return result

        return method


@pytest.mark.parametrize("what", ["erase", "forget"])
def test_whenever_a_turn_in_flight_is_overtaken_it_brings_nothing_back(lab, what):
    """At each point where the turn's write looks into the store or writes to it."""
    store = Busy(lab.store)
    memory = full(lab, location=store)
    other = full(lab)

    def erased():
        other.erase("alice")
        say(memory, "alice", "hello")

    def in_flight(at):
        memory.erase("alice")
        say(other, "alice", "early secretword")
        say(memory, "alice", "early secretword")
        turn = memory.open("alice")
        turn.remember("third secretword")
        store.calls, store.at = 0, at
        store.act = erased if what == "erase" else lambda: other.forget(scope_id="alice")
        turn.write("second secretword", "secretword")
        store.at = 0
        return store.calls

    for at in range(1, in_flight(0) + 1):
        for moment in (at, -at):
            in_flight(moment)
            kept = ["hello"] if what == "erase" else []
            assert lab.facts("alice") == kept, moment
            assert [t.text for t in other._turn_log.unmined(user_scope("alice"), agent="shop")] == kept, moment
            if what == "erase":
                assert "secretword" not in ask(memory, "alice", "secretword"), moment
                assert [m.text for m in memory.for_user("alice").messages] == ["hello", "Noted."], moment


@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "in another process"])
def test_a_turn_whose_user_was_erased_before_it_is_written_asks_no_model_and_shows_nothing_for_a_moment(lab, elsewhere):
    learn, summarize, asked = MemoryModel(), MemoryModel(""), []

    def embedder(texts):
        asked.extend(texts)
        return HashEmbedder()(texts)

    store = Busy(lab.store)
    memory = full(lab, location=store, learn=learn, summarize=summarize, embedder=embedder)
    say(memory, "alice", "early"), say(memory, "alice", "later")
    turn = memory.open("alice")
    (full(lab) if elsewhere else memory).erase("alice")
    learn.prompts.clear(), summarize.prompts.clear(), asked.clear()
    summarize.reply = "so far"
    seen = []
    look = store.__getattr__

    def looking(name):
        conversation = memory._windows.get(Key("", "alice"))
        seen.extend(conversation.messages if conversation and not elsewhere else ())
        seen.extend(lab.facts("alice"))
        return look(name)

    store.__class__ = type("Looking", (Busy,), {"__getattr__": lambda self, name: looking(name)})
    turn.write("secretword", "secretword")
    assert learn.prompts == summarize.prompts == asked == seen == []


class Adding:
    """A store that does something just before it adds a fact of a user's."""

    def __init__(self, store, before):
        self._store = store
        self._before = before

    def __getattr__(self, name):
        return getattr(self._store, name)

    def add(self, record):
        if record.scope.level is Level.USER:
            self._before()
        return self._store.add(record)


@pytest.mark.parametrize("moment", ["before writing", "extracting", "adding"])
@pytest.mark.parametrize("what", [{}, {"fact": "old news"}], ids=["all", "one"])
def test_a_turn_in_flight_learns_nothing_in_a_scope_where_something_was_forgotten(lab, moment, what):
    acts = {}

    def at(name):
        acts.pop(name, lambda: None)()

    memory = full(
        lab,
        location=Adding(lab.store, lambda: at("adding")),
        learn=MemoryModel(lambda messages: (at("extracting"), keep_all(messages))[1]),
    )
    say(memory, "alice", "old news")
    turn = memory.open("alice")
    acts[moment] = lambda: memory.forget(scope_id="alice", **what)
    at("before writing")
    turn.write("I live in Lisbon", "ok")
    assert lab.facts("alice") == []
    assert window(memory.open("alice").read("hi")) == ["I live in Lisbon", "ok"]
    assert memory._turn_log.unmined(Scope(Level.AGENT, "shop"), agent="shop") == []
    say(memory, "alice", "I live in Lisbon")
    assert lab.facts("alice") == ["I live in Lisbon"]


def test_a_window_that_a_turn_in_flight_wrote_too_late_is_not_kept_until_the_user_comes_again(lab):
    store = Busy(lab.store)
    memory = full(lab, location=store)
    turn = memory.open("alice")
    store.calls, store.at, store.act = 0, -1, lambda: full(lab).erase("alice")
    turn.write("secretword", "secretword")
    assert memory._windows.get(Key("", "alice")).turns == ()
    assert memory._windows.get(Key("", "alice")).unsummarized == ()
    [span] = lab.spans("memory.write.window")
    assert (span.attributes["memory.action"], span.attributes["memory.count"]) == ("discarded", 0)
    assert lab.spans("memory.write")[-1].attributes["memory.messages_added"] == 0


def test_facts_of_a_turn_that_was_overtaken_are_not_stored_for_a_moment(lab):
    memory = full(
        lab,
        location=Adding(lab.store, lambda: pytest.fail("stored")),
        learn=MemoryModel(lambda messages: (memory.forget(scope_id="alice"), keep_all(messages))[1]),
        turn_log=None,
    )
    memory.open("alice").write("I live in Lisbon", "ok")
    assert lab.spans("memory.write.facts")[-1].status.is_ok


def test_a_window_of_a_user_whom_another_process_erased_is_neither_shown_nor_saved(lab):
    here, there = full(lab), full(lab)
    for show in (True, False):
        say(there, "alice", "secretword")
        here.erase("alice")
        if show:
            assert there.for_user("alice").messages == []
        with pytest.raises(UsageError, match="nothing to save"):
            there.for_user("alice").save(lab.path / "alice.json")


def test_forgetting_in_one_scope_hinders_no_turn_of_another(lab):
    memory = full(lab)
    memory.persist("x", scope_id="bob"), memory.persist("y", tier="global")
    turn = memory.open("alice")
    memory.forget(scope_id="bob"), memory.erase("bob"), memory.forget(tier="global")
    turn.write("I live in Lisbon", "ok")
    assert lab.facts("alice") == ["I live in Lisbon"]


def test_forgetting_what_is_not_there_hinders_nobody(lab):
    memory = full(lab)
    turn = memory.open("alice")
    assert memory.forget(scope_id="alice", fact="never said") == memory.forget(scope_id="alice", fact=99) == 0
    turn.write("I live in Lisbon", "ok")
    assert lab.facts("alice") == ["I live in Lisbon"]


def test_of_two_marks_made_at_once_the_later_one_is_seen(lab):
    marks = full(lab)._marks
    scope = user_scope("alice")
    seen = set()
    for _ in range(3):
        marks.forgotten(scope)
        seen.add(marks.seen(scope).forgotten)
    marks.erased(scope)
    assert len(seen) == 3
    assert marks.seen(scope).erased
    assert marks.seen(scope).forgotten not in seen
    assert marks.seen(Scope(Level.AGENT, "alice")) == marks.seen(user_scope("bob")) == type(marks.seen(scope))()


class Overtaken:
    """A store in which another process marks first, once."""

    def __init__(self, store, other):
        self._store = store
        self._other = other

    def __getattr__(self, name):
        return getattr(self._store, name)

    def supersede(self, *args):
        other, self._other = self._other, lambda: None
        other()
        return self._store.supersede(*args)


def test_a_mark_that_is_overtaken_by_another_is_made_after_it(lab):
    from memtrace.reference.marks import Marks

    scope = user_scope("alice")
    plain = Marks(lab.store, lambda: 1.0)
    plain.forgotten(scope)
    overtaken = []
    marks = Marks(
        Overtaken(lab.store, lambda: (plain.forgotten(scope), overtaken.append(plain.seen(scope)))), lambda: 1.0
    )
    marks.forgotten(scope)
    assert plain.seen(scope) != overtaken[0]
    assert len(lab.store.newest(Scope(Level.SESSION, "alice"), None)) == 1


def test_marks_hold_no_ones_words(lab):
    memory = full(lab)
    fill(memory, "alice", "secretword")
    memory.forget(scope_id="alice", fact="new secretword")
    rows = lab.store.history(Scope(Level.SESSION, "alice"))
    assert rows
    assert "secretword" not in repr(rows)


def test_a_saved_file_goes_whichever_process_wrote_it(lab):
    there = full(lab)
    say(there, "alice", "secretword")
    there.for_user("alice").save(lab.path / "alice.json")
    assert full(lab).erase("alice").files == 1
    assert not (lab.path / "alice.json").exists()


def test_whenever_saving_is_overtaken_no_file_stays(lab):
    store = Busy(lab.store)
    memory, other, path = full(lab, location=store), full(lab), lab.path / "alice.json"

    def saves(at):
        path.unlink(missing_ok=True)
        other.erase("alice")
        say(memory, "alice", "secretword")
        store.calls, store.at, store.act = 0, at, lambda: other.erase("alice")
        with suppress(UsageError):
            memory.for_user("alice").save(path)
        store.at = 0
        return store.calls

    calls = saves(0)
    assert path.exists()
    for at in range(1, calls + 1):
        for moment in (at, -at):
            saves(moment)
            assert not path.exists(), moment


def test_a_file_cut_short_and_what_a_crash_left_beside_it_go_too(lab):
    memory, path = full(lab), lab.path / "alice.json"
    say(memory, "alice", "secretword")
    memory.for_user("alice").save(path)
    content = path.read_bytes()
    (lab.path / ".alice.json-part-abc").write_bytes(content)
    path.write_bytes(content[:-9])
    memory.erase("alice")
    assert sorted(file.name for file in lab.path.iterdir() if "json" in file.name) == []


def test_a_file_that_is_not_theirs_is_left_alone(lab):
    memory, path = full(lab), lab.path / "alice.json"
    say(memory, "alice", "hello"), say(memory, "alice2", "hello")
    memory.for_user("alice").save(path)
    path.unlink()
    memory.for_user("alice2").save(path)
    assert memory.erase("alice").files == 0
    assert path.exists()


def test_a_copy_of_an_erased_users_file_is_not_given_back(lab):
    memory, path, copy = full(lab), lab.path / "alice.json", lab.path / "copy.json"
    say(memory, "alice", "secretword")
    memory.for_user("alice").save(path)
    copy.write_bytes(path.read_bytes())
    memory.erase("alice")
    with pytest.raises(UsageError, match="erased"):
        full(lab).for_user("alice").load(copy)
    assert memory.for_user("alice").messages == []


def test_others_are_told_of_an_erased_user(lab):
    memory, told = full(lab, project_id="acme"), []
    memory.on_erase(lambda user, project: 1 / 0)
    memory.on_erase(lambda user, project: told.append((user, project)))
    with pytest.raises(ZeroDivisionError):
        memory.erase("alice")
    assert told == [("alice", "acme")]


def test_a_place_that_fails_keeps_no_other_from_being_cleared(lab):
    memory = full(lab)
    fill(memory, "alice", "secretword")
    memory.for_user("alice").save(lab.path / "alice.json")
    delete = memory._kept.recall.delete

    def fails(*_):
        raise StoreError("recall is down")

    memory._kept.recall.delete = fails
    with pytest.raises(StoreError, match="recall is down") as raised:
        memory.erase("alice")
    assert raised.value.__notes__ == ["not erased, so erase again: recalled"]
    assert lab.facts("alice") == []
    assert not (lab.path / "alice.json").exists()
    assert memory.for_user("alice").messages == []
    memory._kept.recall.delete = delete
    assert memory.erase("alice").recalled == 8


def test_a_forgotten_fact_is_gone_from_rows_vectors_caches_and_files(lab):
    memory = full(lab, learn=None, recall=None, turn_log=None)
    old = memory.persist("lives in secretword", scope_id="alice")
    memory.update("lives in Porto", old=old.id, scope_id="alice")
    memory.persist("has a dog", scope_id="alice")
    ask(memory, "alice"), memory.retrieve("lives", scope_id="alice")
    assert memory.forget(scope_id="alice", fact="lives in Porto") == 2
    assert "Porto" not in ask(memory, "alice")
    assert [record.text for record in memory.retrieve("lives", scope_id="alice")] == ["has a dog"]
    lab.store.close()
    assert b"secretword" not in lab.raw()
    assert b"Porto" not in lab.raw()


def test_erasing_in_one_project_leaves_the_other(lab):
    one, two = full(lab, project_id="acme"), full(lab, project_id="")
    fill(one, "alice", "oneword"), fill(two, "alice", "twoword")
    one.erase("alice")
    assert ask(two, "alice", "what is my code?").count("twoword") > 6
    assert SqliteRecall(lab.path / "recall.db").delete(Namespace("acme", "alice")) == 0


def test_marks_do_not_pile_up_in_what_a_turn_reads(lab):
    memory = lab.memory()
    for number in range(5):
        memory.persist(f"fact {number}", scope_id="alice")
        memory.forget(scope_id="alice")
    assert len(lab.store.newest(Scope(Level.SESSION, "alice"), None)) == 1
    assert json.loads(lab.store.newest(Scope(Level.SESSION, "alice"), 1)[0].text)[:2] == ["user", "forgotten"]
