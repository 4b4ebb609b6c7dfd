"""Runs that wait for an approval: whose they are, that each goes on once, and that another process can."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from scripted import FACES, FakeMemory, ScriptedModel, assistant, calls, recorded, system, user

from memtrace.errors import StoreError, TraceFormatError
from memtrace.model import Author, Message, Outcome, ToolCall
from memtrace.reference.agent import Agent
from memtrace.reference.checkpoints import Checkpoints, Owner, ResumeRefused
from memtrace.reference.outcomes import outcome_of
from memtrace.reference.progress import Progress, Queued, dumped, loaded
from memtrace.reference.tools import MEMORY_TOOLS, Tool, text_parameter

pytestmark = pytest.mark.filterwarnings("ignore::memtrace.identity.IdKeyWarning")
both_faces = pytest.mark.parametrize("face", FACES, ids=lambda face: face.name)

TRANSFER = calls(("transfer", {"query": "5 to bob"}), text="One moment.")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "runs.db"


@pytest.fixture
def bank(path):
    return Bank(path)


class Bank:
    """An agent with a tool that waits for an approval, and all that belongs to it."""

    def __init__(self, path, *replies, memory=None, name="bank", **options):
        self.transferred = []
        self.memory = memory or FakeMemory()
        self.model = ScriptedModel(*replies)
        self.checkpoints = Checkpoints(path)
        self.spans = recorded()
        tools = [
            Tool("transfer", self._transfer, parameters=text_parameter("query"), approval=True),
            Tool("lookup", lambda query: f"found {query}", parameters=text_parameter("query")),
            *MEMORY_TOOLS,
        ]
        self.agent = Agent(
            name,
            self.model,
            self.memory,
            tools=tools,
            checkpoints=self.checkpoints,
            tracing=self.spans.tracing,
            **options,
        )

    def _transfer(self, query):
        self.transferred.append(query)
        return f"sent {query}"

    def script(self, *replies):
        self.model.replies += replies
        return self


@both_faces
@pytest.mark.parametrize("way", ["run", "stream"])
def test_a_run_pauses_before_the_tools_body_and_keeps_nothing(face, bank, way):
    bank.script(TRANSFER)
    got = getattr(face, way)(bank.agent, "Pay bob", context="alice")
    result = got if way == "run" else got[1]
    assert (result.outcome, result.text, bool(result.token)) == (Outcome.PAUSED, "", True)
    assert (bank.transferred, bank.memory.windows) == ([], {})
    (root,) = [span for span in bank.spans.ended() if span.parent is None]
    assert (root.attributes["memtrace.outcome"], root.status.is_ok) == ("paused", True)


@both_faces
@pytest.mark.parametrize("way", ["resume", "fork"])
def test_a_run_that_goes_on_keeps_the_question_it_began_with(face, bank, way):
    bank.script(TRANSFER, "Done.")
    token = face.run(bank.agent, "Pay bob", context="alice", messages=[user("earlier")]).token
    result = getattr(face, way)(bank.agent, token, context="alice")
    assert (result.text, result.outcome, bank.transferred) == ("Done.", Outcome.OK, ["5 to bob"])
    assert bank.memory.windows == {"alice": [user("Pay bob"), assistant("Done.")]}
    assert [(m.author, m.text) for m in bank.model.prompts[1]] == [
        ("user", "earlier"),
        ("user", "Pay bob"),
        ("assistant", "One moment."),
        ("tool", "sent 5 to bob"),
    ]


@both_faces
def test_what_is_not_approved_is_not_done_and_the_model_hears_of_it(face, bank):
    bank.script(TRANSFER, "I did not.")
    token = face.run(bank.agent, "Pay bob", context="alice").token
    assert face.resume(bank.agent, token, approved=False, context="alice").text == "I did not."
    assert bank.transferred == []
    assert "not approved" in bank.model.prompts[1][-1].text


@both_faces
def test_an_approval_is_for_one_call(face, bank):
    bank.script(calls(("transfer", {"query": "1"}), ("lookup", {"query": "x"}), ("transfer", {"query": "2"})), "Done.")
    first = face.run(bank.agent, "Pay twice", context="alice")
    second = face.resume(bank.agent, first.token, context="alice")
    assert (second.outcome, bank.transferred) == (Outcome.PAUSED, ["1"])
    assert second.token != first.token
    assert face.resume(bank.agent, second.token, context="alice").text == "Done."
    assert bank.transferred == ["1", "2"]
    assert [m.text for m in bank.model.prompts[1][-3:]] == ["sent 1", "found x", "sent 2"]
    assert bank.memory.windows["alice"] == [user("Pay twice"), assistant("Done.")]


@both_faces
def test_an_approval_is_not_for_what_the_model_asks_next(face, bank):
    bank.script(TRANSFER, calls(("transfer", {"query": "all to mallory"})))
    token = face.run(bank.agent, "Pay bob", context="alice").token
    again = face.resume(bank.agent, token, context="alice")
    assert (again.outcome, bank.transferred) == (Outcome.PAUSED, ["5 to bob"])


@both_faces
def test_calls_before_the_one_that_waits_are_not_made_again(face, bank):
    looked = []
    bank.script(calls(("lookup", {"query": "x"}), ("transfer", {"query": "1"})), "Done.")
    tools = list(bank.agent.plan.roles[0].tools)
    tools[1] = Tool("lookup", lambda query: looked.append(query), parameters=text_parameter("query"))
    agent = Agent("bank", bank.model, bank.memory, tools=tools, checkpoints=bank.checkpoints)
    token = face.run(agent, "Go", context="alice").token
    face.resume(agent, token, context="alice")
    assert looked == ["x"]


@both_faces
def test_model_calls_before_the_pause_count_towards_the_limit(face, path):
    bank = Bank(path, TRANSFER, TRANSFER, max_iterations=2)
    token = face.run(bank.agent, "Pay", context="alice").token
    with pytest.raises(Exception, match="no answer after 2 model calls"):
        face.resume(bank.agent, token, context="alice")


@both_faces
def test_what_was_queued_before_the_pause_is_done_after_it(face, bank):
    bank.script(calls(("remember", {"text": "pays bob"}), ("transfer", {"query": "1"})), "Done.")
    token = face.run(bank.agent, "Go", context="alice").token
    assert bank.memory.queued == []
    face.resume(bank.agent, token, context="alice")
    assert bank.memory.queued == [("remember", "pays bob")]


@both_faces
def test_memory_is_read_anew_for_a_run_that_goes_on(face, bank):
    """Something forgotten while the run waited is not in its next prompt."""
    bank.memory.blocks = [system("old fact")]
    bank.script(TRANSFER, "Done.")
    token = face.run(bank.agent, "Pay", context="alice").token
    bank.memory.blocks = [system("new fact")]
    face.resume(bank.agent, token, context="alice")
    assert bank.model.prompts[0][0] == system("old fact")
    assert bank.model.prompts[1][0] == system("new fact")
    assert "old fact" not in str(bank.model.prompts[1])


# Whose run it is


@both_faces
@pytest.mark.parametrize("way", ["resume", "fork"])
@pytest.mark.parametrize("other", ["bob", "", "Alice", "alice ", None])
def test_a_run_goes_on_for_its_owner_alone(face, bank, way, other):
    bank.memory.windows["bob"] = [user("bob's secret")]
    bank.memory.windows["alice"] = [user("alice's secret")]
    bank.script(TRANSFER, "Done.")
    token = face.run(bank.agent, "Pay bob", context="alice").token
    before = {who: list(window) for who, window in bank.memory.windows.items()}
    bank.spans.clear()
    with pytest.raises(ResumeRefused) as refused:
        getattr(face, way)(bank.agent, token, context=other)
    assert outcome_of(refused.value) is Outcome.REFUSED
    assert (len(bank.model.prompts), bank.transferred, bank.memory.windows) == (1, [], before)
    (root,) = bank.spans.ended()
    assert root.attributes["memtrace.outcome"] == "refused"
    assert getattr(face, way)(bank.agent, token, context="alice").text == "Done."


@both_faces
def test_a_run_is_not_found_under_another_agent_or_project(face, path):
    token = face.run(Bank(path, TRANSFER).agent, "Pay", context="alice").token
    for other in (Bank(path, name="shop"), Bank(path, memory=FakeMemory(project="p"))):
        with pytest.raises(ResumeRefused):
            face.resume(other.agent, token, context="alice")


@both_faces
def test_nobodys_run_goes_on_for_nobody(face, bank):
    bank.script(TRANSFER, "Done.")
    token = face.run(bank.agent, "Pay").token
    with pytest.raises(ResumeRefused):
        face.resume(bank.agent, token, context="alice")
    assert face.resume(bank.agent, token).text == "Done."
    assert bank.memory.windows == {}


@both_faces
def test_no_one_is_told_whether_a_foreign_run_exists(face, bank):
    bank.script(TRANSFER)
    token = face.run(bank.agent, "Pay", context="alice").token
    messages = set()
    for guess in (token, "no such token", "\ud800"):
        with pytest.raises(ResumeRefused) as refused:
            face.resume(bank.agent, guess, context="bob")
        messages.add(str(refused.value))
    assert len(messages) == 1


@both_faces
def test_an_agent_without_checkpoints_refuses(face):
    with pytest.raises(ResumeRefused, match="without checkpoints="):
        face.resume(Agent("shop", ScriptedModel()), "token", context="alice")


# Once


@both_faces
def test_a_run_is_resumed_once_and_forked_as_often_as_wanted(face, bank):
    bank.script(TRANSFER, "Done.", "Forked.", "Forked again.")
    token = face.run(bank.agent, "Pay", context="alice").token
    face.resume(bank.agent, token, context="alice")
    with pytest.raises(ResumeRefused, match="resumed already"):
        face.resume(bank.agent, token, context="alice")
    assert face.fork(bank.agent, token, context="alice").text == "Forked."
    assert face.fork(bank.agent, token, context="alice", approved=False).text == "Forked again."
    assert len(bank.transferred) == 2


@both_faces
def test_a_resumed_run_that_fails_is_not_resumed_again(face, bank):
    bank.script(TRANSFER, ValueError("boom"))
    token = face.run(bank.agent, "Pay", context="alice").token
    with pytest.raises(ValueError, match="boom"):
        face.resume(bank.agent, token, context="alice")
    with pytest.raises(ResumeRefused):
        face.resume(bank.agent, token, context="alice")
    assert (bank.transferred, bank.memory.windows) == (["5 to bob"], {})


def test_of_many_who_resume_at_once_one_does(bank):
    bank.script(TRANSFER, *["Done."] * 8)
    token = bank.agent.run("Pay", context="alice").token
    meet, results = threading.Barrier(8), []

    def resume():
        meet.wait(10)
        try:
            results.append(bank.agent.resume(token, approved=True, context="alice").text)
        except ResumeRefused:
            results.append("refused")

    threads = [threading.Thread(target=resume) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sorted(results) == ["Done."] + ["refused"] * 7
    assert len(bank.transferred) == 1


# Another process


PAUSE = """
import sys
sys.path[:0] = {paths!r}
from test_reference_checkpoints import TRANSFER, Bank
print(Bank(sys.argv[1], TRANSFER).agent.run("Pay bob \\ud800 é", context="alice").token)
"""


@both_faces
def test_a_run_goes_on_in_another_process(face, path):
    tests = Path(__file__).parent
    script = PAUSE.format(paths=[str(tests), str(tests.parent)])
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True, timeout=60
    )
    bank = Bank(path, "Done.")
    face.resume(bank.agent, done.stdout.strip(), context="alice")
    assert bank.memory.windows["alice"] == [user("Pay bob \ud800 é"), assistant("Done.")]


# The file


def test_erasing_a_user_drops_their_runs_and_their_words(path, bank):
    bank.script(TRANSFER, TRANSFER, "Done.", TRANSFER)
    first = bank.agent.run("my secret zebra", context="alice").token
    second = bank.agent.run("my other zebra", context="alice").token
    bank.agent.resume(second, approved=True, context="alice")
    other = bank.agent.run("mine", context="alicia").token
    assert bank.checkpoints.erase("alice", project="p") == 0
    assert bank.checkpoints.erase("alice") == 2
    for token in (first, second):
        with pytest.raises(ResumeRefused):
            bank.agent.fork(token, approved=True, context="alice")
    assert b"zebra" not in path.read_bytes()
    bank.script("Done.")
    assert bank.agent.resume(other, approved=True, context="alicia").text == "Done."


def test_a_run_can_be_discarded(bank):
    bank.script(TRANSFER)
    token = bank.agent.run("Pay", context="alice").token
    assert [bank.checkpoints.discard(token), bank.checkpoints.discard(token)] == [True, False]
    with pytest.raises(ResumeRefused):
        bank.agent.resume(token, approved=True, context="alice")


def test_the_file_is_its_users_alone(path, bank):
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_path_that_cannot_be_opened_is_a_store_error(tmp_path):
    with pytest.raises(StoreError):
        Checkpoints(tmp_path / "missing" / "runs.db")


def test_progress_survives_as_it_is():
    progress = Progress(
        "question \ud800 \x00",
        "second",
        (user("before"),),
        [
            Message(Author.ASSISTANT, "", (ToolCall("1", "a", "{}"), ToolCall("2", "b"))),
            Message(Author.TOOL, "result", tool_call_id="1"),
        ],
        [Queued("forget", "x")],
        3,
        "third",
    )
    assert loaded(dumped(progress)) == progress
    assert [call.id for call in progress.pending()] == ["2"]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"question": 1}'])
def test_what_is_no_progress_is_said_to_be_none(text):
    with pytest.raises(TraceFormatError):
        loaded(text)


def test_an_unreadable_run_is_not_used_up(bank):
    token = bank.checkpoints.save("bank", Owner("alice"), Progress("q", "bank"))

    def replace(progress):
        with bank.checkpoints._database.transaction() as connection:
            connection.execute("UPDATE paused_runs SET progress = ?", (progress,))

    replace("{}")
    with pytest.raises(TraceFormatError):
        bank.checkpoints.resume(token, "bank", Owner("alice"))
    replace(dumped(Progress("q", "bank")))
    assert bank.checkpoints.resume(token, "bank", Owner("alice")).question == "q"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_checkpoints_opened_before_a_fork_work_in_parent_and_child(bank):
    token = bank.checkpoints.save("bank", Owner("alice"), Progress("q", "bank"))
    child = os.fork()
    if not child:
        os._exit(0 if bank.checkpoints.resume(token, "bank", Owner("alice")).question == "q" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    with pytest.raises(ResumeRefused):
        bank.checkpoints.resume(token, "bank", Owner("alice"))
