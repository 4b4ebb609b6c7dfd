"""A saved window: given back whole, to its user, and never in the place of what it does not continue."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from remembering import Lab, MemoryModel, ask, say, window

from memtrace.errors import TraceFormatError, UsageError

pytestmark = pytest.mark.filterwarnings("ignore::memtrace.identity.IdKeyWarning")


@pytest.fixture
def lab(tmp_path):
    lab = Lab(tmp_path)
    yield lab
    lab.store.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "window.json"


def saved(lab, path, user="alice", **options):
    memory = lab.memory(**options)
    for number in range(3):
        say(memory, user, f"q{number} \ud800 ü\n", f"a{number}")
    memory.for_user(user).save(path)
    return memory


def test_a_saved_window_comes_back_in_another_process_with_its_summary(lab, path):
    options = {"summarize": MemoryModel("They met."), "window": 4}
    before = saved(lab, path, **options)
    after = lab.memory(**options)
    after.for_user("alice").load(str(path))
    assert after.for_user("alice").messages == before.for_user("alice").messages
    assert "They met." in ask(after, "alice")
    assert window(after.open("alice").read("hi")) == ["q1 \ud800 ü\n", "a1", "q2 \ud800 ü\n", "a2"]


def test_a_loaded_window_is_cut_to_the_window(lab, path):
    saved(lab, path)
    memory = lab.memory(window=2)
    memory.for_user("alice").load(path)
    assert [m.text for m in memory.for_user("alice").messages] == ["q2 \ud800 ü\n", "a2"]


def test_what_a_smaller_window_cuts_off_a_loaded_one_is_summarized(lab, path):
    saved(lab, path)
    summarize = MemoryModel("so far")
    memory = lab.memory(window=2, summarize=summarize)
    memory.for_user("alice").load(path)
    say(memory, "alice", "hello")
    assert [message.text[:2] for message in summarize.prompts[0][1:-1:2]] == ["q0", "q1", "q2"]


@pytest.mark.parametrize("who", [("bob", ""), ("alice ", ""), ("alice", "acme")])
def test_another_user_or_project_gets_and_overwrites_nothing(lab, path, who):
    user, project = who
    saved(lab, path)
    content = path.read_bytes()
    memory = lab.memory(project_id=project)
    with pytest.raises(UsageError, match="another user"):
        memory.for_user(user).load(path)
    assert memory.for_user(user).messages == []
    say(memory, user, "hello")
    with pytest.raises(UsageError, match="another user"):
        memory.for_user(user).save(path)
    assert path.read_bytes() == content


def test_a_file_cut_short_anywhere_is_one_clear_error_and_changes_nothing(lab, path):
    memory = saved(lab, path)
    content = path.read_bytes()
    kept = memory.for_user("alice").messages
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        with pytest.raises(TraceFormatError, match=r"window\.json"):
            memory.for_user("alice").load(path)
    assert memory.for_user("alice").messages == kept


def content(**changed):
    """A saved window as a file holds it, changed."""
    window = {"format": "memtrace window 1", "project": "", "user": "alice", "erasure": "", "conversation": "x"}
    return json.dumps({**window, "revision": 1, "summary": "", "turns": [], "unsummarized": [], **changed}).encode()


FOREIGN = (
    b"[]",
    b"{}",
    b"null",
    b"\xff\xfe",
    b"hello",
    content(format="other"),
    content(turns=[["only a question"]]),
    content(turns=[["a question", 3]]),
    content(user=None),
    content(revision="1"),
)


@pytest.mark.parametrize("content", FOREIGN)
def test_a_foreign_file_is_neither_loaded_nor_overwritten(lab, path, content):
    path.write_bytes(content)
    memory = lab.memory()
    say(memory, "alice", "hello")
    for refused in (memory.for_user("alice").load, memory.for_user("alice").save):
        with pytest.raises(TraceFormatError, match="no saved window"):
            refused(path)
    assert path.read_bytes() == content


def test_a_crash_while_saving_leaves_the_old_file(lab, path, monkeypatch):
    memory = saved(lab, path)
    content = path.read_bytes()
    say(memory, "alice", "more")

    def crash(*_, **__):
        raise KeyboardInterrupt

    for step in ("fsync", "fdopen"):
        with monkeypatch.context() as patched:
            patched.setattr(os, step, crash)
            with pytest.raises(KeyboardInterrupt):
                memory.for_user("alice").save(path)
    assert path.read_bytes() == content
    assert list(path.parent.glob(".window*")) == []
    memory.for_user("alice").save(path)
    assert path.read_bytes() != content


def test_a_user_without_a_conversation_here_saves_nothing_over_the_file(lab, path):
    saved(lab, path)
    content = path.read_bytes()
    with pytest.raises(UsageError, match="nothing to save"):
        lab.memory().for_user("alice").save(path)
    assert path.read_bytes() == content


def test_after_the_window_was_dropped_saving_destroys_nothing(lab, path):
    memory = saved(lab, path, max_users=1)
    content = path.read_bytes()
    say(memory, "bob", "hello")
    with pytest.raises(UsageError, match="nothing to save"):
        memory.for_user("alice").save(path)
    say(memory, "alice", "anew")
    with pytest.raises(UsageError, match="does not continue"):
        memory.for_user("alice").save(path)
    memory.for_user("alice").save(path.with_name("other.json"))
    with pytest.raises(UsageError, match="does not continue"):
        memory.for_user("alice").save(path)
    assert path.read_bytes() == content


def test_a_conversation_that_goes_on_replaces_its_own_file(lab, path):
    memory = saved(lab, path)
    say(memory, "alice", "more")
    memory.for_user("alice").save(path)
    after = lab.memory()
    after.for_user("alice").load(path)
    say(after, "alice", "still more")
    after.for_user("alice").save(path)
    last = lab.memory()
    last.for_user("alice").load(path)
    assert [m.text for m in last.for_user("alice").messages][-4:] == ["more", "Noted.", "still more", "Noted."]


def test_of_two_processes_that_continue_one_file_the_second_to_save_is_refused(lab, path):
    saved(lab, path)
    one, two = lab.memory(), lab.memory()
    for memory in (one, two):
        memory.for_user("alice").load(path)
        say(memory, "alice", "more")
    one.for_user("alice").save(path)
    content = path.read_bytes()
    with pytest.raises(UsageError, match="does not continue"):
        two.for_user("alice").save(path)
    assert path.read_bytes() == content


def test_a_saved_window_is_its_owners_alone(lab, path):
    saved(lab, path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_place_that_cannot_be_read_or_written_is_one_clear_line(lab, tmp_path):
    memory = lab.memory()
    say(memory, "alice", "hello")
    for path in (tmp_path, tmp_path / "missing" / "window.json"):
        with pytest.raises(UsageError, match=str(path)):
            memory.for_user("alice").save(path)
    with pytest.raises(UsageError, match="is not there"):
        memory.for_user("alice").load(tmp_path / "never.json")


def test_a_long_name_can_be_saved_under(lab, tmp_path):
    memory = lab.memory()
    say(memory, "alice", "hello")
    path = tmp_path / ("x" * 250)
    memory.for_user("alice").save(path)
    memory.for_user("alice").load(path)


def test_sessions_are_saved_apart(lab, path):
    memory = lab.memory(user_id=lambda c: c[0], session_id=lambda c: c[1])
    say(memory, ("alice", "one"), "first"), say(memory, ("alice", "two"), "second")
    memory.for_user("alice", "two").save(path)
    after = lab.memory()
    after.for_user("alice", "two").load(path)
    assert [m.text for m in after.for_user("alice", "two").messages] == ["second", "Noted."]


def test_a_relative_path_is_found_again_from_elsewhere(lab, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    memory = lab.memory()
    say(memory, "alice", "hello")
    memory.for_user("alice").save("window.json")
    monkeypatch.chdir("/")
    assert memory.erase("alice").files == 1
    assert not Path(tmp_path, "window.json").exists()
